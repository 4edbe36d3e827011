//! `Accepting`: the accept queues of an endpoint's sockets move, and the process behind them is not stopped.
//!
//! Rules and their side of error. A queue that may still be moving is never called stuck: full and moving is `Overloaded`, a
//! remark on True, because every node of a pool is full at once and taking them out one by one ends in none. Whether a
//! queue moves is read from its history ([`super::queues`]), never from one length.
//! Losing the owner source gives Unknown, not True: a stopped process must not turn good because it can't be seen.

use std::time::Duration;

use crate::condition::{ConditionType, Finding};
use crate::facts::Snapshot;
use crate::facts::processes::{Holders, Owners, Process, RunState};
use crate::facts::sockets::{Listener, SocketTable};
use crate::memory::Memory;
use crate::memory_queues::QueueMemory;
use crate::net::Endpoint;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::time::Mono;

use super::queues::{WORKER_GRACE, is_full, is_still};

const KIND: ConditionType = ConditionType::Accepting;

/// How long a process may be in state D before it counts as stopped.
pub const UNINTERRUPTIBLE_GRACE: Duration = Duration::from_secs(5);
/// How long `Overloaded` is shown after a queue was last seen full.
pub const OVERLOAD_SHOWN: Duration = Duration::from_secs(5);

/// Judges one endpoint. `memory.queues` must have taken in this snapshot ([`super::queues::remember_queues`]).
#[must_use]
pub fn judge_accepting(policy: &Policy, snapshot: &Snapshot, memory: &Memory, endpoint: Endpoint, now: Mono) -> Finding {
    let queues = &memory.queues;
    let Some(table) = snapshot.sockets.value() else {
        let detail = snapshot.sockets.unavailable().map_or("not read yet", |unavailable| unavailable.detail.as_str());
        return Finding::unknown(KIND, Reason::QueuesUnreadable, detail);
    };
    if !table.lookups.iter().any(|lookup| lookup.endpoint == endpoint) {
        return Finding::unknown(KIND, Reason::QueuesUnreadable, "this address has not been looked up yet");
    }
    let group = group(table, endpoint);
    if group.is_empty() {
        // Nothing listens: no queue and no owner can be at fault. `Listening` says what is wrong.
        return Finding::holds(KIND);
    }
    let owners = snapshot.owners.value().map(|owners| behind(owners, &group));
    if let Some(finding) = owners.iter().flatten().find_map(|process| stopped(queues, process, now)) {
        return finding;
    }
    if let Some(finding) = owners.iter().flatten().find_map(|process| exhausted(policy, queues, &group, process, now)) {
        return finding;
    }
    if let Some(finding) = stuck(policy, queues, &group, now) {
        return finding;
    }
    if owners.is_none_or(|owners| owners.is_empty()) {
        return Finding::unknown(KIND, Reason::QueuesUnreadable, "the queues move, but the state of the process behind them can't be read")
            .refuting([Reason::QueueStuck, Reason::WorkerStuck]);
    }
    overloaded(queues, &group, now).unwrap_or_else(|| Finding::holds(KIND))
}

/// Whether a queue of `endpoint` is or was just full without being stuck: clients wait for reasons that the pool shares.
#[must_use]
pub fn is_overloaded(snapshot: &Snapshot, memory: &Memory, endpoint: Endpoint, now: Mono) -> bool {
    let group = snapshot.sockets.value().map(|table| group(table, endpoint)).unwrap_or_default();
    overloaded(&memory.queues, &group, now).is_some()
        && !group.iter().all(|row| is_still(&memory.queues, row.id.cookie, Duration::ZERO, now))
}

/// The sockets that a client of `endpoint` can get: those that the kernel picks, and their groups.
fn group(table: &SocketTable, endpoint: Endpoint) -> Vec<&Listener> {
    let picked = || table.lookups.iter().filter(move |lookup| lookup.endpoint == endpoint).filter_map(|lookup| lookup.picked.as_ref());
    let mut group: Vec<&Listener> = table.listeners.iter().filter(|row| picked().any(|picked| picked.group() == row.group())).collect();
    for socket in picked() {
        if !group.iter().any(|row| row.id.cookie == socket.id.cookie) {
            group.push(socket);
        }
    }
    group
}

/// The processes behind the group: its holders, or where those can't be read, the Envoys of this namespace.
fn behind<'a>(owners: &'a Owners, group: &[&Listener]) -> Vec<&'a Process> {
    let held = |row: &&Listener| match owners.holders.get(&row.id.inode) {
        Some(Holders::Known { pids, .. }) => pids.clone(),
        Some(Holders::Unknown(_) | Holders::Searching(_)) | None => Vec::new(),
    };
    let mut pids: Vec<u32> = group.iter().flat_map(held).collect();
    // The starter and other kin hold copies of descriptors; the one who accepts is the Envoy among them.
    if pids.is_empty() || pids.iter().any(|pid| owners.envoys.contains(pid)) {
        pids.retain(|pid| owners.envoys.contains(pid));
        if pids.is_empty() {
            pids = owners.own_envoys();
        }
    }
    pids.sort_unstable();
    pids.dedup();
    let mut processes: Vec<&Process> = pids.iter().filter_map(|pid| owners.processes.get(pid)).collect();
    // One that has ended stands for the socket only where nobody else does.
    if processes.iter().any(|process| process.state != RunState::Dead) {
        processes.retain(|process| process.state != RunState::Dead);
    }
    processes
}

