//! The pids that were looked at already, so that a started Envoy is found by looking at new processes only. Used while there is
//! no Envoy. Must not read descriptors.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use gwready_core::time::Mono;

use super::procfs_root::{Fault, ProcRoot, ProcessDir};
use super::walk::{Named, name};
use crate::clock;

/// A process younger than this to us may still exec: a runtime, then the starter, then Envoy under one pid.
const MAY_STILL_EXEC: Duration = Duration::from_secs(5);
/// So many processes are looked at by every scan, even if listing /proc took all of its time: else it would never get anywhere.
const AT_LEAST: usize = 32;

/// Pids by the moment at which they were first seen.
#[derive(Debug, Default)]
pub(super) struct KnownPids {
    first_seen: HashMap<u32, Mono>,
}

/// What a scan found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Envoys by name, not checked further.
    pub envoys: Vec<ProcessDir>,
    /// Every new process was named.
    pub complete: bool,
}

impl KnownPids {
    /// Takes over the pids of a walk. Those of the first walk count as old: nearly all of them are.
    pub(super) fn learn(&mut self, pids: &[u32], at: Mono) {
        let at = if self.first_seen.is_empty() { Mono(0) } else { at };
        let known = std::mem::take(&mut self.first_seen);
        self.first_seen = pids.iter().map(|pid| (*pid, known.get(pid).copied().unwrap_or(at))).collect();
    }

    /// Forgets a pid: what is found under it is new, or was not seen well.
    pub(super) fn forget(&mut self, pid: u32) {
        self.first_seen.remove(&pid);
    }

    /// Looks at processes until `until`: first those never seen, so that every read gets further, then those that may still
    /// exec; the newest first of each.
    pub(super) fn scan(&mut self, root: &ProcRoot, envoy_exe: &str, now: Mono, until: Mono) -> Scan {
        let Ok(pids) = root.pids() else { return Scan::default() };
        let alive: HashSet<u32> = pids.iter().copied().collect();
        self.first_seen.retain(|pid, _| alive.contains(pid));
        let mut scan = Scan { complete: true, ..Scan::default() };
        let (seen, fresh): (Vec<u32>, Vec<u32>) = pids.into_iter().rev().partition(|pid| self.first_seen.contains_key(pid));
        let young = |pid: &u32| self.first_seen.get(pid).is_some_and(|at| now.since(*at) < MAY_STILL_EXEC);
        let again: Vec<u32> = seen.into_iter().filter(young).collect();
        for (looked_at, pid) in fresh.into_iter().chain(again).enumerate() {
            if looked_at >= AT_LEAST && clock::mono() >= until {
                scan.complete = false;
                break;
            }
            match root.process(pid).and_then(|dir| name(&dir, envoy_exe).map(|named| (dir, named))) {
                Ok((dir, Named::Envoy)) => scan.envoys.push(dir),
                // As old as can be: thousands of zombies must not keep the young ones from being looked at again.
                Ok((_, Named::Bodiless)) => {
                    self.first_seen.insert(pid, Mono(0));
                    continue;
                }
                Ok((_, Named::Other)) | Err(Fault::Gone) => {}
                // Not looked at: to be asked again by the next scan.
                Err(Fault::Exhausted(_)) => {
                    scan.complete = false;
                    continue;
                }
                Err(Fault::Refused(_) | Fault::Failed(_)) => scan.complete = false,
            }
            self.first_seen.entry(pid).or_insert(now);
        }
        scan
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeProc, FakeProcess};
    use super::*;

    /// Whether a scan without any time is complete, after one that named a hundred processes of this kind.
    fn names_all_again_at_once(exe: Option<&'static str>) -> bool {
        let fake = FakeProc::new();
        for pid in 100..200 {
            fake.write(&FakeProcess { exe, ..FakeProcess::new(pid, "busy", &[]) });
        }
        let root = ProcRoot::open(fake.path()).unwrap();
        let mut known = KnownPids::default();
        let now = clock::mono();
        assert!(known.scan(&root, "cilium-envoy", now, now.plus(Duration::from_secs(60))).complete);
        known.scan(&root, "cilium-envoy", now, now).complete
    }

    #[test]
    fn the_young_are_named_again_and_zombies_are_not() {
        assert!(!names_all_again_at_once(Some("busy")), "they may exec");
        assert!(names_all_again_at_once(None));
    }
}
