//! Likely holders of a socket that just appeared: processes that are remembered already (a listener update adds sockets to the
//! same Envoy), and the processes of the cgroup that the kernel names for the socket. Must stay within its budget.

use std::collections::{HashMap, HashSet};
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

/// Searches the candidates for `fresh` sockets (inode, cgroup id). What is refused or cut short is left to the walk.
pub(super) fn search_candidates(root: &ProcRoot, processes: &HashMap<u32, Tracked>, fresh: &[(u64, Option<u64>)], now: Mono) -> Found {
    let wanted: HashSet<u64> = fresh.iter().map(|(inode, _)| *inode).collect();
    let mut budget = Budget { left: DESCRIPTORS, until: now.plus(TIME) };
    let mut found = Found::default();
    for (pid, process) in processes {
        if let Ok(held) = search_descriptors(&process.dir, &wanted, &mut budget)
            && !held.sockets.is_empty()
        {
            found.known.push((*pid, held.sockets));
        }
    }
    for pid in siblings(processes, fresh) {
        let looked = root.process(pid).and_then(|dir| Ok((search_descriptors(&dir, &wanted, &mut budget)?, Tracked::new(dir)?)));
        if let Ok((held, process)) = looked
            && !held.sockets.is_empty()
        {
            found.new.push(Hit { process, sockets: held.sockets });
        }
    }
    found
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
