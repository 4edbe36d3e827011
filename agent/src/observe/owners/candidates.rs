//! Likely holders of a socket that just appeared: processes that are remembered already (a listener update adds sockets to the
//! same Envoy), those that a kernel event says began to listen, and the processes of the cgroup that the kernel names for the socket.
//! Must stay within its budget.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use gwready_core::time::Mono;

use super::cgroups::Cgroups;
use super::descriptors::{Budget, Descriptors, search_descriptors};
use super::process::Tracked;
use super::procfs_root::ProcRoot;
use super::walk::Hit;

/// Descriptors and time for all candidates of one pass: an Envoy with 50,000 connections must not make the pass slow.
const DESCRIPTORS: usize = 4096;
const TIME: Duration = Duration::from_millis(1);
/// Processes of a cgroup that are looked at.
const SIBLINGS: usize = 32;

/// What the candidates hold.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Remembered processes: pid and descriptors.
    pub known: Vec<(u32, Descriptors)>,
    /// Others.
    pub new: Vec<Hit>,
}

/// Searches the candidates for `fresh` sockets (inode, cgroup id); `openers` are said to have just begun to listen. What is refused or
/// cut short is left to the walk.
pub(super) fn search_candidates(
    root: &ProcRoot,
    processes: &HashMap<u32, Tracked>,
    fresh: &[(u64, Option<u64>)],
    openers: &BTreeSet<u32>,
    now: Mono,
) -> Found {
    let wanted: HashSet<u64> = fresh.iter().map(|(inode, _)| *inode).collect();
    let mut budget = Budget { left: DESCRIPTORS, until: now.plus(TIME) };
    let mut found = Found::default();
    let remembered = processes.keys().copied();
    let mut asked = HashSet::new();
    // The likeliest first: what is left when time is up has to wait for the walk.
    for pid in openers.iter().copied().chain(remembered).chain(siblings(processes, fresh)).filter(|pid| asked.insert(*pid)) {
        match processes.get(&pid) {
            Some(process) => {
                if let Ok(held) = search_descriptors(&process.dir, &wanted, &mut budget)
                    && !held.sockets.is_empty()
                {
                    found.known.push((pid, held.sockets));
                }
            }
            None => found.new.extend(stranger(root, pid, &wanted, &mut budget)),
        }
    }
    found
}

/// A process that is not remembered, if it holds one of the sockets.
fn stranger(root: &ProcRoot, pid: u32, wanted: &HashSet<u64>, budget: &mut Budget) -> Option<Hit> {
    let dir = root.process(pid).ok()?;
    let sockets = search_descriptors(&dir, wanted, budget).ok()?.sockets;
    if sockets.is_empty() {
        return None;
    }
    Some(Hit { process: Tracked::new(dir).ok()?, sockets })
}

/// Processes of the sockets' cgroups that are not remembered themselves.
fn siblings(processes: &HashMap<u32, Tracked>, fresh: &[(u64, Option<u64>)]) -> Vec<u32> {
    let ids: HashSet<u64> = fresh.iter().filter_map(|(_, id)| *id).collect();
    let mut groups: HashMap<u64, &Cgroups> = HashMap::new();
    for cgroups in processes.values().filter_map(|process| process.cgroups.as_ref()) {
        if let Some(id) = cgroups.id.filter(|id| ids.contains(id)) {
            groups.insert(id, cgroups);
        }
    }
    let pids = groups.values().flat_map(|cgroups| cgroups.siblings()).filter(|pid| !processes.contains_key(pid));
    pids.take(SIBLINGS).collect()
}