fn name(process: &Process) -> String {
    format!("{}[{}]", process.exe.get().unwrap_or(&process.comm), process.pid)
}

fn stopped(queues: &QueueMemory, process: &Process, now: Mono) -> Option<Finding> {
    let waiting = queues.owners.get(&(process.pid, process.start_ticks)).and_then(|track| track.uninterruptible_since);
    let (state, how) = match process.state {
        RunState::Stopped => ("T", "is stopped (state T): the kernel completes handshakes for it, nobody accepts".to_owned()),
        RunState::Dead => ("Z", "is a zombie".to_owned()),
        _ if process.frozen == Some(true) => {
            ("frozen", "is frozen by its cgroup: the kernel completes handshakes for it, nobody accepts".to_owned())
        }
        RunState::Uninterruptible if waiting.is_some_and(|since| now.since(since) >= UNINTERRUPTIBLE_GRACE) => {
            ("D", format!("has been stuck in the kernel (state D) for {} s", waiting.map_or(0, |since| now.since(since).as_secs())))
        }
        RunState::Alive | RunState::Uninterruptible => return None,
    };
    let message = format!("{} {how}", name(process));
    Some(Finding::fails(KIND, Reason::ProcessStopped, message).with("process", name(process)).with("state", state))
}

/// No descriptor free at every reading for `queue_grace`, and every queue is empty or proven to stand still: with connections
/// that come and go at the limit, each close lets one in, and that is overload.
fn exhausted(policy: &Policy, queues: &QueueMemory, group: &[&Listener], process: &Process, now: Mono) -> Option<Finding> {
    let since = queues.owners.get(&(process.pid, process.start_ticks))?.exhausted_since?;
    let may_move = |row: &&Listener| {
        let moved = queues.sockets.get(&row.id.cookie).and_then(|track| track.moved_at);
        moved.is_some_and(|at| at > since) || (row.queue_length > 0 && !is_still(queues, row.id.cookie, policy.queue_grace, now))
    };
    if now.since(since) < policy.queue_grace || group.iter().any(may_move) {
        return None;
    }
    let (open, limit) = process.open_files.zip(process.open_files_limit)?;
    let message = format!("{} has {open} of {limit} file descriptors open: it can't accept", name(process));
    Some(
        Finding::fails(KIND, Reason::OutOfFileDescriptors, message)
            .with("process", name(process))
            .with("open_files", open)
            .with("limit", limit),
    )
}

fn stuck(policy: &Policy, queues: &QueueMemory, group: &[&Listener], now: Mono) -> Option<Finding> {
    let lengths = || group.iter().map(|row| row.queue_length.to_string()).collect::<Vec<_>>().join(" ");
    let limit = group.iter().map(|row| row.queue_limit).max().unwrap_or_default();
    let describe = |finding: Finding| finding.with("queues", lengths()).with("limit", limit);
    if group.iter().all(|row| is_still(queues, row.id.cookie, policy.queue_grace, now)) {
        let message = format!("{} connections wait and none has been accepted for {} s", waiting(group), still_for(queues, group, now));
        return Some(describe(Finding::fails(KIND, Reason::QueueStuck, message)));
    }
    let workers = group.iter().filter(|row| {
        queues.sockets.get(&row.id.cookie).is_some_and(|track| track.worker_stuck)
            || (group.len() > 1 && is_still(queues, row.id.cookie, WORKER_GRACE, now))
    });
    let count = workers.count();
    let message = || format!("{count} of {} workers do not accept: that share of the clients hangs", group.len());
    (count > 0).then(|| describe(Finding::fails(KIND, Reason::WorkerStuck, message())))
}

fn waiting(group: &[&Listener]) -> u32 {
    group.iter().fold(0, |sum, row| sum.saturating_add(row.queue_length))
}

fn still_for(queues: &QueueMemory, group: &[&Listener], now: Mono) -> u64 {
    let since = group.iter().filter_map(|row| queues.sockets.get(&row.id.cookie)?.still_since).max();
    since.map_or(0, |since| now.since(since).as_secs())
}

/// A remark on True: a queue is or was just full.
fn overloaded(queues: &QueueMemory, group: &[&Listener], now: Mono) -> Option<Finding> {
    let was_full = |row: &&&Listener| {
        is_full(row)
            || queues.sockets.get(&row.id.cookie).is_some_and(|track| track.full_at.is_some_and(|at| now.since(at) < OVERLOAD_SHOWN))
    };
    let full = group.iter().filter(was_full).count();
    let drops = group.iter().filter_map(|row| row.drops).fold(0, u32::saturating_add);
    (full > 0).then(|| Finding {
        reason: Some(Reason::Overloaded),
        message: format!("{full} of {} accept queues are full, but connections are accepted", group.len()),
        ..Finding::holds(KIND).with("waiting", waiting(group)).with("drops", drops)
    })
}

#[cfg(test)]
#[path = "accepting_tests.rs"]
mod tests;
