//! What a judgement learns for the next ones: good reads, the ports and families that the gateway was seen to use.

use crate::facts::Snapshot;
use crate::facts::sockets::Listener;
use crate::memory::Memory;
use crate::net::Family;
use crate::policy::Policy;
use crate::time::Mono;

use super::identity::{Identity, identify};
use super::ports::remember_ports;
use super::queues::remember_queues;

/// Updates `memory` from the facts, before anything is judged. Also forgets endpoints that are no longer planned.
pub fn learn(policy: &Policy, snapshot: &Snapshot, memory: &mut Memory, now: Mono) {
    if snapshot.sockets.value().is_some() {
        memory.sockets_read_at = snapshot.sockets.window().map(|window| window.end.min(now));
    }
    remember_ports(&mut memory.ports_seen, policy.mode, snapshot, now);
    remember_queues(&mut memory.queues, snapshot);
    learn_families(policy, snapshot, memory);
    let planned: std::collections::BTreeSet<_> = memory.plan.endpoints().map(|(endpoint, _)| endpoint).collect();
    memory.proven.retain(|endpoint, _| planned.contains(endpoint));
    memory.recovery.retain(|endpoint, _| planned.contains(endpoint));
    memory.known.retain(|subject, _| subject.endpoint.is_none_or(|endpoint| planned.contains(&endpoint)));
}

/// A family counts as served once a listener of the gateway's Envoy has been seen in it.
fn learn_families(policy: &Policy, snapshot: &Snapshot, memory: &mut Memory) {
    let (Some(table), Some(owners)) = (snapshot.sockets.value(), snapshot.owners.value()) else { return };
    if memory.families_seen.len() == Family::ALL.len() {
        return;
    }
    let maps = snapshot.lb.maps_exist();
    for row in table.listeners.iter().filter(|row| !row.address.to_canonical().is_loopback()) {
        let served = served_families(row);
        if served.iter().any(|family| !memory.families_seen.contains(family))
            && matches!(identify(policy, owners, row, maps), Identity::Envoy { .. })
        {
            memory.families_seen.extend(served);
        }
    }
}

fn served_families(row: &Listener) -> Vec<Family> {
    match Family::of(row.address) {
        Family::Ipv6 if row.address.is_unspecified() && row.v6only == Some(false) => Family::ALL.to_vec(),
        family => vec![family],
    }
}

#[cfg(test)]
#[path = "learn_tests.rs"]
mod tests;
