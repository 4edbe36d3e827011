//! Wakes the observer from other threads: an eventfd, so that it sits in one `poll` with netlink and the ring buffer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::schedule::Trigger;

/// The calling side; cheap to clone.
#[derive(Debug, Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

/// The observer's side.
#[derive(Debug)]
pub struct Wake {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fd: OwnedFd,
    /// One bit per [`Trigger`]: wake-ups coalesce, none is lost.
    pending: AtomicU32,
}

/// A connected pair.
///
/// # Errors
/// If the kernel refuses an eventfd.
pub fn pair() -> io::Result<(Waker, Wake)> {
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { fd, pending: AtomicU32::new(0) });
    Ok((Waker { shared: Arc::clone(&shared) }, Wake { shared }))
}

impl Waker {
    /// Asks for a pass. Never blocks; several calls before the observer looks are one.
    pub fn wake(&self, trigger: Trigger) {
        self.shared.pending.fetch_or(trigger.bit(), Ordering::AcqRel);
        // The counter can only be full after 2^64 - 2 unread wake-ups; then the descriptor is readable anyway.
        let _ = rustix::io::write(&self.shared.fd, &1_u64.to_ne_bytes());
    }
}

impl Wake {
    /// What was asked for since the last call, and makes the descriptor unreadable again.
    #[must_use]
    pub fn take(&self) -> Vec<Trigger> {
        let mut counter = [0_u8; 8];
        // Nothing to read means nobody wrote since the last call: fine.
        let _ = rustix::io::read(&self.shared.fd, &mut counter);
        let bits = self.shared.pending.swap(0, Ordering::AcqRel);
        Trigger::ALL.into_iter().filter(|trigger| bits & trigger.bit() != 0).collect()
    }
}

impl Wake {
    /// Waits until somebody wakes, at most `patience`.
    ///
    /// # Errors
    /// As poll(2)'s, interruptions aside.
    pub fn wait(&self, patience: Duration) -> io::Result<()> {
        let timeout = Timespec { tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX), tv_nsec: patience.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.shared.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_coalesce_and_none_is_lost() {
        let (waker, wake) = pair().unwrap();
        assert!(wake.take().is_empty());
        waker.wake(Trigger::Probe);
        waker.wake(Trigger::Probe);
        waker.clone().wake(Trigger::Drain);
        assert_eq!(wake.take(), [Trigger::Probe, Trigger::Drain]);
        assert!(wake.take().is_empty());
    }
}
