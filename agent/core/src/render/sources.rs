//! The sources of a snapshot by name, with the state of their last read. One list for `/status`, metrics and `explain`.

use serde::{Deserialize, Serialize};

use crate::facts::{Reading, Snapshot, Unavailable, Why};
use crate::time::{Mono, Window};

/// Every source, in the order in which they are shown. The words are label values of `gwready_observation_age_seconds`.
pub const SOURCES: [&str; 11] =
    ["addresses", "sockets", "owners", "lb_v4", "lb_v6", "steering", "tproxy", "netfilter", "cilium_agent", "envoy", "probes"];

/// The last read of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRead<'a> {
    /// One of [`SOURCES`].
    pub name: &'static str,
    /// When it was last tried; none = never.
    pub window: Option<Window>,
    /// Why it failed, if it did.
    pub failure: Option<&'a Unavailable>,
}

impl SourceRead<'_> {
    /// End of the last good read; none if the last one failed or there was none.
    #[must_use]
    pub fn observed_at(&self) -> Option<Mono> {
        if self.failure.is_some() { None } else { self.window.map(|window| window.end) }
    }
}

/// The last read of every source, in the order of [`SOURCES`].
#[must_use]
pub fn source_reads(snapshot: &Snapshot) -> [SourceRead<'_>; 11] {
    [
        of("addresses", &snapshot.addresses),
        of("sockets", &snapshot.sockets),
        of("owners", &snapshot.owners),
        of("lb_v4", &snapshot.lb.v4),
        of("lb_v6", &snapshot.lb.v6),
        of("steering", &snapshot.steering),
        of("tproxy", &snapshot.tproxy),
        of("netfilter", &snapshot.netfilter),
        of("cilium_agent", &snapshot.cilium_agent),
        of("envoy", &snapshot.envoy),
        of("probes", &snapshot.probes),
    ]
}

fn of<'a, T>(name: &'static str, reading: &'a Reading<T>) -> SourceRead<'a> {
    SourceRead { name, window: reading.window(), failure: reading.unavailable() }
}

/// Something the agent cannot see on this node, and what would show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotVisible {
    /// Which source, or which condition.
    pub what: String,
    /// Why, harmless.
    pub why: String,
    /// Privilege, mount or setting that would show it; empty where none would.
    pub grant: String,
}

/// What would let the agent read a source that failed for this reason.
#[must_use]
pub fn grant_for(source: &str, why: Why) -> &'static str {
    match (source, why) {
        ("owners", Why::Permission) => "hostPID and CAP_SYS_PTRACE",
        ("lb_v4" | "lb_v6" | "cilium_agent", Why::Permission) => {
            "CAP_BPF (before Linux 5.8, or with unprivileged_bpf_disabled: CAP_SYS_ADMIN)"
        }
        ("lb_v4" | "lb_v6" | "cilium_agent", Why::Absent) => "mount the host's /sys/fs/bpf (cilium.bpffs), if Cilium runs here",
        ("lb_v4" | "lb_v6" | "cilium_agent", Why::Layout) => "a gwready that knows this Cilium version",
        ("steering" | "netfilter", Why::Permission) => "CAP_NET_ADMIN",
        ("envoy", Why::Absent) => "mount the folder of Envoy's admin socket (envoy.admin_socket)",
        ("envoy", Why::Permission) => "run as root, or as the owner of Envoy's admin socket",
        (_, Why::Permission) => "a seccomp profile that allows netlink",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::sockets::SocketTable;

    #[test]
    fn names_are_the_list_in_its_order() {
        assert_eq!(source_reads(&Snapshot::default()).map(|read| read.name), SOURCES);
    }

    #[test]
    fn a_failed_read_has_a_window_but_no_observation() {
        let window = Window { begin: Mono(1), end: Mono(2) };
        let mut snapshot = Snapshot { sockets: Reading::Observed { value: SocketTable::default(), window }, ..Snapshot::default() };
        assert_eq!(source_reads(&snapshot)[1].observed_at(), Some(Mono(2)));
        snapshot.sockets = Reading::Unavailable(Unavailable { why: Why::Permission, detail: "no".to_owned(), window });
        let read = source_reads(&snapshot)[1];
        assert_eq!((read.observed_at(), read.window), (None, Some(window)));
        assert_eq!(source_reads(&snapshot)[0].window, None);
    }
}
