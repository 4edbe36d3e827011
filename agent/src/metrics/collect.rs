//! One scrape: every family of the catalogue from one consistent copy of what is known.

use std::collections::BTreeSet;
use std::fmt;

use gwready_core::reason::Reason;
use gwready_core::time::Mono;
use gwready_core::verdict::State;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;

use super::catalog::{self as of, Metric};
use super::counters::{Counted, TRIGGERS, all_failures};
use super::sample::Family;
use super::{from_snapshot, from_verdict, process};

/// The copy. Made for one scrape, so encoding takes no lock.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) counted: Counted,
    pub(super) health_requests: Vec<(&'static str, &'static str, u64)>,
    pub(super) pass_duration: Histogram,
    pub(super) event_to_verdict: Histogram,
    pub(super) now: Mono,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(published) = &self.counted.published {
            from_verdict::families(&published.verdict).iter().try_for_each(|family| family.encode(&mut encoder))?;
            from_snapshot::families(&published.verdict, &published.snapshot, self.now)
                .iter()
                .try_for_each(|family| family.encode(&mut encoder))?;
        }
        self.counted_families().iter().try_for_each(|family| family.encode(&mut encoder))?;
        encode_histogram(&of::PASS_DURATION, &self.pass_duration, &mut encoder)?;
        encode_histogram(&of::EVENT_TO_VERDICT, &self.event_to_verdict, &mut encoder)?;
        process::families().iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

fn encode_histogram(metric: &'static Metric, histogram: &Histogram, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    histogram.encode(encoder.encode_descriptor(metric.family, metric.help, None, MetricType::Histogram)?)
}

impl Scrape {
    fn counted_families(&self) -> Vec<Family> {
        vec![
            self.transitions(),
            self.not_up_seconds(),
            self.passes(),
            self.failures(),
            self.drops(),
            self.connections(),
            self.health(),
            self.attached(),
            self.datapath_drops(),
            build(),
        ]
    }

    fn transitions(&self) -> Family {
        let counts = &self.counted.transitions;
        let mut keys: BTreeSet<(State, State, Option<Reason>)> = usual_transitions().collect();
        keys.extend(counts.keys().copied());
        let mut family = Family::new(&of::TRANSITIONS);
        for key in keys {
            let (from, to, reason) = key;
            family.push(&[from.as_str(), to.as_str(), reason.map_or("", Reason::as_str)], whole(counts.get(&key).copied().unwrap_or(0)));
        }
        family
    }

    fn not_up_seconds(&self) -> Family {
        let mut family = Family::new(&of::NOT_UP_SECONDS);
        for reason in Reason::ALL.iter().filter(|reason| **reason != Reason::NotUsed) {
            family.push(&[reason.as_str()], self.counted.not_up.get(reason).map_or(0.0, std::time::Duration::as_secs_f64));
        }
        family
    }

    fn passes(&self) -> Family {
        let mut family = Family::new(&of::PASSES);
        for trigger in TRIGGERS {
            family.push(&[trigger], whole(self.counted.passes.get(trigger).copied().unwrap_or(0)));
        }
        family
    }

    fn failures(&self) -> Family {
        let mut family = Family::new(&of::OBSERVATION_FAILURES);
        for (source, why) in all_failures() {
            family.push(&[source, why], whole(self.counted.failures.get(&(source, why)).copied().unwrap_or(0)));
        }
        family
    }

    fn drops(&self) -> Family {
        let mut family = Family::new(&of::ACCEPT_QUEUE_DROPS);
        for (front, drops) in &self.counted.drops {
            family.push(&[&front.port.to_string(), front.family.as_str()], whole(*drops));
        }
        family
    }

    fn connections(&self) -> Family {
        let mut family = Family::new(&of::CONNECTIONS_ESTABLISHED);
        for (port, count) in self.counted.connections.iter().flatten() {
            family.push(&[&port.to_string()], whole(*count));
        }
        family
    }

    fn health(&self) -> Family {
        let mut family = Family::new(&of::HEALTH_REQUESTS);
        for (protocol, state, count) in &self.health_requests {
            family.push(&[protocol, state], whole(*count));
        }
        family
    }

    fn attached(&self) -> Family {
        let mut family = Family::new(&of::EBPF_ATTACHED);
        for (program, attached) in &self.counted.attached {
            family.push(&[program], f64::from(u8::from(*attached)));
        }
        family
    }

    fn datapath_drops(&self) -> Family {
        let mut family = Family::new(&of::DATAPATH_DROPS);
        for (reason, count) in &self.counted.datapath_drops {
            family.push(&[reason], whole(*count));
        }
        family
    }
}

fn build() -> Family {
    let mut family = Family::new(&of::BUILD);
    family.push(&[env!("CARGO_PKG_VERSION")], 1.0);
    family
}

/// Changes that a node is known to make, so that their series exist before the first one.
fn usual_transitions() -> impl Iterator<Item = (State, State, Option<Reason>)> {
    let drains = [Reason::DrainRequested, Reason::EnvoyDraining, Reason::EnvoyTerminating];
    let down = Reason::ALL.iter().copied().filter(move |reason| !drains.contains(reason) && *reason != Reason::NotUsed);
    let back = [(State::Down, State::Up, None), (State::Drain, State::Up, None)];
    back.into_iter()
        .chain(drains.into_iter().flat_map(|reason| [State::Up, State::Down].map(|from| (from, State::Drain, Some(reason)))))
        .chain(down.map(|reason| (State::Up, State::Down, Some(reason))))
}

/// Counts stay exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "a count beyond 2^53 would take centuries")]
const fn whole(count: u64) -> f64 {
    count as f64
}
