//! The judge: one pure function from policy, snapshot, memory and now to a verdict.
//!
//! Three steps: *findings* (one small judge per condition, three-valued), *resolve* (what Unknown counts as), *combine*
//! (endpoints → addresses → node). Only the second knows about policy's treatment of Unknown, only the third about states.

pub mod accepting;
pub mod bind_reserved;
pub mod cilium_agent;
pub mod combine;
pub mod conditions;
pub mod config_current;
pub mod envoy_live;
pub mod identity;
pub mod intercepted;
pub mod learn;
pub mod listening;
pub mod observed;
pub mod owned;
pub mod owner_text;
pub mod ports;
pub mod probe_method;
pub mod proxied;
pub mod queues;
pub mod reach;
pub mod recovery;
pub mod resolve;
pub mod responding;
pub mod rules;
pub mod select;
#[cfg(test)]
pub(crate) mod serving_testing;
#[cfg(test)]
pub(crate) mod testing;
pub mod tproxy;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{ConditionType, Finding, Status};
use crate::facts::Snapshot;
use crate::facts::processes::Holders;
use crate::facts::sockets::Listener;
use crate::memory::{Known, Memory, Subject};
use crate::net::Endpoint;
use crate::plan::ReadPlan;
use crate::policy::{Mode, Policy};
use crate::reason::Reason;
use crate::time::{Mono, Now};
use crate::verdict::{Blind, EndpointOutcome, Outcome, State, Verdict};

use recovery::Way;
use resolve::Effect;

/// How long the start waits for the search for holders alone: an agent that can't finish it (no descriptor left, listeners that come
/// and go faster than it) must not keep a node down that serves.
const HOLDERS_PATIENCE: Duration = Duration::from_secs(10);

/// A verdict and what to remember for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// The argument of the next call.
    pub memory: Memory,
}

/// Every finding of one judgement: the unit that `explain` shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Of the node.
    pub node: Vec<Finding>,
    /// Of every judged endpoint, in the order of the plan.
    pub endpoints: Vec<(Endpoint, Vec<Finding>)>,
}

/// Judges one snapshot. Never panics, never reads a clock; the order of rows in the snapshot does not matter.
#[must_use]
pub fn judge(policy: &Policy, snapshot: &Snapshot, memory: &Memory, now: Now) -> Judgement {
    let mut memory = memory.clone();
    learn::learn(policy, snapshot, &mut memory, now.mono);
    let plan = select::plan(policy, snapshot, &memory);
    memory.plan = plan.clone();
    let just_started = start(policy, snapshot, &mut memory, now.mono);
    let findings = findings(policy, snapshot, &memory, &plan, now);
    remember_all(&mut memory, &served_by(policy, snapshot, &plan), &findings, now.mono);
    let (endpoints, blind) = outcomes(policy, &mut memory, &findings, just_started, now.mono);
    let addresses = combine::address_outcomes(plan.addresses.iter().map(|judged| judged.ip), &endpoints);
    let node = node(policy, &memory, &findings, &addresses, now.mono);
    let partial = if node.state == State::Up { addresses.iter().filter(|a| a.outcome.state != State::Up).count() } else { 0 };
    let node_since = match memory.node {
        Some((state, since)) if state == node.state => since,
        _ => now,
    };
    memory.node = Some((node.state, node_since));
    let conditions = conditions::aggregate(&findings, &plan, &mut memory, now.mono);
    let verdict = Verdict {
        judged_at: now,
        observed_at: memory.sockets_read_at.unwrap_or_default(),
        node_since,
        node,
        partial,
        ports: plan.ports,
        families: plan.families,
        addresses,
        endpoints,
        blind,
        conditions,
    };
    Judgement { verdict, memory }
}

/// Meets the start rule if it can be met now. True if this judgement is the first after `Starting`.
fn start(policy: &Policy, snapshot: &Snapshot, memory: &mut Memory, now: Mono) -> bool {
    if memory.started {
        return false;
    }
    match pending(policy, snapshot, memory, now).as_slice() {
        [] => {}
        ["holders"] => {
            memory.all_tried_at.get_or_insert(now);
            return false;
        }
        _ => return false,
    }
    memory.started = true;
    true
}

