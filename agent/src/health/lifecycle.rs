//! The life of the health port: bind, serve, retire.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::listen;
use tokio::sync::oneshot;

use super::accept::{Kind, Listener};
use super::bind::{BindError, Port, bind_port};
use super::control::Control;
use super::event_loop::EventLoop;
use super::settings::{HealthSettings, Limits};
use super::stats::HealthStats;
use super::takeover::{is_superseded, steer_away, steer_to_self};
use crate::publish::Publisher;

/// Connections the kernel may queue (bounded by net.core.somaxconn).
const BACKLOG: i32 = 4096;
/// Between two looks while waiting for another agent.
const LOOK: Duration = Duration::from_millis(10);

/// The ports are ours, but nothing is answered yet.
#[derive(Debug)]
pub struct Bound {
    ports: Vec<(Port, Kind)>,
    settings: HealthSettings,
    stats: Arc<HealthStats>,
}

/// Takes the health port and the agent-check port.
///
/// # Errors
/// [`BindError::InUse`] if a process that does not share it has a port.
pub fn bind(settings: HealthSettings) -> Result<Bound, BindError> {
    let mut ports = vec![(bind_port("health.listen", settings.listen)?, Kind::Health)];
    if let Some(address) = settings.agent_check {
        ports.push((bind_port("agent_check.listen", address)?, Kind::AgentCheck));
    }
    Ok(Bound { ports, settings, stats: Arc::default() })
}

impl Bound {
    /// True if somebody listens on one of the ports: a predecessor, which answers until we have a verdict of our own.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.ports.iter().any(|(port, _)| port.contended)
    }

    /// Address of the health port, with the port that the kernel chose if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address_of(Kind::Health)
    }

    /// Address of the agent-check port, if there is one.
    #[must_use]
    pub fn agent_check_address(&self) -> Option<SocketAddr> {
        self.address_of(Kind::AgentCheck)
    }

    /// The numbers of the ports taken.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.ports.iter().map(|(port, _)| port.address.port()).collect()
    }

    fn address_of(&self, kind: Kind) -> Option<SocketAddr> {
        self.ports.iter().find(|(_, of)| *of == kind).map(|(port, _)| port.address)
    }

    /// The counters, also before serving.
    #[must_use]
    pub fn stats(&self) -> Arc<HealthStats> {
        Arc::clone(&self.stats)
    }

    /// Serves at once if nobody else does, else when the first verdict stands or the predecessor is gone.
    ///
    /// # Errors
    /// As [`Bound::serve`].
    pub async fn serve_when_ready(self, publisher: Arc<Publisher>) -> io::Result<Serving> {
        if self.is_contended() {
            tracing::info!("another agent answers on the health port; taking over when the first verdict stands");
            loop {
                if tokio::time::timeout(LOOK, publisher.first_standing()).await.is_ok() || !self.is_still_contended() {
                    break;
                }
            }
        }
        self.serve(publisher)
    }

    fn is_still_contended(&self) -> bool {
        // Unreadable: keep waiting for the verdict.
        self.ports.iter().any(|(port, _)| super::members::read_members(port.address.port()).map_or(true, |members| !members.is_empty()))
    }

    /// Joins the group of each port, steers it to this process and answers from a thread of its own.
    ///
    /// # Errors
    /// If the sockets can't listen or the thread can't be started.
    pub fn serve(self, publisher: Arc<Publisher>) -> io::Result<Serving> {
        let control = Arc::new(Control::new()?);
        let mut listeners = Vec::new();
        let mut copies = Vec::new();
        for (port, kind) in self.ports {
            listen(&port.socket, BACKLOG)?;
            copies.push((port.name, port.socket.try_clone()?, port.address, port.contended));
            listeners.push(Listener { kind, socket: port.socket });
        }
        let stats = Arc::clone(&self.stats);
        let limits = self.settings.limits.clone();
        let on_start = self.settings.on_thread_start;
        let mut event_loop =
            EventLoop::new(listeners, publisher, self.stats, Arc::clone(&control), self.settings.unready, self.settings.limits)?;
        let (ended, end) = oneshot::channel();
        let thread = thread::Builder::new().name("health".to_owned()).spawn(move || {
            on_start.into_iter().for_each(|start| start());
            // The receiver is gone if nobody waits for the end; a panic drops the sender, which tells as much.
            _ = ended.send(event_loop.run());
        })?;
        for (name, socket, address, contended) in &copies {
            if *contended {
                steer_to_self(name, socket.as_fd(), *address, &control);
            } else {
                // Alone, so the index is 0; a successor's index and the kernel's fallback keep this harmless.
                _ = super::steer::steer_to(socket, 0);
            }
        }
        Ok(Serving { copies, control, stats, limits, thread: Some(thread), end })
    }
}

/// The health port answers.
#[derive(Debug)]
pub struct Serving {
    copies: Vec<(&'static str, std::os::fd::OwnedFd, SocketAddr, bool)>,
    control: Arc<Control>,
    stats: Arc<HealthStats>,
    limits: Limits,
    thread: Option<thread::JoinHandle<()>>,
    end: oneshot::Receiver<io::Result<()>>,
}

impl Serving {
    /// Address of the health port.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.copies.first().map(|(_, _, address, _)| *address)
    }

    /// Address of the agent-check port, if there is one.
    #[must_use]
    pub fn agent_check_address(&self) -> Option<SocketAddr> {
        self.copies.get(1).map(|(_, _, address, _)| *address)
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Arc<HealthStats> {
        Arc::clone(&self.stats)
    }

    /// Resolves only if the serving thread ends though nobody asked it to: the process must end, with this message.
    pub async fn failed(&mut self) -> String {
        match (&mut self.end).await {
            Ok(Err(error)) => format!("the health port's thread ended: {error}"),
            Ok(Ok(())) => "the health port's thread ended".to_owned(),
            Err(_) => "the health port's thread panicked".to_owned(),
        }
    }

    /// Hands over: waits until new connections go to a successor, or there is none, lets handshakes end, answers what is
    /// queued and open, closes. Serves meanwhile. Bounded by the limits.
    pub async fn retire(self) {
        let (done, wait) = oneshot::channel();
        // A thread of its own: the looks block, and the runtime may have no blocking pool.
        let spawned = thread::Builder::new().name("retire".to_owned()).spawn(move || {
            self.retire_blocking();
            _ = done.send(());
        });
        if spawned.is_ok() {
            // An error means that the thread panicked; there is nothing left to wait for.
            _ = wait.await;
        }
    }

    fn retire_blocking(mut self) {
        let patience = Instant::now() + self.limits.retire_patience;
        for (name, socket, address, _) in &self.copies {
            let mut looks = 0_u32;
            while !is_superseded(socket.as_fd(), *address, &self.control) {
                looks += 1;
                // The successor steers as soon as it has joined; after some looks it needs help.
                if looks > 10 && steer_away(socket.as_fd(), *address, &self.control) {
                    break;
                }
                if Instant::now() > patience {
                    tracing::warn!(port = name, "no successor answers on the port; closing it all the same");
                    break;
                }
                thread::sleep(LOOK);
            }
        }
        thread::sleep(self.limits.retire_grace);
        // Before the thread closes its own: the last descriptor closes the socket, and that has to be after the queue was emptied.
        self.copies.clear();
        self.control.finish();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the health port's thread panicked while it retired");
        }
    }
}

impl Drop for Serving {
    /// Without [`Serving::retire`] the port is closed at once, as at the end of a test or of a process that failed.
    fn drop(&mut self) {
        self.copies.clear();
        self.control.finish();
    }
}
