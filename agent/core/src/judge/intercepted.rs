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
use crate::reason::Reason;

const KIND: ConditionType = ConditionType::NotIntercepted;

/// Judges one endpoint. `is_envoy` tells whether a listener belongs to a live cilium-envoy; none = can't be told.
#[must_use]
pub fn judge_intercepted(snapshot: &Snapshot, endpoint: Endpoint, is_envoy: impl Fn(&Listener) -> Option<bool>) -> Finding {
    let endpoint = Endpoint { address: endpoint.address.to_canonical(), port: endpoint.port };
    let findings = [
        Some(rows::judge_rows(snapshot, endpoint, &is_envoy)),
        sk_lookup_finding(snapshot, endpoint, &is_envoy).or_else(|| without_lookups(snapshot)),
        netfilter::judge_netfilter(snapshot, endpoint),
    ];
    let refuted = refuted(snapshot, &findings);
    let finding = findings.into_iter().flatten().reduce(worse).unwrap_or_else(|| Finding::holds(KIND));
    if finding.status == Status::Unknown { finding.refuting(refuted) } else { finding }
}

/// The lookups were lost: whether a program steers the endpoint can't be told until they are back.
fn without_lookups(snapshot: &Snapshot) -> Option<Finding> {
    let lost = snapshot.sockets.unavailable()?;
    Some(Finding::unknown(KIND, Reason::SocketsUnreadable, lost.detail.clone()))
}

/// The reasons of those hooks that were read and let the connection through.
fn refuted(snapshot: &Snapshot, [rows, sk_lookup, netfilter]: &[Option<Finding>; 3]) -> Vec<Reason> {
    const ROWS: [Reason; 7] = [
        Reason::WildcardDrop,
        Reason::HostPort,
        Reason::NodePort,
        Reason::ExternalIP,
        Reason::LoadBalancerIP,
        Reason::ClusterIP,
        Reason::RedirectedToProxy,
    ];
    let holds = |finding: &Option<Finding>| finding.as_ref().is_some_and(|finding| finding.status == Status::True);
    let mut refuted = Vec::new();
    if holds(rows) {
        refuted.extend(ROWS);
    }
    if sk_lookup.is_none() && snapshot.sockets.value().is_some() {
        refuted.push(Reason::SkLookup);
    }
    if holds(netfilter) {
        refuted.extend([Reason::NetfilterRedirect, Reason::NetfilterDrop]);
    }
    refuted
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
