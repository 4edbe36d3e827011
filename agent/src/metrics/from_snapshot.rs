//! Gauges of the last snapshot: listeners by owner, queues, ages of sources, certificates.

use std::collections::BTreeMap;

use gwready_core::facts::Snapshot;
use gwready_core::facts::probes::ProbeOutcome;
use gwready_core::facts::processes::{Holders, Owners};
use gwready_core::facts::sockets::Listener;
use gwready_core::net::{Family as AddressFamily, Front};
use gwready_core::render::sources::source_reads;
use gwready_core::render::text::sanitise;
use gwready_core::time::Mono;
use gwready_core::verdict::Verdict;

use super::catalog as of;
use super::sample::Family;

const OWNERS: [&str; 3] = ["envoy", "foreign", "unknown"];

/// All of them.
pub(super) fn families(verdict: &Verdict, snapshot: &Snapshot, now: Mono) -> Vec<Family> {
    let mut families = vec![listener_sockets(verdict, snapshot)];
    families.extend(queues(snapshot));
    families.push(ages(snapshot, now));
    families.push(certificates(snapshot));
    families
}

/// Every expected front has its three series from the start; without a table of sockets there is nothing to count.
fn listener_sockets(verdict: &Verdict, snapshot: &Snapshot) -> Family {
    let mut family = Family::new(&of::LISTENER_SOCKETS);
    let Some(table) = snapshot.sockets.value() else { return family };
    let fronts = verdict.ports.iter().flat_map(|&port| AddressFamily::ALL.map(|family| Front { port, family }));
    let mut counts: BTreeMap<(Front, &str), u32> = fronts.flat_map(|front| OWNERS.map(|owner| ((front, owner), 0))).collect();
    for listener in &table.listeners {
        *counts.entry((front(listener), owner(listener, snapshot.owners.value()))).or_default() += 1;
    }
    for ((front, owner), count) in counts {
        family.push(&[&front.port.to_string(), front.family.as_str(), owner], f64::from(count));
    }
    family
}

const fn front(listener: &Listener) -> Front {
    Front { port: listener.port, family: listener.family }
}

fn owner(listener: &Listener, owners: Option<&Owners>) -> &'static str {
    match owners.and_then(|owners| Some((owners, owners.holders.get(&listener.id.inode)?))) {
        Some((owners, Holders::Known { pids, .. })) if pids.iter().any(|pid| owners.envoys.contains(pid)) => "envoy",
        Some((_, Holders::Known { pids, complete: true })) if !pids.is_empty() => "foreign",
        _ => "unknown",
    }
}

/// Length and limit of the socket whose queue is fullest in proportion.
fn queues(snapshot: &Snapshot) -> [Family; 2] {
    let mut worst: BTreeMap<Front, &Listener> = BTreeMap::new();
    let fuller = |a: &Listener, b: &Listener| {
        u64::from(a.queue_length) * u64::from(b.queue_limit.max(1)) > u64::from(b.queue_length) * u64::from(a.queue_limit.max(1))
    };
    for listener in snapshot.sockets.value().iter().flat_map(|table| &table.listeners) {
        let entry = worst.entry(front(listener)).or_insert(listener);
        if fuller(listener, entry) {
            *entry = listener;
        }
    }
    let (mut length, mut limit) = (Family::new(&of::ACCEPT_QUEUE_LENGTH), Family::new(&of::ACCEPT_QUEUE_LIMIT));
    for (front, listener) in worst {
        let port = front.port.to_string();
        length.push(&[&port, front.family.as_str()], f64::from(listener.queue_length));
        limit.push(&[&port, front.family.as_str()], f64::from(listener.queue_limit));
    }
    [length, limit]
}

fn ages(snapshot: &Snapshot, now: Mono) -> Family {
    let mut family = Family::new(&of::OBSERVATION_AGE);
    for read in source_reads(snapshot) {
        if let Some(at) = read.observed_at() {
            family.push(&[read.name], now.since(at).as_secs_f64());
        }
    }
    family
}

/// The earliest expiry per port and server name.
#[expect(clippy::cast_precision_loss, reason = "seconds since the epoch are far below 2^53")]
fn certificates(snapshot: &Snapshot) -> Family {
    let mut earliest: BTreeMap<(u16, String), i64> = BTreeMap::new();
    for result in snapshot.probes.value().iter().flat_map(|table| &table.results) {
        if let ProbeOutcome::TlsAnswered { not_after: Some(at) } = result.outcome {
            let name = sanitise(result.server_name.as_deref().unwrap_or_default());
            let entry = earliest.entry((result.endpoint.port, name)).or_insert(at);
            *entry = at.min(*entry);
        }
    }
    let mut family = Family::new(&of::TLS_NOT_AFTER);
    for ((port, name), at) in earliest {
        family.push(&[&port.to_string(), &name], at as f64);
    }
    family
}