/// What the start rule still waits for: sources never tried, planned endpoints never looked up, and for a while the search for the
/// holders of what the kernel picks: until it is over nobody knows whose they are.
fn pending(policy: &Policy, snapshot: &Snapshot, memory: &Memory, now: Mono) -> Vec<&'static str> {
    if memory.started {
        return Vec::new();
    }
    let mut pending = observed::pending_sources(policy, snapshot);
    let looked_up = |endpoint: Endpoint| snapshot.sockets.value().is_some_and(|table| table.lookups.iter().any(|l| l.endpoint == endpoint));
    if pending.is_empty() && !memory.plan.endpoints().all(|(endpoint, _)| looked_up(endpoint)) {
        pending.push("lookups");
    }
    let patient = memory.all_tried_at.is_none_or(|since| now.since(since) < HOLDERS_PATIENCE);
    if pending.is_empty() && patient && searches_for_holders(&served_by(policy, snapshot, &memory.plan)) {
        pending.push("holders");
    }
    pending
}

/// The holders of a socket that the kernel picks are still searched for.
fn searches_for_holders(snapshot: &Snapshot) -> bool {
    let (Some(table), Some(owners)) = (snapshot.sockets.value(), snapshot.owners.value()) else { return false };
    let mut picked = table.lookups.iter().filter_map(|lookup| lookup.picked.as_ref());
    picked.any(|socket| matches!(owners.holders.get(&socket.id.inode), Some(Holders::Searching(_))))
}

/// All findings, by one judge per condition.
#[must_use]
pub fn findings(policy: &Policy, snapshot: &Snapshot, memory: &Memory, plan: &ReadPlan, now: Now) -> Findings {
    let maps = snapshot.lb.maps_exist();
    let is_envoy = |row: &Listener| snapshot.owners.value().and_then(|owners| identity::identify(policy, owners, row, maps).is_envoy());
    let node = vec![
        observed::judge_observed(policy, &pending(policy, snapshot, memory, now.mono), memory.sockets_read_at, now.mono),
        envoy_live::judge_envoy_live(policy, snapshot, now.mono),
        tproxy::judge_tproxy(snapshot, is_envoy),
        config_current::judge_config_current(snapshot),
        cilium_agent::judge_cilium_agent(&snapshot.cilium_agent),
        observed::judge_in_service(snapshot.drain.as_ref(), now),
    ];
    let served = served_by(policy, snapshot, plan);
    let endpoints = plan
        .endpoints()
        .map(|(endpoint, _)| {
            let own = vec![
                listening::judge_listening(policy, &served, endpoint),
                owned::judge_owned(policy, &served, memory, endpoint),
                intercepted::judge_intercepted(snapshot, endpoint, is_envoy),
                accepting::judge_accepting(policy, &served, memory, endpoint, now.mono),
                responding::judge_responding(policy, &served, memory, endpoint, now.mono),
            ];
            (endpoint, own)
        })
        .collect();
    Findings { node, endpoints }
}

/// The snapshot in which the sockets are those that serve the endpoints: as read, or those of the proxy ports.
fn served_by<'a>(policy: &Policy, snapshot: &'a Snapshot, plan: &ReadPlan) -> Cow<'a, Snapshot> {
    match policy.mode {
        Mode::HostNetwork => Cow::Borrowed(snapshot),
        Mode::LoadBalancer => Cow::Owned(proxied::through_proxy_ports(snapshot, plan)),
    }
}

fn remember_all(memory: &mut Memory, snapshot: &Snapshot, findings: &Findings, now: Mono) {
    for finding in &findings.node {
        resolve::remember(memory, Subject { kind: finding.kind, endpoint: None }, finding, now);
    }
    for (endpoint, own) in &findings.endpoints {
        for finding in own {
            resolve::remember(memory, Subject { kind: finding.kind, endpoint: Some(*endpoint) }, finding, now);
            if finding.kind == ConditionType::OwnedByEnvoy && finding.status == Status::True {
                memory.proven.insert(*endpoint, owned::proven_cookies(snapshot, *endpoint));
            }
        }
    }
}

