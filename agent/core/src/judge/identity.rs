//! Who a listener belongs to: cilium-envoy, somebody else, or not to be told. Decides one socket from the facts about its
//! holders and about itself; must not decide a condition, and must never guess where a fact is hidden.
//!
//! Two witnesses. The executable's base name can be hidden (ptrace access) and imitated (a copied binary); the fingerprint
//! that Cilium's own listeners carry (mark 0xb00, transparent, uid 0) needs `CAP_NET_ADMIN` to be read. Either alone
//! identifies where the other can't be read; where both are readable and disagree while Cilium's maps exist, nobody is
//! identified. comm, NoNewPrivs and the parent are for the message: comm can be set by anyone.

use std::collections::BTreeSet;

use crate::facts::Snapshot;
use crate::facts::processes::{Holders, Owners, Process, Readable, RunState};
use crate::facts::sockets::Listener;
use crate::policy::Policy;

/// `SO_MARK` of the gateway listeners that Cilium's Envoy opens (cilium/proxy `cilium/bpf_metadata.cc`, older `socket_option.h`).
pub const ENVOY_MARK: u32 = 0xb00;
/// `SO_MARK` that the policy proxy's ports may carry instead: proxy ports on loopback, to which TPROXY leads, never fronts.
pub const ENVOY_INGRESS_MARK: u32 = 0xa00;

/// The answer for one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// A live cilium-envoy accepts on it.
    Envoy {
        /// Its pid; none where no holder could be found and the fingerprint alone identifies.
        pid: Option<u32>,
        /// Further Envoys that hold the same socket and are not kin of the first (hot restart), ascending.
        more_envoys: Vec<u32>,
        /// Foreign processes that hold it too and may accept from it, ascending: a share by other means. Kin (the starter, the
        /// same container) is left out.
        co_holders: Vec<u32>,
    },
    /// Somebody else's, and no Envoy holds it.
    Foreign {
        /// The holder that the others descend from, else the lowest pid.
        pid: u32,
        /// Every other foreign holder, ascending.
        others: Vec<u32>,
    },
    /// The facts do not tell.
    Unidentified {
        /// What kind of doubt, for the question whether an older proof still stands.
        doubt: Doubt,
        /// One sentence for a person, raw text, with both witnesses where they disagree.
        why: String,
        /// Holders that are known, ascending.
        pids: Vec<u32>,
    },
}

impl Identity {
    /// A process other than Envoy that can accept from the socket, if there is one.
    #[must_use]
    pub fn foreign_pid(&self) -> Option<u32> {
        match self {
            Self::Foreign { pid, .. } => Some(*pid),
            Self::Envoy { co_holders, .. } => co_holders.first().copied(),
            Self::Unidentified { .. } => None,
        }
    }

    /// Envoy's (and nobody else's), somebody else's, or not to be told.
    #[must_use]
    pub fn is_envoy(&self) -> Option<bool> {
        match self {
            Self::Unidentified { .. } => None,
            Self::Envoy { .. } | Self::Foreign { .. } => Some(self.foreign_pid().is_none()),
        }
    }

    /// Why the owner can't be told, and the sentence for a person.
    pub(super) fn doubt(&self) -> Option<(Doubt, &str)> {
        match self {
            Self::Unidentified { doubt, why, .. } => Some((*doubt, why)),
            Self::Envoy { .. } | Self::Foreign { .. } => None,
        }
    }

    /// Every Envoy that accepts from the socket, as far as pids are known.
    #[must_use]
    pub fn envoy_pids(&self) -> Vec<u32> {
        match self {
            Self::Envoy { pid, more_envoys, .. } => pid.iter().chain(more_envoys).copied().collect(),
            Self::Foreign { .. } | Self::Unidentified { .. } => Vec::new(),
        }
    }
}

/// Why a listener's owner can't be told, the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Nothing speaks against Envoy, and the search for the socket's holder is not over: it may be Envoy's newest, or an imitator's.
    Searching,
    /// A fact is hidden, or the witnesses disagree about a process that is an Envoy by its executable.
    Hidden,
    /// The holder is in plain sight and is another program, though the socket has Cilium's marks.
    Imitated,
}

/// What the socket's own facts say about cilium-envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fingerprint {
    /// Mark readable and Cilium's, uid 0, and not known to be non-transparent.
    Matches,
    /// At least one readable fact that Cilium's listeners never have.
    Contradicts,
    /// Nothing contradicts, and the mark could not be read.
    Unreadable,
}

/// Compares a socket with the listeners that Cilium's Envoy opens.
#[must_use]
pub fn fingerprint(listener: &Listener) -> Fingerprint {
    let is_proxy_port = listener.address.to_canonical().is_loopback();
    let is_ours = |mark| mark == ENVOY_MARK || (mark == ENVOY_INGRESS_MARK && is_proxy_port);
    let mark_differs = listener.mark.is_some_and(|mark| !is_ours(mark));
    if mark_differs || listener.transparent == Some(false) || listener.uid != 0 {
        Fingerprint::Contradicts
    } else if listener.mark.is_some() {
        Fingerprint::Matches
    } else {
        Fingerprint::Unreadable
    }
}

