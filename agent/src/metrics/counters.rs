//! What the daemon tells the metrics: the published value, and events to count. Cheap enough for every pass.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gwready_core::facts::{Snapshot, Why};
use gwready_core::net::Front;
use gwready_core::reason::Reason;
use gwready_core::render::sources::{SOURCES, source_reads};
use gwready_core::time::Mono;
use gwready_core::verdict::{State, Verdict};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::collect::Scrape;
use super::exposition::Exposition;

/// Label values of `gwready_passes_total{trigger}`.
pub(super) const TRIGGERS: [&str; 8] = ["tick", "event", "netlink", "lb", "probe", "netfilter", "drain", "start"];
/// Label values of `gwready_observation_failures_total{reason}`.
pub(super) const FAILURES: [Why; 6] = [Why::Permission, Why::Absent, Why::Layout, Why::Deadline, Why::Interrupted, Why::Failed];

/// One publication.
#[derive(Debug, Clone)]
pub struct Published {
    /// The verdict.
    pub verdict: Arc<Verdict>,
    /// What it was made from.
    pub snapshot: Arc<Snapshot>,
}

/// Requests by protocol and state label, as the health port counts them: `("1.1", "up", 7)`.
pub type HealthRequests = Box<dyn Fn() -> Vec<(&'static str, &'static str, u64)> + Send + Sync>;

/// Everything that is counted, and the last publication.
pub struct Metrics {
    counted: Mutex<Counted>,
    pub(super) pass_duration: Histogram,
    pub(super) event_to_verdict: Histogram,
    health_requests: HealthRequests,
    pub(super) clock: fn() -> Mono,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub(super) published: Option<Published>,
    pub(super) transitions: BTreeMap<(State, State, Option<Reason>), u64>,
    pub(super) not_up: BTreeMap<Reason, Duration>,
    pub(super) counted_until: Option<Mono>,
    pub(super) passes: BTreeMap<&'static str, u64>,
    pub(super) failures: BTreeMap<(&'static str, &'static str), u64>,
    failures_seen: BTreeMap<&'static str, Mono>,
    pub(super) drops: BTreeMap<Front, u64>,
    drops_seen: BTreeMap<u64, u32>,
    pub(super) connections: Option<BTreeMap<u16, u64>>,
    pub(super) attached: BTreeMap<&'static str, bool>,
    pub(super) datapath_drops: BTreeMap<String, u64>,
}

impl Metrics {
    /// Nothing counted yet. `health_requests` is asked at every scrape.
    #[must_use]
    pub fn new(health_requests: HealthRequests) -> Arc<Self> {
        Self::with_clock(health_requests, crate::clock::mono)
    }

    pub(super) fn with_clock(health_requests: HealthRequests, clock: fn() -> Mono) -> Arc<Self> {
        let pass = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5];
        let event = [0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0];
        Arc::new(Self {
            counted: Mutex::default(),
            pass_duration: Histogram::new(pass),
            event_to_verdict: Histogram::new(event),
            health_requests,
            clock,
        })
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new verdict and snapshot: time not up, failed reads and queue drops are counted from them.
    pub fn publish(&self, published: Published) {
        let now = (self.clock)();
        let mut counted = self.counted();
        counted.pass_time(now);
        counted.count_failures(&published.snapshot);
        counted.count_drops(&published.snapshot);
        counted.published = Some(published);
    }

    /// Counts a pass by its trigger's label (`tick`, `event`, `netlink`, `lb`, `probe`, `netfilter`, `drain`, `start`).
    pub fn count_pass(&self, trigger: &'static str, took: Duration) {
        *self.counted().passes.entry(trigger).or_default() += 1;
        self.pass_duration.observe(took.as_secs_f64());
    }

    /// Counts a change of the node's verdict.
    pub fn count_transition(&self, from: State, to: State, reason: Option<Reason>) {
        *self.counted().transitions.entry((from, to, reason)).or_default() += 1;
    }

    /// Notes how long a kernel event took to become a published verdict.
    pub fn observe_event_to_verdict(&self, took: Duration) {
        self.event_to_verdict.observe(took.as_secs_f64());
    }

    /// Which eBPF programs are attached.
    pub fn set_attached(&self, programs: impl IntoIterator<Item = (&'static str, bool)>) {
        self.counted().attached = programs.into_iter().collect();
    }

    /// Connections established per port since the start; none where they can't be told apart by network namespace.
    pub fn set_connections(&self, connections: Option<BTreeMap<u16, u64>>) {
        self.counted().connections = connections;
    }

    /// Packets dropped by Cilium's datapath, by reason, as its map counts them.
    pub fn set_datapath_drops(&self, drops: BTreeMap<String, u64>) {
        self.counted().datapath_drops = drops;
    }

    /// The text of `/metrics`.
    #[must_use]
    pub fn render(&self, format: Exposition) -> String {
        let now = (self.clock)();
        let counted = {
            let mut counted = self.counted();
            counted.pass_time(now);
            counted.clone()
        };
        let scrape = Scrape {
            counted,
            health_requests: (self.health_requests)(),
            pass_duration: self.pass_duration.clone(),
            event_to_verdict: self.event_to_verdict.clone(),
            now,
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(scrape));
        format.encode(&registry)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Counted {
    /// Adds the time since the last call to the reason that the node is not up for.
    fn pass_time(&mut self, now: Mono) {
        let reason = self.published.as_ref().and_then(|published| published.verdict.node.reason);
        if let (Some(reason), Some(until)) = (reason, self.counted_until) {
            *self.not_up.entry(reason).or_default() += now.since(until);
        }
        self.counted_until = Some(now);
    }

    /// Counts each failed read once: passes that did not read a source again keep its window.
    fn count_failures(&mut self, snapshot: &Snapshot) {
        for read in source_reads(snapshot) {
            let (Some(window), Some(failure)) = (read.window, read.failure) else { continue };
            if self.failures_seen.insert(read.name, window.end) != Some(window.end) {
                *self.failures.entry((read.name, failure.why.as_str())).or_default() += 1;
            }
        }
    }

    /// The kernel counts per socket; the sum over sockets would fall when one goes. What a socket had dropped before it was
    /// first seen counts only if it began to listen after the agent's first read.
    fn count_drops(&mut self, snapshot: &Snapshot) {
        let Some(table) = snapshot.sockets.value() else { return };
        let first_read =
            self.published.as_ref().is_none_or(|published| published.snapshot.sockets.value().is_none()) && self.drops_seen.is_empty();
        let mut seen = BTreeMap::new();
        for listener in &table.listeners {
            let Some(drops) = listener.drops else { continue };
            let before = self.drops_seen.get(&listener.id.cookie).copied().unwrap_or(if first_read { drops } else { 0 });
            let front = Front { port: listener.port, family: listener.family };
            *self.drops.entry(front).or_default() += u64::from(drops.wrapping_sub(before));
            seen.insert(listener.id.cookie, drops);
        }
        self.drops_seen = seen;
    }
}

/// Every source with every kind of failure, for series that exist from the start.
pub(super) fn all_failures() -> impl Iterator<Item = (&'static str, &'static str)> {
    SOURCES.into_iter().flat_map(|source| FAILURES.iter().map(move |why| (source, why.as_str())))
}
