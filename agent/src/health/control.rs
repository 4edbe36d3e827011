//! What the owner of the health port and its serving thread say to each other.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Shared by [`super::Serving`] and the serving thread.
#[derive(Debug)]
pub(super) struct Control {
    /// Readable when `finish` was set.
    pub(super) wake: OwnedFd,
    finish: AtomicBool,
    /// Source port of our own connection to ourselves; 0 = none.
    own_port: AtomicU16,
    own_arrived: AtomicBool,
}

impl Control {
    pub(super) fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { wake, finish: AtomicBool::new(false), own_port: AtomicU16::new(0), own_arrived: AtomicBool::new(false) })
    }

    /// Tells the thread to empty its accept queues, close them, serve what it has and end.
    pub(super) fn finish(&self) {
        self.finish.store(true, Ordering::Release);
        // Fails only if the counter is full, and then the thread is awake already.
        _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.finish.load(Ordering::Acquire)
    }

    /// Announces a connection of our own from local port `port`.
    pub(super) fn expect_own(&self, port: u16) {
        self.own_arrived.store(false, Ordering::Release);
        self.own_port.store(port, Ordering::Release);
    }

    /// Ends the announcement; true if the connection arrived at our own accept queue.
    pub(super) fn own_arrived(&self) -> bool {
        self.own_port.store(0, Ordering::Release);
        self.own_arrived.load(Ordering::Acquire)
    }

    /// Called for each accepted connection; true if it is our own.
    pub(super) fn is_own(&self, peer_port: u16) -> bool {
        let own = peer_port != 0 && self.own_port.load(Ordering::Acquire) == peer_port;
        if own {
            self.own_arrived.store(true, Ordering::Release);
        }
        own
    }
}