/// Identifies the owner of one listener. `cilium_maps_present`: Cilium's load-balancer maps exist on this node, so its Envoy
/// is expected to mark its sockets.
///
/// Precedence: an Envoy among the holders → Envoy, unless another holder that is no kin stays unclear; else a foreign holder
/// → Foreign; else unclear. No holder to be found: only a matching fingerprint identifies, and not even that where Envoy's other
/// sockets are seen in its hands: this one would be too. While they are still searched for,
/// nothing does: the fingerprint can be imitated by whoever may set a mark, and the search will tell.
#[must_use]
pub fn identify(policy: &Policy, owners: &Owners, listener: &Listener, cilium_maps_present: bool) -> Identity {
    let pids = match owners.holders.get(&listener.id.inode) {
        Some(Holders::Known { pids, .. }) => pids.as_slice(),
        Some(Holders::Unknown(why)) if sees_envoy(policy, owners) => return nobody(listener, Doubt::Hidden, why),
        Some(Holders::Unknown(why)) => return without_holder(listener, why),
        Some(Holders::Searching(why)) => return not_searched(listener, why),
        None => return not_searched(listener, "its holders were not looked for yet"),
    };
    let mut holders: Vec<&Process> =
        pids.iter().filter_map(|pid| owners.processes.get(pid)).filter(|process| process.state != RunState::Dead).collect();
    holders.sort_unstable_by_key(|process| process.pid);
    if holders.is_empty() {
        return not_searched(listener, "no live process is known to hold it");
    }
    let witness = Witness { policy, listener, cilium_maps_present };
    let claims: Vec<(&Process, Claim)> = holders.iter().map(|process| (*process, witness.claim(process))).collect();
    combine(policy, &claims)
}

/// The Envoys that hold a listener as its owner; where no holder is known, those of this network namespace. A process that only has
/// Envoy's name, though it may hold a port, is not among them while there is a right one: its end is nobody's.
#[must_use]
pub fn serving_envoys(policy: &Policy, snapshot: &Snapshot) -> BTreeSet<u32> {
    let Some(owners) = snapshot.owners.value() else { return BTreeSet::new() };
    let maps = snapshot.lb.maps_exist();
    let rows = snapshot.sockets.value().map_or(&[][..], |table| &table.listeners);
    let serving: BTreeSet<u32> = rows.iter().flat_map(|row| identify(policy, owners, row, maps).envoy_pids()).collect();
    if serving.is_empty() { owners.own_envoys().into_iter().collect() } else { serving }
}

/// What one holder is taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Claim {
    Envoy,
    /// The starter: holds copies, never accepts.
    Starter,
    Foreign,
    Unclear(Doubt, String),
}

struct Witness<'a> {
    policy: &'a Policy,
    listener: &'a Listener,
    cilium_maps_present: bool,
}

impl Witness<'_> {
    fn claim(&self, process: &Process) -> Claim {
        let fingerprint = fingerprint(self.listener);
        let named = process.exe.get().map(|exe| (exe, exe == &self.policy.envoy_exe));
        match (named, fingerprint, self.cilium_maps_present) {
            (Some((exe, _)), _, _) if is_starter(self.policy, exe) => Claim::Starter,
            (Some((exe, true)), Fingerprint::Contradicts, true) => self.disagreement(process, exe, Doubt::Hidden),
            (Some((exe, false)), Fingerprint::Matches, true) => self.disagreement(process, exe, Doubt::Imitated),
            (Some((_, true)), _, _) | (None, Fingerprint::Matches, _) => Claim::Envoy,
            (Some((_, false)), _, _) | (None, Fingerprint::Contradicts, _) => Claim::Foreign,
            (None, Fingerprint::Unreadable, _) => {
                let because = hidden_because(&process.exe);
                let why = format!("pid {} hides its executable ({because}), and the socket's mark can't be read", process.pid);
                Claim::Unclear(Doubt::Hidden, format!("{why}; its comm is {}", process.comm))
            }
        }
    }

    fn disagreement(&self, process: &Process, exe: &str, doubt: Doubt) -> Claim {
        let shown = show_fingerprint(self.listener);
        Claim::Unclear(doubt, format!("pid {} has the executable {exe}, but the socket has {shown}", process.pid))
    }
}

