//! When Envoys started, for telling a restart loop. Must not count a restart of this agent as one of Envoy.

use std::time::Duration;

use gwready_core::time::Mono;

/// How long a start is remembered.
const KEPT: Duration = Duration::from_mins(10);

/// The starts of the last ten minutes.
#[derive(Debug, Default)]
pub(super) struct Starts {
    seen: Vec<(u32, u64, Mono)>,
}

impl Starts {
    /// Notes a live Envoy; known ones and old ones change nothing. `boot`: the boot clock at `now`, which runs on while the
    /// machine sleeps; [`Mono`] does not.
    pub(super) fn note(&mut self, pid: u32, start_ticks: u64, now: Mono, boot: Duration) {
        self.seen.retain(|(_, _, at)| now.since(*at) <= KEPT);
        if self.seen.iter().any(|(seen_pid, seen_ticks, _)| (*seen_pid, *seen_ticks) == (pid, start_ticks)) {
            return;
        }
        let at = started_at(start_ticks, now, boot);
        if now.since(at) <= KEPT {
            self.seen.push((pid, start_ticks, at));
        }
    }

    /// Ascending.
    pub(super) fn list(&self) -> Vec<Mono> {
        let mut starts: Vec<Mono> = self.seen.iter().map(|(_, _, at)| *at).collect();
        starts.sort_unstable();
        starts
    }
}

/// `stat` field 22 counts clock ticks on `CLOCK_BOOTTIME`.
fn started_at(start_ticks: u64, now: Mono, boot: Duration) -> Mono {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let started = Duration::from_millis(start_ticks.saturating_mul(1000) / per_second);
    let age = boot.saturating_sub(started);
    Mono(now.0.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn ticks(at: Duration) -> u64 {
        at.as_secs() * rustix::param::clock_ticks_per_second()
    }

    #[test]
    fn each_start_counts_once_and_is_forgotten_after_ten_minutes() {
        // The machine slept for an hour: its boot clock is ahead.
        let (mut starts, now) = (Starts::default(), Mono(0).plus(HOUR));
        starts.note(1, ticks(HOUR * 2 - Duration::from_secs(3)), now, HOUR * 2);
        starts.note(1, ticks(HOUR * 2 - Duration::from_secs(3)), now, HOUR * 2);
        starts.note(2, ticks(HOUR * 2 - Duration::from_secs(5)), now, HOUR * 2);
        assert_eq!(starts.list().iter().map(|at| now.since(*at).as_secs()).collect::<Vec<_>>(), [5, 3]);
        starts.note(3, 0, now.plus(KEPT), HOUR * 2 + KEPT);
        assert_eq!(starts.list(), []);
    }

    #[test]
    fn an_envoy_that_runs_for_days_did_not_start_when_the_agent_did() {
        let mut starts = Starts::default();
        starts.note(1, ticks(HOUR), Mono(0).plus(HOUR * 2), HOUR * 2);
        assert_eq!(starts.list(), []);
    }
}
