//! When which sources are read. Pure: the loop asks, this answers.
//!
//! Polling alone gives the right answer; every other trigger only brings a pass forward, for the sources it concerns.

use std::time::Duration;

use gwready_core::time::Mono;

/// What caused a pass. The words are the label values of `gwready_passes_total{trigger}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trigger {
    /// The first pass.
    Start,
    /// `timing.resync`.
    Tick,
    /// `timing.lb_poll`.
    Lb,
    /// A kernel event, and the second look after it.
    Event,
    /// An address, link, route or rule changed.
    Netlink,
    /// A probe's result or Envoy's own word changed.
    Probe,
    /// Netfilter's answer changed.
    Netfilter,
    /// A drain was asked for or withdrawn.
    Drain,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Self; 8] = [Self::Start, Self::Tick, Self::Lb, Self::Event, Self::Netlink, Self::Probe, Self::Netfilter, Self::Drain];

    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Tick => "tick",
            Self::Lb => "lb",
            Self::Event => "event",
            Self::Netlink => "netlink",
            Self::Probe => "probe",
            Self::Netfilter => "netfilter",
            Self::Drain => "drain",
        }
    }

    /// One bit per trigger, for the coalescing wake-up.
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The sources that a pass of this trigger reads; the others keep their values and windows. An event of a listener says
    /// nothing new about the processes behind those that stay.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Start => Scope { addresses: false, sockets: true, rows: true, owners: true, lb: true },
            Self::Tick => Scope { addresses: false, sockets: true, rows: false, owners: true, lb: true },
            Self::Netlink => Scope { addresses: true, sockets: true, rows: true, owners: true, lb: true },
            Self::Event => Scope { addresses: false, sockets: true, rows: true, owners: false, lb: false },
            Self::Lb => Scope { addresses: false, sockets: false, rows: false, owners: false, lb: true },
            Self::Probe | Self::Netfilter | Self::Drain => {
                Scope { addresses: false, sockets: false, rows: false, owners: false, lb: false }
            }
        }
    }
}

/// Groups of sources that are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scope {
    /// Addresses, links, routes and rules.
    pub addresses: bool,
    /// Who gets a client, and the listeners.
    pub sockets: bool,
    /// Every listener, whether or not the lookups answer as they did: something says that they have changed.
    pub rows: bool,
    /// The processes behind the listeners, though every listener is known.
    pub owners: bool,
    /// Cilium's maps and the steering hooks.
    pub lb: bool,
}

impl Scope {
    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            addresses: self.addresses || other.addresses,
            sockets: self.sockets || other.sockets,
            rows: self.rows || other.rows,
            owners: self.owners || other.owners,
            lb: self.lb || other.lb,
        }
    }
}

/// A kernel event comes before (LISTEN) or just after (close) the change of the hash it speaks of: one more look.
pub const SECOND_LOOK: Duration = Duration::from_millis(2);
/// Least time between two passes of kernel events: a storm of 10,000 listener changes a second is a few hundred passes.
pub const EVENT_SPACING: Duration = Duration::from_millis(2);
/// How often what is followed by notification is read again anyway.
pub const SLOW_RESYNC: Duration = Duration::from_secs(30);

/// The due times.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    resync: Duration,
    lb_poll: Duration,
    next_tick: Mono,
    next_lb: Mono,
    next_slow: Mono,
    second_look: Option<Mono>,
    /// Not before this time may an event pass run.
    events_from: Mono,
    event_waits: bool,
}

impl Schedule {
    /// Everything is due at once.
    #[must_use]
    pub const fn new(resync: Duration, lb_poll: Duration, now: Mono) -> Self {
        Self { resync, lb_poll, next_tick: now, next_lb: now, next_slow: now, second_look: None, events_from: now, event_waits: false }
    }

    /// A kernel event arrived.
    pub const fn event(&mut self) {
        self.event_waits = true;
    }

    /// What is due at `now`; marks it as done. At most one pass runs and one waits, however many events arrived.
    pub fn due(&mut self, now: Mono) -> Vec<Trigger> {
        let mut due = Vec::new();
        if now >= self.next_tick {
            due.push(Trigger::Tick);
            self.next_tick = now.plus(self.resync);
            self.next_lb = now.plus(self.lb_poll);
        } else if now >= self.next_lb {
            due.push(Trigger::Lb);
            self.next_lb = now.plus(self.lb_poll);
        }
        if now >= self.next_slow {
            due.push(Trigger::Netlink);
            self.next_slow = now.plus(SLOW_RESYNC);
        }
        if self.event_waits && now >= self.events_from {
            due.push(Trigger::Event);
            self.event_waits = false;
            self.events_from = now.plus(EVENT_SPACING);
            self.second_look = Some(now.plus(SECOND_LOOK));
        } else if self.second_look.is_some_and(|at| now >= at) {
            due.push(Trigger::Event);
            self.second_look = None;
        }
        due
    }

    /// A second look is still to come: the pass that runs now is the first after an event.
    #[must_use]
    pub const fn looks_again(&self) -> bool {
        self.second_look.is_some()
    }

    /// How long the loop may sleep.
    #[must_use]
    pub fn sleep(&self, now: Mono) -> Duration {
        let event = self.event_waits.then_some(self.events_from);
        let next = [Some(self.next_tick), Some(self.next_lb), Some(self.next_slow), self.second_look, event].into_iter().flatten().min();
        next.map_or(self.resync, |at| at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn schedule() -> Schedule {
        let mut schedule = Schedule::new(Duration::from_secs(1), Duration::from_millis(250), Mono(0));
        assert_eq!(schedule.due(Mono(0)), [Trigger::Tick, Trigger::Netlink]);
        schedule
    }

    #[test]
    fn ticks_and_lb_polls_alternate() {
        let mut schedule = schedule();
        assert_eq!(schedule.sleep(Mono(0)), Duration::from_millis(250));
        assert_eq!(schedule.due(Mono(250 * MS)), [Trigger::Lb]);
        assert_eq!(schedule.due(Mono(499 * MS)), []);
        assert_eq!(schedule.due(Mono(1000 * MS)), [Trigger::Tick]);
    }

    #[test]
    fn an_event_is_looked_at_twice() {
        let mut schedule = schedule();
        schedule.event();
        assert_eq!(schedule.sleep(Mono(10 * MS)), Duration::ZERO);
        assert_eq!(schedule.due(Mono(10 * MS)), [Trigger::Event]);
        assert_eq!(schedule.due(Mono(11 * MS)), []);
        assert_eq!(schedule.due(Mono(12 * MS)), [Trigger::Event]);
        assert_eq!(schedule.due(Mono(13 * MS)), []);
    }

    #[test]
    fn a_storm_of_events_is_a_bounded_number_of_passes_and_none_is_lost() {
        let mut schedule = schedule();
        let mut passes = 0;
        for step in 0..10_000_u64 {
            schedule.event();
            passes += schedule.due(Mono(step * MS / 10)).iter().filter(|t| **t == Trigger::Event).count();
        }
        assert!(passes <= 501, "{passes}");
        assert_eq!(schedule.due(Mono(1_100 * MS)).iter().filter(|t| **t == Trigger::Event).count(), 1, "the last event is looked at");
    }
}
