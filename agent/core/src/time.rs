//! Time as plain numbers: monotonic nanoseconds with a wall-clock anchor. Nothing here reads a clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on `CLOCK_MONOTONIC`, in nanoseconds since boot. Plain data, so it can be written to a snapshot file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mono(pub u64);

impl Mono {
    /// Time from `earlier` to `self`; zero if `earlier` is later (a clock that seems to run backwards ages nothing).
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This point moved forward by `by`; stops at the end of the range.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// One moment on both clocks. Lets a reader turn any [`Mono`] of the same boot into wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic reading.
    pub mono: Mono,
    /// Wall clock at the same moment: milliseconds since the Unix epoch, UTC.
    pub unix_ms: u64,
}

impl Now {
    /// Wall-clock milliseconds since the Unix epoch of a point of the same boot, before or after `self`.
    #[must_use]
    pub const fn unix_ms_of(&self, at: Mono) -> u64 {
        if at.0 >= self.mono.0 {
            self.unix_ms.saturating_add((at.0 - self.mono.0) / 1_000_000)
        } else {
            self.unix_ms.saturating_sub((self.mono.0 - at.0) / 1_000_000)
        }
    }
}

/// When a source was read: from the first byte asked for to the last byte received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Just before the read began.
    pub begin: Mono,
    /// Just after it ended.
    pub end: Mono,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_never_runs_backwards() {
        assert_eq!(Mono(5).since(Mono(9)), Duration::ZERO);
        assert_eq!(Mono(9).since(Mono(5)), Duration::from_nanos(4));
    }

    #[test]
    fn wall_time_of_a_point_before_and_after_the_anchor() {
        let now = Now { mono: Mono(5_000_000_000), unix_ms: 1_000_000 };
        assert_eq!(now.unix_ms_of(Mono(4_000_000_000)), 999_000);
        assert_eq!(now.unix_ms_of(Mono(6_500_000_000)), 1_001_500);
    }
}
