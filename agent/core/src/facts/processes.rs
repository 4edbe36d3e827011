//! Processes that hold listeners, and the Envoys of this network namespace. Source: `/proc/PID`, cgroups, the kubelet's pod log folders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Something that may be unreadable (ptrace access, hidepid).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Readable<T> {
    /// Read.
    Is(T),
    /// Refused or gone, with the sentence why.
    Hidden(String),
}

impl<T> Readable<T> {
    /// The value, where it could be read.
    #[must_use]
    pub const fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Hidden(_) => None,
        }
    }
}

/// The pod of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Pod UID with dashes, from the cgroup path.
    pub uid: String,
    /// Container id (64 hex digits), if the path has one.
    pub container_id: Option<String>,
    /// Namespace, from the kubelet's pod log folder.
    pub namespace: Option<String>,
    /// Name, from the kubelet's pod log folder.
    pub name: Option<String>,
}

/// `/proc/PID/stat` field 3, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Running, sleeping, idle: nothing to say.
    Alive,
    /// `T` or `t`.
    Stopped,
    /// `D`.
    Uninterruptible,
    /// `Z` or `X`.
    Dead,
}

impl RunState {
    /// From the letter in `stat` field 3 or the `State:` line (fs/proc/array.c `task_state_array`). Letters this agent does
    /// not know say nothing.
    #[must_use]
    pub const fn from_letter(letter: char) -> Self {
        match letter {
            'T' | 't' => Self::Stopped,
            'D' => Self::Uninterruptible,
            'Z' | 'X' | 'x' => Self::Dead,
            _ => Self::Alive,
        }
    }
}

/// One process, as read at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id in the reader's pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot (`stat` field 22): tells a reused pid apart.
    pub start_ticks: u64,
    /// Base name of `/proc/PID/exe`, without the ` (deleted)` marker.
    pub exe: Readable<String>,
    /// `comm`, at most 15 bytes, settable by anyone: for messages and as a hint, never as proof.
    pub comm: String,
    /// Real uid.
    pub uid: u32,
    /// `NoNewPrivs` of `/proc/PID/status`.
    pub no_new_privs: Option<bool>,
    /// Effective capabilities (`CapEff`).
    pub cap_effective: Option<u64>,
    /// Permitted capabilities (`CapPrm`): what the starter could still hand to its child.
    pub cap_permitted: Option<u64>,
    /// Parent pid.
    pub parent: u32,
    /// Base name of the parent's executable or, where hidden, its comm.
    pub parent_name: Option<String>,
    /// Run state of the main thread.
    pub state: RunState,
    /// The cgroup v1 or v2 freezer holds it.
    pub frozen: Option<bool>,
    /// Same network namespace as the reader; none where it could not be told.
    pub same_netns: Option<bool>,
    /// Pod, if it runs in one.
    pub pod: Option<Pod>,
    /// Open file descriptors, counted without listing where the kernel can (6.2).
    pub open_files: Option<u64>,
    /// Soft `RLIMIT_NOFILE`.
    pub open_files_limit: Option<u64>,
}

/// Who holds one socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holders {
    /// Every process that was found with a descriptor of it. `complete` is false when not all of /proc could be searched.
    Known {
        /// Process ids, ascending; keys of [`Owners::processes`].
        pids: Vec<u32>,
        /// All of /proc was searched without a refusal since the socket was first seen.
        complete: bool,
    },
    /// No holder was found, and there is nothing left to search: refused, cut short, or none in this /proc. With the sentence why.
    Unknown(String),
    /// No holder was found yet: the search still runs, or the reader itself failed (no descriptor left). With the sentence why. Says
    /// nothing about who holds the socket: the holder may be in plain sight.
    Searching(String),
}

impl Owners {
    /// The Envoys that are known to be this network namespace's, or that hold a listener of ours; else the only one that there is. Where
    /// namespaces are hidden, Envoys of any pod may be among [`Owners::envoys`]: nothing that they do may count against this node.
    #[must_use]
    pub fn own_envoys(&self) -> Vec<u32> {
        let holds = |pid: u32| self.holders.values().any(|holders| matches!(holders, Holders::Known { pids, .. } if pids.contains(&pid)));
        let here = |pid: &u32| self.processes.get(pid).is_some_and(|process| process.same_netns == Some(true)) || holds(*pid);
        let own: Vec<u32> = self.envoys.iter().copied().filter(here).collect();
        if own.is_empty() && self.envoys.len() == 1 { self.envoys.clone() } else { own }
    }
}

/// One read of the owner source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Owners {
    /// By socket inode: the sockets of the expected ports.
    pub holders: BTreeMap<u64, Holders>,
    /// Every process named above or below.
    pub processes: BTreeMap<u32, Process>,
    /// Live processes whose executable (or, where hidden, comm) is cilium-envoy and that are not known to run in another network
    /// namespace, ascending. Where the namespace is hidden, [`Process::same_netns`] is none: one that holds none of our sockets is
    /// then no proof of a second Envoy.
    pub envoys: Vec<u32>,
    /// The search for Envoys saw every process: an empty `envoys` proves absence.
    pub envoys_complete: bool,
    /// When each Envoy of this namespace that was seen had started (its own start, not our first sight of it: a restart of this
    /// agent is no restart of Envoy), the last ten minutes, ascending.
    pub envoy_starts: Vec<crate::time::Mono>,
    /// `net.ipv4.ip_unprivileged_port_start` of this namespace.
    pub unprivileged_port_start: Option<u16>,
}
