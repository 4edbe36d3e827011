//! When a pool member changes: interval and timeout arithmetic, on the clock that the caller keeps.

use std::time::Duration;

use super::monitor::{Finding, Monitor};

/// What the pool does with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// Never answered and not yet timed out. Gets traffic (F5 RFE 496733).
    Unknown,
    /// Gets traffic.
    Up,
    /// Keeps existing connections, gets no new ones.
    Disabled,
    /// Gets nothing.
    Down,
}

impl Availability {
    /// Whether new connections go there.
    #[must_use]
    pub const fn takes_new(self) -> bool {
        matches!(self, Self::Unknown | Self::Up)
    }
}

/// One member under one monitor. Times are since any fixed moment.
#[derive(Debug)]
pub struct Member {
    interval: Duration,
    timeout: Duration,
    availability: Availability,
    next_probe: Duration,
    last_reply: Duration,
}

impl Member {
    /// Added to the pool at `now`: probed at once, and eligible until the first timeout.
    #[must_use]
    pub const fn new(monitor: &Monitor, now: Duration) -> Self {
        Self { interval: monitor.interval, timeout: monitor.timeout, availability: Availability::Unknown, next_probe: now, last_reply: now }
    }

    /// Its state.
    #[must_use]
    pub const fn availability(&self) -> Availability {
        self.availability
    }

    /// When the next probe is due.
    #[must_use]
    pub const fn next_probe(&self) -> Duration {
        self.next_probe
    }

    /// A probe at `now` found this. A bad one does nothing by itself: only `timeout` without a reply that counts does.
    pub fn found(&mut self, finding: Finding, now: Duration) {
        self.next_probe = now + self.interval;
        match finding {
            Finding::Good => (self.availability, self.last_reply) = (Availability::Up, now),
            Finding::Disabled => (self.availability, self.last_reply) = (Availability::Disabled, now),
            Finding::Bad => self.pass(now),
        }
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Duration) {
        if now.saturating_sub(self.last_reply) >= self.timeout {
            self.availability = Availability::Down;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Probes by the book from `from` on until the member is in `wanted`; the second at which it is.
    fn until(member: &mut Member, finding: Finding, from: u64, wanted: Availability) -> u64 {
        (from..from + 100)
            .find(|&second| {
                if member.next_probe() <= at(second) {
                    member.found(finding, at(second));
                }
                member.pass(at(second));
                member.availability() == wanted
            })
            .expect("reached")
    }

    #[test]
    fn stock_timing_takes_11_to_16_seconds_from_fault_to_down() {
        for fault in 1..=5 {
            let mut member = Member::new(&Monitor::default(), at(0));
            member.found(Finding::Good, at(0));
            let down = until(&mut member, Finding::Bad, fault, Availability::Down);
            assert!((11..=16).contains(&(down - fault)), "{fault} → {down}");
        }
    }

    #[test]
    fn a_member_not_yet_probed_gets_traffic_until_the_first_timeout() {
        let mut member = Member::new(&Monitor::default(), at(0));
        assert!(member.availability().takes_new());
        assert_eq!(until(&mut member, Finding::Bad, 0, Availability::Down), 16);
        assert!(!member.availability().takes_new());
    }

    #[test]
    fn drain_disables_at_the_next_probe_and_up_enables_again() {
        let mut member = Member::new(&Monitor::recommended(), at(0));
        member.found(Finding::Good, at(0));
        assert_eq!(until(&mut member, Finding::Disabled, 1, Availability::Disabled), 5);
        assert!(!member.availability().takes_new());
        assert_eq!(until(&mut member, Finding::Good, 6, Availability::Up), 10);
    }
}
