//! Who else listens on the health and agent-check ports while we serve: an impostor in our group gets a share of the balancers,
//! one on a more specific address gets all of that address. Tells; must not act on it, and never delays the observer by a search of /proc.
//!
//! Runs on the observer thread, which alone may read other processes' descriptors. A listener that was not there at the look
//! before is searched for by a thread of its own, which ends with the search.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gwready_core::facts::sockets::Listener;
use gwready_core::render::text::sanitise;
use gwready_core::time::Mono;

use super::members::{Whose, identify};
use crate::logging::Notices;
use crate::observe::sockets::SocketReader;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// Looks after the ports that balancers read.
pub struct PortGuard {
    ports: Vec<u16>,
    sockets: SocketReader,
    /// Cookies of the listeners at the last look.
    seen: BTreeSet<u64>,
    next: Mono,
    told: Arc<Mutex<Notices<(String, SocketAddr)>>>,
}

impl PortGuard {
    /// Looks after these ports; nothing is read yet.
    #[must_use]
    pub fn new(ports: Vec<u16>) -> Self {
        Self { ports, sockets: SocketReader::new(), seen: BTreeSet::new(), next: Mono::default(), told: Arc::default() }
    }

    /// Looks, if the last look is long enough ago. A table that can't be read is no news: the next look is soon.
    pub fn look(&mut self, now: Mono) {
        if now < self.next {
            return;
        }
        self.next = now.plus(PAUSE);
        let Ok(listeners) = self.sockets.read_listeners(&self.ports) else { return };
        let known = std::mem::replace(&mut self.seen, listeners.iter().map(|listener| listener.id.cookie).collect());
        let new: Vec<Listener> = listeners.into_iter().filter(|listener| !known.contains(&listener.id.cookie)).collect();
        if new.is_empty() {
            return;
        }
        let told = Arc::clone(&self.told);
        let search = move || new.iter().filter_map(find_stranger).for_each(|stranger| tell(&told, &stranger));
        if let Err(error) = std::thread::Builder::new().name("port-guard".to_owned()).spawn(search) {
            tracing::warn!(%error, "cannot look who else listens on the health port");
        }
    }
}

/// A process that is surely no agent of ours.
struct Stranger {
    name: String,
    pid: Option<i32>,
    place: SocketAddr,
}

/// Who holds the listener, if it is surely no agent: another executable, or another user.
fn find_stranger(listener: &Listener) -> Option<Stranger> {
    let place = SocketAddr::new(listener.address, listener.port);
    match identify(listener.id.inode) {
        Whose::Stranger(holder) => Some(Stranger { name: holder.comm, pid: Some(holder.pid), place }),
        Whose::Unknown if listener.uid != rustix::process::geteuid().as_raw() => {
            Some(Stranger { name: format!("a process of uid {}", listener.uid), pid: None, place })
        }
        Whose::Agent | Whose::Unknown => None,
    }
}

/// One line per name and place, however often it comes again.
fn tell(told: &Mutex<Notices<(String, SocketAddr)>>, stranger: &Stranger) {
    let Stranger { name, pid, place } = stranger;
    if told.lock().unwrap_or_else(PoisonError::into_inner).is_news((name.clone(), *place)) {
        let pid = pid.map(|pid| format!("[{pid}]")).unwrap_or_default();
        tracing::warn!(
            stranger = format!("{} on {place}", sanitise(&format!("{name}{pid}"))),
            "a foreign process listens on the health port: balancers get its answers instead of ours, or a share of them; end it, or give the agent another port"
        );
    }
}
