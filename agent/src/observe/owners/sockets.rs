//! What is remembered per socket: who holds it under which descriptor number, and how thoroughly that was searched. Must not
//! open anything itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use gwready_core::facts::processes::Holders;
use gwready_core::facts::sockets::Listener;
use gwready_core::time::Mono;

use super::process::Tracked;
use super::procfs_root::Fault;
use super::walk::{Coverage, Walked};

/// First and longest pause before a socket without a holder is searched for again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Between two searches for the same socket at least this many times as long as the last one took: 5 % of one core at most.
const REST: u32 = 20;

/// One socket.
#[derive(Debug)]
pub(super) struct Remembered {
    cookie: u64,
    /// First seen, or lost a holder: a search that began before says nothing about who holds it now.
    changed_at: Mono,
    /// cgroup of the process that created it, where the kernel says so.
    cgroup_id: Option<u64>,
    /// Pid and one descriptor number of it.
    holders: Vec<(u32, u32)>,
    /// How thoroughly its holders were searched for since then; none = not yet.
    searched: Option<Coverage>,
    /// The likely candidates were not asked yet.
    fresh: bool,
    /// It lost a holder since it was searched for: who forks once forks again.
    changed: bool,
    attempts: u32,
    not_before: Mono,
}

/// The sockets of the expected ports, by inode.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    by_inode: BTreeMap<u64, Remembered>,
}

impl Sockets {
    /// Drops what is no longer listed and adds what is new. An inode number may come again with another socket: the cookie tells.
    pub(super) fn keep(&mut self, listeners: &[Listener], now: Mono) {
        let listed: HashMap<u64, &Listener> =
            listeners.iter().filter(|listener| listener.id.inode != 0).map(|listener| (listener.id.inode, listener)).collect();
        self.by_inode.retain(|inode, socket| listed.get(inode).is_some_and(|listener| listener.id.cookie == socket.cookie));
        for (inode, listener) in listed {
            self.by_inode.entry(inode).or_insert_with(|| Remembered {
                cookie: listener.id.cookie,
                changed_at: now,
                // 0, 1: the kernel's way of saying nothing (no cgroup v2 controller in use; the root).
                cgroup_id: listener.cgroup_id.filter(|id| *id > 1),
                holders: Vec::new(),
                searched: None,
                fresh: true,
                changed: false,
                attempts: 0,
                not_before: now,
            });
        }
    }

    /// Checks every remembered holder by the one descriptor that is known of it. A socket that lost its last holder, though it
    /// still listens, has to be searched for again.
    pub(super) fn verify(&mut self, processes: &HashMap<u32, Tracked>, now: Mono) {
        for (inode, socket) in &mut self.by_inode {
            let before = socket.holders.len();
            socket.holders.retain(|(pid, fd)| {
                processes.get(pid).is_some_and(|process| match process.dir.socket_at(*fd) {
                    Ok(held) => held == Some(*inode),
                    Err(fault) => matches!(fault, Fault::Exhausted(_)),
                })
            });
            if socket.holders.len() < before {
                socket.lost(now);
            }
        }
    }

    /// Forgets a process.
    pub(super) fn forget(&mut self, pid: u32, now: Mono) {
        for socket in self.by_inode.values_mut() {
            let before = socket.holders.len();
            socket.holders.retain(|(holder, _)| *holder != pid);
            if socket.holders.len() < before {
                socket.lost(now);
            }
        }
    }

    /// Notes descriptors of one process, as far as their sockets are still listed.
    pub(super) fn note(&mut self, pid: u32, sockets: &[(u64, u32)]) {
        for (inode, fd) in sockets {
            if let Some(socket) = self.by_inode.get_mut(inode) {
                socket.holders.retain(|(holder, _)| *holder != pid);
                socket.holders.push((pid, *fd));
                socket.holders.sort_unstable();
            }
        }
    }

    /// Notes a finished walk.
    pub(super) fn note_walk(&mut self, walked: &Walked) {
        for (inode, socket) in &mut self.by_inode {
            if !walked.wanted.contains(inode) || socket.changed_at > walked.begin {
                continue;
            }
            socket.changed = false;
            socket.searched = Some(walked.coverage.clone());
            if socket.holders.is_empty() {
                let pause = BACK_OFF.0.saturating_mul(1_u32 << socket.attempts.min(10)).min(BACK_OFF.1);
                let rest = walked.end.since(walked.begin).saturating_mul(REST);
                socket.attempts += 1;
                socket.not_before = walked.end.plus(pause.max(rest));
            }
        }
    }

    /// Sockets for which the likely candidates should be asked; asks once.
    pub(super) fn take_fresh(&mut self) -> Vec<(u64, Option<u64>)> {
        let mut fresh = Vec::new();
        for (inode, socket) in &mut self.by_inode {
            if std::mem::take(&mut socket.fresh) {
                fresh.push((*inode, socket.cgroup_id));
            }
        }
        fresh
    }

    /// When a walk is due: some socket was never searched for, lost a holder, or has none and its pause is over then.
    pub(super) fn walk_due_at(&self) -> Option<Mono> {
        let open = |socket: &&Remembered| socket.searched.is_none() || socket.changed || socket.holders.is_empty();
        self.by_inode.values().filter(open).map(|socket| socket.not_before).min()
    }

    /// Some socket has a holder that a search of everything did not find: this /proc is not the whole node.
    pub(super) fn beyond_sight(&self) -> bool {
        self.by_inode.values().any(|socket| socket.holders.is_empty() && socket.searched == Some(Coverage::Whole))
    }

