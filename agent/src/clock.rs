//! The only place that reads the clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gwready_core::time::{Mono, Now};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds: the clock of the kernel's event time stamps and of Cilium's liveness stamp.
#[must_use]
pub fn mono() -> Mono {
    let t = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(t.tv_nsec).unwrap_or(0);
    Mono(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Both clocks at (nearly) the same moment.
#[must_use]
pub fn now() -> Now {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono: mono(), unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX) }
}

/// `CLOCK_BOOTTIME`: what process start times count on; unlike [`mono`] it runs on while the machine sleeps.
#[must_use]
pub fn boot() -> Duration {
    let t = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// `CLOCK_THREAD_CPUTIME_ID`: what the calling thread has cost so far, whoever else wanted the core meanwhile.
#[must_use]
pub fn thread_cpu() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}