fn effects(policy: &Policy, memory: &Memory, findings: &[Finding], endpoint: Option<Endpoint>, now: Mono) -> Vec<(ConditionType, Effect)> {
    let nothing = Known::default();
    findings
        .iter()
        .map(|finding| {
            let known = memory.known.get(&Subject { kind: finding.kind, endpoint }).unwrap_or(&nothing);
            (finding.kind, resolve::effect(policy, known, finding, now))
        })
        .collect()
}

fn outcomes(
    policy: &Policy,
    memory: &mut Memory,
    findings: &Findings,
    just_started: bool,
    now: Mono,
) -> (Vec<EndpointOutcome>, Vec<Blind>) {
    let node = effects(policy, memory, &findings.node, None, now);
    let mut blind = conditions::blind(&findings.node, &node);
    let joined = new_ports_of_up_addresses(memory, findings);
    let mut outcomes = Vec::with_capacity(findings.endpoints.len());
    for (endpoint, own) in &findings.endpoints {
        let effects = effects(policy, memory, own, Some(*endpoint), now);
        let wanted = combine::endpoint_outcome(*endpoint, node.iter().chain(&effects));
        let outcome = if memory.started {
            let way = match node.iter().chain(&effects).any(|(_, effect)| *effect == Effect::Kept) {
                true => Way::Closed,
                false if joined.contains(endpoint) || (just_started && !memory.was_down) => Way::FreshStart,
                false => Way::Usual,
            };
            recovery::settle(policy, memory.recovery.entry(*endpoint).or_default(), wanted, way, now)
        } else {
            wanted
        };
        blind.extend(conditions::blind(own, &effects));
        outcomes.push(EndpointOutcome { endpoint: *endpoint, outcome });
    }
    blind.sort_by_key(|b| (b.kind, b.reason));
    blind.dedup_by_key(|b| (b.kind, b.reason));
    (outcomes, blind)
}

/// Endpoints that are judged for the first time at an address that is up by another port. A port that joins the gateway comes to all
/// nodes at once: waiting for `min_up` would empty the pool. An address that joins has to prove itself.
fn new_ports_of_up_addresses(memory: &Memory, findings: &Findings) -> BTreeSet<Endpoint> {
    let last = |endpoint: &Endpoint| memory.recovery.get(endpoint).and_then(|recovery| recovery.last.as_ref());
    let judged = || findings.endpoints.iter().map(|(endpoint, _)| endpoint);
    let up: BTreeSet<IpAddr> =
        judged().filter(|endpoint| last(endpoint).is_some_and(|last| last.state == State::Up)).map(|endpoint| endpoint.address).collect();
    judged().filter(|endpoint| last(endpoint).is_none() && up.contains(&endpoint.address)).copied().collect()
}

/// The node's outcome. Without any judged address the node's own conditions say why, else nothing is covered.
fn node(policy: &Policy, memory: &Memory, findings: &Findings, addresses: &[crate::verdict::AddressOutcome], now: Mono) -> Outcome {
    let uncovered = combine::node_outcome(addresses);
    if !addresses.is_empty() {
        return uncovered;
    }
    let effects = effects(policy, memory, &findings.node, None, now);
    let no_port = Endpoint { address: std::net::Ipv4Addr::UNSPECIFIED.into(), port: 0 };
    match combine::endpoint_outcome(no_port, &effects) {
        outcome if outcome.state == State::Down => outcome,
        _ => uncovered,
    }
}

/// Reasons that tell of evidence which the agent cannot get, as opposed to a question that has no answer here.
#[must_use]
pub const fn is_blindness(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::SocketsUnreadable
            | Reason::Unidentified
            | Reason::MapsUnreadable
            | Reason::MapLayoutUnknown
            | Reason::NoCiliumMaps
            | Reason::NetfilterUnreadable
            | Reason::QueuesUnreadable
            | Reason::AdminUnreachable
            | Reason::RoutesUnreadable
            | Reason::NoLivenessStamp
    )
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
