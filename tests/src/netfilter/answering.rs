//! Listeners that say who they are and where they were reached: a banner with a name and the accepted socket's own address.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::{Shutdown, shutdown};
use socket2::{Domain, Protocol, Socket, Type};

use crate::space::Space;

/// Bound of writing a banner of some bytes.
const PATIENCE: Duration = Duration::from_secs(2);

/// One listener and the thread that answers for it. Ends when dropped.
#[derive(Debug)]
pub struct Answering {
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Listens inside `space`; `transparent` sockets take connections that TPROXY gives them.
    pub fn start(space: &Space, name: &str, at: SocketAddr, transparent: bool) -> Result<Self> {
        let listener = space.enter(|| open(at, transparent).with_context(|| format!("listening at {at}")))?;
        let accepting = listener.try_clone()?;
        let name = name.to_owned();
        let thread = std::thread::Builder::new().name(format!("answer-{at}")).spawn(move || {
            // An error is the shutdown of the listener.
            while let Ok((mut stream, _)) = accepting.accept() {
                let told = stream.local_addr().map(|local| format!("{name} {}\n", canonical(local)));
                if let Ok(told) = told {
                    // A client that is gone needs no answer.
                    let _ = stream.set_write_timeout(Some(PATIENCE)).and_then(|()| stream.write_all(told.as_bytes()));
                }
            }
        })?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // Wakes the accept with an error.
        let _ = shutdown(self.listener.as_fd(), Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn open(at: SocketAddr, transparent: bool) -> Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    match (transparent, at.is_ipv4()) {
        (true, true) => socket.set_ip_transparent_v4(true)?,
        (true, false) => socket.set_ip_transparent_v6(true)?,
        (false, _) => {}
    }
    socket.bind(&at.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}
