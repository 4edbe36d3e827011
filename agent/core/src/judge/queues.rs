//! The step that keeps the history of accept queues and their owners, once per judgement, before `Accepting` is judged.
//!
//! Must not conclude anything: it only notes what was seen when. Why lengths prove what they prove: [`crate::memory_queues`].

use std::time::Duration;

use crate::facts::Snapshot;
use crate::facts::processes::{Process, RunState};
use crate::facts::sockets::{Listener, SocketTable};
use crate::memory_queues::{MIN_SCORE, OwnerTrack, QueueMemory, QueueTrack, SPACING, WEIGHT};
use crate::time::Mono;

/// How long one member of a group must stand still while others move or are empty.
pub const WORKER_GRACE: Duration = Duration::from_secs(3);

/// Takes in what is new in `snapshot`. The same reading again changes nothing; a failed reading keeps the history: nothing
/// was seen, so nothing is known to have moved.
pub fn remember_queues(memory: &mut QueueMemory, snapshot: &Snapshot) {
    if let (Some(table), Some(window)) = (snapshot.sockets.value(), snapshot.sockets.window()) {
        let is_new = memory.read_at.is_none_or(|last| window.end > last);
        if is_new {
            let rows = rows(table);
            memory.sockets.retain(|cookie, _| rows.iter().any(|row| row.id.cookie == *cookie));
            // Samples older than this reading come first; they must not look like a later step up.
            take_samples(memory, snapshot, Some(window.end));
            for row in &rows {
                note_row(memory.sockets.entry(row.id.cookie).or_default(), row, window.end);
            }
            memory.read_at = Some(window.end);
        }
        take_samples(memory, snapshot, None);
        mark_workers(memory, table);
    }
    if let (Some(owners), Some(window)) = (snapshot.owners.value(), snapshot.owners.window())
        && memory.owners_read_at.is_none_or(|last| window.end > last)
    {
        memory.owners.retain(|(pid, start), _| owners.processes.get(pid).is_some_and(|process| process.start_ticks == *start));
        for process in owners.processes.values() {
            note_owner(memory.owners.entry((process.pid, process.start_ticks)).or_default(), process, window.end);
        }
        memory.owners_read_at = Some(window.end);
    }
}

/// Every socket of the table once: rows, and what lookups picked though no row shows it (another port, by sk_lookup).
fn rows(table: &SocketTable) -> Vec<&Listener> {
    let mut rows: Vec<&Listener> = table.listeners.iter().collect();
    for picked in table.lookups.iter().filter_map(|lookup| lookup.picked.as_ref()) {
        if !rows.iter().any(|row| row.id.cookie == picked.id.cookie) {
            rows.push(picked);
        }
    }
    rows
}

/// A queue is full when a further connection would be refused (include/net/sock.h, `sk_acceptq_is_full`).
#[must_use]
pub const fn is_full(row: &Listener) -> bool {
    row.queue_length > row.queue_limit
}

fn note_row(track: &mut QueueTrack, row: &Listener, at: Mono) {
    let overflowed = track.drops.zip(row.drops).is_some_and(|(before, now)| now > before);
    if is_full(row) || overflowed {
        track.full_at = Some(at);
    }
    track.drops = row.drops;
    track.limit = row.queue_limit;
    note_length(track, row.queue_length, at);
}

fn note_length(track: &mut QueueTrack, length: u32, at: Mono) {
    if length == 0 {
        track.worker_stuck = false;
    }
    if length < track.length {
        track.moved_at = Some(at);
    }
    if length == 0 || length < track.length {
        track.still_since = None;
        track.still_readings = 0;
        track.still_score = 0;
    }
    if length > 0 {
        let begins = track.still_since.is_none();
        track.still_since.get_or_insert(at);
        if begins || track.counted_at.is_none_or(|last| at.since(last) >= SPACING) {
            track.still_readings = track.still_readings.saturating_add(1);
            track.still_score = track.still_score.saturating_add(if length > track.limit { 1 } else { WEIGHT });
            track.counted_at = Some(at);
        }
    }
    track.length = length;
}

fn take_samples(memory: &mut QueueMemory, snapshot: &Snapshot, before: Option<Mono>) {
    let last = memory.sampled_at;
    let new = snapshot.queues.0.iter().filter(|sample| last.is_none_or(|last| sample.at > last));
    for sample in new.filter(|sample| before.is_none_or(|before| sample.at <= before)) {
        if memory.read_at.is_none_or(|read| sample.at > read)
            && let Some(track) = memory.sockets.get_mut(&sample.cookie)
        {
            note_length(track, sample.length, sample.at);
        }
        memory.sampled_at = memory.sampled_at.max(Some(sample.at));
    }
}

/// Notes workers that are stuck: a member of a group that stands still while another one does not. Kept until it is seen empty,
/// so that a slow trickle of accepts can't make the node come and go.
fn mark_workers(memory: &mut QueueMemory, table: &SocketTable) {
    let Some(at) = memory.read_at else { return };
    let stuck: Vec<u64> = table
        .listeners
        .iter()
        .filter(|row| is_still(memory, row.id.cookie, WORKER_GRACE, at))
        .filter(|row| {
            table.listeners.iter().any(|other| row.group() == other.group() && !is_still(memory, other.id.cookie, Duration::ZERO, at))
        })
        .map(|row| row.id.cookie)
        .collect();
    for cookie in stuck {
        if let Some(track) = memory.sockets.get_mut(&cookie) {
            track.worker_stuck = true;
        }
    }
}

/// Not empty, and no accept has been seen for `grace` in enough readings.
#[must_use]
pub fn is_still(memory: &QueueMemory, cookie: u64, grace: Duration, now: Mono) -> bool {
    memory
        .sockets
        .get(&cookie)
        .is_some_and(|track| track.still_score >= MIN_SCORE && track.still_since.is_some_and(|since| now.since(since) >= grace))
}

fn note_owner(track: &mut OwnerTrack, process: &Process, at: Mono) {
    let since = |holds: bool, before: Option<Mono>| holds.then(|| before.unwrap_or(at));
    let exhausted = process.open_files.zip(process.open_files_limit).is_some_and(|(open, limit)| open >= limit);
    track.uninterruptible_since = since(process.state == RunState::Uninterruptible, track.uninterruptible_since);
    track.exhausted_since = since(exhausted, track.exhausted_since);
}