fn combine(policy: &Policy, claims: &[(&Process, Claim)]) -> Identity {
    let envoys: Vec<&Process> = of(claims, |claim| *claim == Claim::Envoy);
    // Where executables are hidden, the starter looks like an Envoy: of a parent and its child, the child is the one that serves.
    let mut serving: Vec<&Process> =
        envoys.iter().copied().filter(|one| !envoys.iter().any(|other| other.parent == one.pid && other.pid != one.pid)).collect();
    if serving.is_empty() {
        serving = envoys;
    }
    let foreign: Vec<&Process> = of(claims, |claim| *claim == Claim::Foreign);
    if let Some(first) = serving.first() {
        let stranger = |process: &&Process| !serving.iter().any(|envoy| is_kin(policy, envoy, process));
        if let Some((process, Claim::Unclear(_, why))) =
            claims.iter().find(|(process, claim)| matches!(claim, Claim::Unclear(..)) && stranger(process))
        {
            return Identity::Unidentified {
                doubt: Doubt::Hidden,
                why: format!("pid {} holds it as cilium-envoy, together with pid {}: {why}", first.pid, process.pid),
                pids: pids_of(claims.iter().map(|(process, _)| *process)),
            };
        }
        return Identity::Envoy {
            pid: Some(first.pid),
            more_envoys: pids_of(serving.iter().skip(1).copied().filter(|other| !is_kin(policy, first, other))),
            co_holders: pids_of(foreign.into_iter().filter(stranger)),
        };
    }
    if let Some(eldest) = eldest(&foreign) {
        return Identity::Foreign { pid: eldest.pid, others: pids_of(foreign.into_iter().filter(|other| other.pid != eldest.pid)) };
    }
    let doubts = claims.iter().filter_map(|(process, claim)| match claim {
        Claim::Unclear(doubt, why) => Some((*doubt, why.clone())),
        Claim::Starter => Some((Doubt::Hidden, format!("only the starter, pid {}, holds it: nobody accepts", process.pid))),
        Claim::Envoy | Claim::Foreign => None,
    });
    let (doubt, why) = doubts.max_by_key(|(doubt, _)| *doubt).unwrap_or((Doubt::Hidden, String::new()));
    Identity::Unidentified { doubt, why, pids: pids_of(claims.iter().map(|(process, _)| *process)) }
}

/// No holder to be found: the fingerprint alone may identify an Envoy, never anybody else.
fn without_holder(listener: &Listener, why: &str) -> Identity {
    match fingerprint(listener) {
        Fingerprint::Matches => Identity::Envoy { pid: None, more_envoys: Vec::new(), co_holders: Vec::new() },
        Fingerprint::Contradicts | Fingerprint::Unreadable => nobody(listener, Doubt::Hidden, why),
    }
}

/// Some socket is held by a process that is plainly Envoy.
fn sees_envoy(policy: &Policy, owners: &Owners) -> bool {
    let is_envoy = |pid: &u32| owners.processes.get(pid).and_then(|process| process.exe.get()) == Some(&policy.envoy_exe);
    owners.holders.values().any(|holders| matches!(holders, Holders::Known { pids, .. } if pids.iter().any(is_envoy)))
}

/// The holder may still be found: nobody is identified.
fn not_searched(listener: &Listener, why: &str) -> Identity {
    let doubt = if fingerprint(listener) == Fingerprint::Contradicts { Doubt::Hidden } else { Doubt::Searching };
    nobody(listener, doubt, why)
}

fn nobody(listener: &Listener, doubt: Doubt, why: &str) -> Identity {
    let why = format!("no holder is known ({why}), and the socket has {}", show_fingerprint(listener));
    Identity::Unidentified { doubt, why, pids: Vec::new() }
}

/// A process that may hold a copy of the Envoy's descriptors without taking connections: its starter, hidden or not, or anything
/// of its own container.
fn is_kin(policy: &Policy, envoy: &Process, other: &Process) -> bool {
    let related = envoy.parent == other.pid || other.parent == envoy.pid;
    let starter_or_hidden = other.exe.get().is_none_or(|exe| is_starter(policy, exe));
    (related && starter_or_hidden) || same_container(envoy, other)
}

fn same_container(one: &Process, other: &Process) -> bool {
    match (&one.pod, &other.pod) {
        (Some(a), Some(b)) => a.uid == b.uid && a.container_id.is_some() && a.container_id == b.container_id,
        _ => false,
    }
}

fn is_starter(policy: &Policy, exe: &str) -> bool {
    exe.strip_prefix(policy.envoy_exe.as_str()) == Some("-starter")
}

/// The process that the others descend from, else the lowest pid.
fn eldest<'a>(processes: &[&'a Process]) -> Option<&'a Process> {
    let root = processes
        .iter()
        .copied()
        .find(|one| processes.iter().any(|other| other.parent == one.pid) && !processes.iter().any(|other| one.parent == other.pid));
    root.or_else(|| processes.iter().copied().min_by_key(|process| process.pid))
}

fn of<'a>(claims: &[(&'a Process, Claim)], wanted: impl Fn(&Claim) -> bool) -> Vec<&'a Process> {
    claims.iter().filter(|(_, claim)| wanted(claim)).map(|(process, _)| *process).collect()
}

fn pids_of<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<u32> {
    let mut pids: Vec<u32> = processes.map(|process| process.pid).collect();
    pids.sort_unstable();
    pids
}

fn show_fingerprint(listener: &Listener) -> String {
    let mark = listener.mark.map_or_else(|| "an unreadable mark".to_owned(), |mark| format!("mark {mark:#x}"));
    let transparent = match listener.transparent {
        Some(true) => "transparent",
        Some(false) => "not transparent",
        None => "transparent or not unknown",
    };
    format!("{mark}, {transparent}, uid {}", listener.uid)
}

fn hidden_because(exe: &Readable<String>) -> &str {
    match exe {
        Readable::Is(exe) => exe,
        Readable::Hidden(why) => why,
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
