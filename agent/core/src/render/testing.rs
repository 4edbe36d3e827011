//! Verdicts for the tests of this folder.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::condition::{Concern, Condition, ConditionType, Status};
use crate::facts::Snapshot;
use crate::memory::Memory;
use crate::net::{Endpoint, Family, Front};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::replay::{SnapshotFile, VERSION};
use crate::time::{Mono, Now};
use crate::verdict::{AddressOutcome, EndpointOutcome, Outcome, State, Verdict};

/// Who takes port 80 in [`Scene::hostport`].
pub(crate) const THIEF: &str = "pod kube-system/rke2-ingress-nginx-controller-x (10.42.1.7:80)";

const DAY_NS: u64 = 86_400_000_000_000;

/// Ready-made verdicts of a node with 10.0.0.11 (and, for the partial one, 10.0.0.12) and the ports 80 and 443.
pub(crate) struct Scene;

impl Scene {
    /// Everything holds, for 3 days and 4 hours when the others are judged.
    pub(crate) fn up() -> Verdict {
        verdict(&[("10.0.0.11", Outcome::UP)], Outcome::UP, Vec::new())
    }

    /// A HostPort entry takes port 80.
    pub(crate) fn hostport() -> Verdict {
        let outcome = Outcome { state: State::Down, reason: Some(Reason::HostPort), ports: vec![80] };
        let mut verdict = verdict(&[("10.0.0.11", outcome.clone())], outcome, vec![stolen()]);
        later(&mut verdict);
        verdict
    }

    /// The same on one of two addresses.
    pub(crate) fn partial() -> Verdict {
        let outcome = Outcome { state: State::Down, reason: Some(Reason::HostPort), ports: vec![80] };
        let mut verdict = verdict(&[("10.0.0.11", outcome), ("10.0.0.12", Outcome::UP)], Outcome::UP, vec![stolen()]);
        verdict.partial = 1;
        verdict
    }

    /// As [`Scene::up`], with 10.0.0.12 just added.
    pub(crate) fn joining() -> Verdict {
        let outcome = Outcome { state: State::Down, reason: Some(Reason::Starting), ports: Vec::new() };
        let mut verdict = verdict(&[("10.0.0.11", Outcome::UP), ("10.0.0.12", outcome)], Outcome::UP, Vec::new());
        verdict.partial = 1;
        verdict
    }

    /// An operator's drain.
    pub(crate) fn draining() -> Verdict {
        let outcome = Outcome { state: State::Drain, reason: Some(Reason::DrainRequested), ports: Vec::new() };
        verdict(&[("10.0.0.11", outcome.clone())], outcome, Vec::new())
    }

    /// Before the first pass.
    pub(crate) fn starting() -> Verdict {
        verdict(&[], Outcome { state: State::Down, reason: Some(Reason::Starting), ports: Vec::new() }, Vec::new())
    }
}

fn later(verdict: &mut Verdict) {
    let passed = 3 * DAY_NS + 4 * DAY_NS / 24;
    verdict.judged_at = Now { mono: Mono(DAY_NS + passed), unix_ms: (DAY_NS + passed) / 1_000_000 };
    verdict.node_since = verdict.judged_at;
    verdict.observed_at = verdict.judged_at.mono;
}

fn stolen() -> Condition {
    Condition {
        kind: ConditionType::NotIntercepted,
        front: Some(Front { port: 80, family: Family::Ipv4 }),
        status: Status::False,
        reason: Some(Reason::HostPort),
        message: "a HostPort entry takes 10.0.0.11:80 <b>to</b> \"10.42.1.7:80\"".to_owned(),
        evidence: BTreeMap::from([("thief".to_owned(), THIEF.to_owned())]),
        addresses: Concern::Some(vec!["10.0.0.11".parse().expect("address")]),
        since: Mono(DAY_NS),
    }
}

fn holds(kind: ConditionType, front: Option<Front>) -> Condition {
    Condition {
        kind,
        front,
        status: Status::True,
        reason: None,
        message: String::new(),
        evidence: BTreeMap::new(),
        addresses: Concern::All,
        since: Mono(0),
    }
}

fn verdict(addresses: &[(&str, Outcome)], node: Outcome, failing: Vec<Condition>) -> Verdict {
    let now = Now { mono: Mono(DAY_NS), unix_ms: DAY_NS / 1_000_000 };
    let addresses: Vec<AddressOutcome> = addresses
        .iter()
        .map(|(address, outcome)| AddressOutcome { address: address.parse::<IpAddr>().expect("address"), outcome: outcome.clone() })
        .collect();
    let ports = vec![80, 443];
    let endpoints = addresses
        .iter()
        .flat_map(|judged| {
            ports.iter().map(|&port| EndpointOutcome {
                endpoint: Endpoint { address: judged.address, port },
                outcome: if judged.outcome.ports.is_empty() || judged.outcome.ports.contains(&port) {
                    judged.outcome.clone()
                } else {
                    Outcome::UP
                },
            })
        })
        .collect();
    let mut conditions = failing;
    for kind in ConditionType::ALL {
        let fronts: Vec<Option<Front>> = match kind.is_per_front() {
            true => ports.iter().map(|&port| Some(Front { port, family: Family::Ipv4 })).collect(),
            false => vec![None],
        };
        for front in fronts {
            if !conditions.iter().any(|condition| condition.kind == kind && condition.front == front) {
                conditions.push(holds(kind, front));
            }
        }
    }
    conditions.sort_by_key(|condition| (condition.kind, condition.front));
    Verdict {
        judged_at: now,
        observed_at: now.mono,
        node_since: now,
        node,
        partial: 0,
        ports,
        families: vec![Family::Ipv4],
        addresses,
        endpoints,
        blind: Vec::new(),
        conditions,
    }
}

/// A snapshot file of worker-1 with nothing configured and nothing remembered.
pub(crate) fn snapshot_file(snapshot: Snapshot, now: Now) -> SnapshotFile {
    SnapshotFile {
        version: VERSION,
        agent: "0.1.0".to_owned(),
        node: "worker-1".to_owned(),
        policy: Policy::default(),
        config: serde_json::Value::Null,
        memory: Memory::default(),
        snapshot,
        now,
    }
}
