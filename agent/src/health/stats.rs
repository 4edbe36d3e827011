//! Counters of the health port, for `gwready_health_requests_total{protocol,state}` and the limits.

use std::sync::atomic::{AtomicU64, Ordering};

use gwready_core::verdict::State;

use super::parse::Protocol;

/// What a reply said, as the metric's `state` label.
pub const STATE_LABELS: [&str; 4] = ["up", "drain", "down", "none"];

/// Written by the serving thread, read by the metrics; every series exists from the start at zero.
#[derive(Debug, Default)]
pub struct HealthStats {
    requests: [[AtomicU64; 4]; 4],
    accepted: AtomicU64,
    expired_early: AtomicU64,
    accept_failures: AtomicU64,
    open: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Requests by protocol and the state that was answered; `none`: the reply had no state (400, 404, 431).
    pub requests: Vec<(Protocol, &'static str, u64)>,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that had to make room before their time.
    pub expired_early: u64,
    /// Accepts that failed for want of descriptors or memory.
    pub accept_failures: u64,
    /// Connections open now.
    pub open: u64,
}

impl HealthStats {
    pub(super) fn count_request(&self, protocol: Protocol, state: Option<State>) {
        let state = match state {
            Some(State::Up) => 0,
            Some(State::Drain) => 1,
            Some(State::Down) => 2,
            None => 3,
        };
        self.requests[protocol.index()][state].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_expired_early(&self) {
        self.expired_early.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_accept_failure(&self) {
        self.accept_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_open(&self, open: usize) {
        self.open.store(u64::try_from(open).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Requests by protocol and state label, for the metrics.
    #[must_use]
    pub fn label_counts(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.snapshot().requests.into_iter().map(|(protocol, state, count)| (protocol.as_str(), state, count)).collect()
    }

    /// All counters now.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let requests = Protocol::ALL
            .into_iter()
            .zip(&self.requests)
            .flat_map(|(protocol, row)| STATE_LABELS.into_iter().zip(row).map(move |(state, counter)| (protocol, state, read(counter))))
            .collect();
        StatsSnapshot {
            requests,
            accepted: read(&self.accepted),
            expired_early: read(&self.expired_early),
            accept_failures: read(&self.accept_failures),
            open: read(&self.open),
        }
    }
}
