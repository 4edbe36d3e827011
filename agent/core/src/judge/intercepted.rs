//! `NotIntercepted`: whether anything between the wire and the socket takes new connections to one endpoint.
//!
//! Three hooks in the order in which a packet meets them: Cilium's load-balancer maps, netfilter, the socket lookup. Each gives a finding;
//! a proven theft wins over missing evidence, missing evidence over proof of the contrary. Nothing here identifies a socket's owner:
//! the caller says who is cilium-envoy.

mod netfilter;
mod rows;
mod sk_lookup;
mod words;

pub use self::sk_lookup::sk_lookup_finding;
pub(crate) use self::words::entry;
use crate::condition::{ConditionType, Finding, Status};
use crate::facts::Snapshot;
use crate::facts::sockets::Listener;
use crate::net::Endpoint;

const KIND: ConditionType = ConditionType::NotIntercepted;

/// Judges one endpoint. `is_envoy` tells whether a listener belongs to a live cilium-envoy; none = can't be told.
#[must_use]
pub fn judge_intercepted(snapshot: &Snapshot, endpoint: Endpoint, is_envoy: impl Fn(&Listener) -> Option<bool>) -> Finding {
    let endpoint = Endpoint { address: endpoint.address.to_canonical(), port: endpoint.port };
    let findings = [
        Some(rows::judge_rows(snapshot, endpoint, &is_envoy)),
        sk_lookup_finding(snapshot, endpoint, &is_envoy),
        netfilter::judge_netfilter(snapshot, endpoint),
    ];
    findings.into_iter().flatten().reduce(worse).unwrap_or_else(|| Finding::holds(KIND))
}

/// The finding that decides: False before Unknown before True, then the more causal reason. Two that hold keep both evidences.
fn worse(a: Finding, b: Finding) -> Finding {
    let rank = |finding: &Finding| match finding.status {
        Status::False => 0,
        Status::Unknown => 1,
        Status::True => 2,
    };
    if a.status == Status::True && b.status == Status::True {
        let message = if a.message.is_empty() { b.message } else { a.message };
        let mut evidence = b.evidence;
        evidence.extend(a.evidence);
        return Finding { message, evidence, ..a };
    }
    if (rank(&b), b.reason) < (rank(&a), a.reason) { b } else { a }
}

#[cfg(test)]
#[path = "intercepted_tests.rs"]
mod tests;