    pub(super) fn inodes(&self) -> HashSet<u64> {
        self.by_inode.keys().copied().collect()
    }

    pub(super) fn holds_any(&self, pid: u32) -> bool {
        self.by_inode.values().any(|socket| socket.holders.iter().any(|(holder, _)| *holder == pid))
    }

    /// The facts.
    pub(super) fn holders(&self) -> BTreeMap<u64, Holders> {
        self.by_inode.iter().map(|(inode, socket)| (*inode, socket.holders())).collect()
    }
}

impl Remembered {
    fn lost(&mut self, now: Mono) {
        self.fresh = true;
        self.changed = true;
        self.changed_at = now;
        if self.holders.is_empty() {
            self.searched = None;
        }
    }

    fn holders(&self) -> Holders {
        if self.holders.is_empty() {
            return match &self.searched {
                None => Holders::Searching("the search is still running".to_owned()),
                Some(Coverage::Whole) => Holders::Unknown("no process of this /proc holds it".to_owned()),
                Some(Coverage::Partly(why)) => Holders::Unknown(format!("not found, and {why}")),
                Some(Coverage::Failed(why)) => Holders::Searching(format!("the search failed: {why}")),
            };
        }
        let pids = self.holders.iter().map(|(pid, _)| *pid).collect();
        Holders::Known { pids, complete: self.searched == Some(Coverage::Whole) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    use gwready_core::facts::sockets::SocketId;

    fn row(inode: u64) -> Listener {
        Listener { cgroup_id: Some(1), ..Listener::bound_to(SocketId { inode, cookie: inode }, (Ipv4Addr::UNSPECIFIED, 80).into()) }
    }

    fn at(milliseconds: u64) -> Mono {
        Mono(milliseconds * 1_000_000)
    }

    fn walk(begin: u64, end: u64, coverage: Coverage) -> Walked {
        Walked { wanted: HashSet::from([7]), begin: at(begin), end: at(end), coverage, ..Walked::default() }
    }

    #[test]
    fn the_pause_before_the_next_search_doubles_up_to_two_seconds() {
        let mut sockets = Sockets::default();
        sockets.keep(&[row(7)], at(0));
        assert_eq!(sockets.walk_due_at(), Some(at(0)));
        let mut pauses = Vec::new();
        for _ in 0..7 {
            sockets.note_walk(&walk(1, 1, Coverage::Partly("refused".to_owned())));
            pauses.push(sockets.walk_due_at().unwrap().since(at(1)).as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn a_long_search_is_followed_by_a_long_pause() {
        let mut sockets = Sockets::default();
        sockets.keep(&[row(7)], at(0));
        sockets.note_walk(&walk(1, 301, Coverage::Whole));
        assert_eq!(sockets.walk_due_at(), Some(at(301 + 300 * 20)));
    }

    #[test]
    fn a_holder_that_was_found_ends_the_search_even_where_it_was_refused_in_part() {
        let mut sockets = Sockets::default();
        sockets.keep(&[row(7)], at(0));
        sockets.note(20, &[(7, 3)]);
        assert!(sockets.walk_due_at().is_some(), "others may share it");
        sockets.note_walk(&walk(1, 2, Coverage::Partly("refused".to_owned())));
        assert_eq!(sockets.walk_due_at(), None);
        assert_eq!(sockets.holders()[&7], Holders::Known { pids: vec![20], complete: false });
    }

    #[test]
    fn a_walk_that_began_before_the_socket_was_seen_says_nothing_about_it() {
        let mut sockets = Sockets::default();
        sockets.keep(&[row(7)], at(10));
        sockets.note_walk(&walk(9, 20, Coverage::Whole));
        assert_eq!(sockets.holders()[&7], Holders::Searching("the search is still running".to_owned()));
        assert!(!sockets.beyond_sight());
    }

    #[test]
    fn a_walk_that_began_before_the_last_holder_was_lost_says_nothing_about_the_next() {
        let mut sockets = Sockets::default();
        sockets.keep(&[row(7)], at(0));
        sockets.note(20, &[(7, 3)]);
        sockets.note_walk(&walk(1, 2, Coverage::Whole));
        sockets.forget(20, at(10));
        sockets.note_walk(&walk(9, 20, Coverage::Whole));
        assert_eq!(sockets.holders()[&7], Holders::Searching("the search is still running".to_owned()));
        assert!(sockets.walk_due_at().is_some());
        sockets.note_walk(&walk(21, 22, Coverage::Whole));
        assert_eq!(sockets.holders()[&7], Holders::Unknown("no process of this /proc holds it".to_owned()));
    }

    #[test]
    fn a_search_that_failed_for_want_of_descriptors_is_not_over() {
        let mut sockets = Sockets::default();
        sockets.keep(&[row(7)], at(0));
        sockets.note_walk(&walk(1, 2, Coverage::Failed("Too many open files".to_owned())));
        assert_eq!(sockets.holders()[&7], Holders::Searching("the search failed: Too many open files".to_owned()));
        assert!(!sockets.beyond_sight() && sockets.walk_due_at().is_some());
    }

    #[test]
    fn a_cgroup_id_of_one_is_no_evidence() {
        let mut sockets = Sockets::default();
        sockets.keep(&[row(7), Listener { cgroup_id: Some(4711), ..row(8) }], at(0));
        assert_eq!(sockets.take_fresh(), [(7, None), (8, Some(4711))]);
        assert_eq!(sockets.take_fresh(), [], "asked once");
    }
}
