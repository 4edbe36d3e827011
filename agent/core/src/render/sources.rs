//! The sources of a snapshot by name, with the state of their last read. One list for `/status`, metrics and `explain`.

use serde::{Deserialize, Serialize};

use crate::facts::{Reading, Snapshot, Unavailable, Why};
use crate::lb::facts::LbFacts;
use crate::net::Family;
use crate::time::{Mono, Window};

/// Every source, in the order in which they are shown. The words are label values of `gwready_observation_age_seconds`.
pub const SOURCES: [&str; 12] =
    ["addresses", "sockets", "owners", "lb_v4", "lb_v6", "l7", "steering", "tproxy", "netfilter", "cilium_agent", "envoy", "probes"];

/// What a source is, for a person.
#[must_use]
pub fn what_is(source: &str) -> &'static str {
    match source {
        "addresses" => "local addresses, links, default routes",
        "sockets" => "who gets a SYN, asked of the kernel; LISTEN rows and queues",
        "owners" => "the processes behind the sockets (/proc)",
        "lb_v4" => "Cilium's maps cilium_lb4_*: rows that touch a front",
        "lb_v6" => "Cilium's maps cilium_lb6_*: rows that touch a front",
        "l7" => "L7 frontends of Cilium's maps, with their proxy ports",
        "steering" => "sk_lookup programs of this network namespace",
        "tproxy" => "rules and routes of the TPROXY path, listeners of proxy ports",
        "netfilter" => "what iptables and nftables do with a new connection",
        "cilium_agent" => "the cilium-agent's liveness stamp and version",
        "envoy" => "Envoy's admin socket: listeners, updates, draining",
        "probes" => "the last probe of each front",
        _ => "",
    }
}

/// The last read of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRead<'a> {
    /// One of [`SOURCES`].
    pub name: &'static str,
    /// When it was last tried; none = never.
    pub window: Option<Window>,
    /// Why it failed, if it did.
    pub failure: Option<&'a Unavailable>,
    /// It is not there, and need not be: why. No failure then.
    pub not_there: Option<&'static str>,
}

impl SourceRead<'_> {
    /// End of the last good read; none if the last one failed or there was none.
    #[must_use]
    pub fn observed_at(&self) -> Option<Mono> {
        if self.failure.is_some() || self.not_there.is_some() { None } else { self.window.map(|window| window.end) }
    }
}

/// The last read of every source, in the order of [`SOURCES`].
#[must_use]
pub fn source_reads(snapshot: &Snapshot) -> [SourceRead<'_>; 12] {
    [
        of("addresses", &snapshot.addresses),
        of("sockets", &snapshot.sockets),
        of("owners", &snapshot.owners),
        of_family("lb_v4", &snapshot.lb, Family::Ipv4),
        of_family("lb_v6", &snapshot.lb, Family::Ipv6),
        of("l7", &snapshot.lb.l7),
        of("steering", &snapshot.steering),
        of("tproxy", &snapshot.tproxy),
        of("netfilter", &snapshot.netfilter),
        of("cilium_agent", &snapshot.cilium_agent),
        of("envoy", &snapshot.envoy),
        of("probes", &snapshot.probes),
    ]
}

fn of<'a, T>(name: &'static str, reading: &'a Reading<T>) -> SourceRead<'a> {
    SourceRead { name, window: reading.window(), failure: reading.unavailable(), not_there: None }
}

/// The maps of a family that Cilium does not serve are no failed read.
fn of_family<'a>(name: &'static str, lb: &'a LbFacts, family: Family) -> SourceRead<'a> {
    let read = of(name, lb.table(family));
    if !lb.is_switched_off(family) {
        return read;
    }
    let why = match family {
        Family::Ipv4 => "IPv4 is off in Cilium",
        Family::Ipv6 => "IPv6 is off in Cilium",
    };
    SourceRead { failure: None, not_there: Some(why), ..read }
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
        ("lb_v4" | "lb_v6" | "l7" | "cilium_agent", Why::Permission) => {
            "CAP_BPF (before Linux 5.8, or with unprivileged_bpf_disabled: CAP_SYS_ADMIN)"
        }
        ("lb_v4" | "lb_v6" | "l7" | "cilium_agent", Why::Absent) => "mount the host's /sys/fs/bpf (cilium.bpffs), if Cilium runs here",
        ("lb_v4" | "lb_v6" | "l7" | "cilium_agent", Why::Layout) => "a gwready that knows this Cilium version",
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
    fn every_source_is_told_what_it_is() {
        assert!(SOURCES.iter().all(|source| !what_is(source).is_empty()));
    }

    #[test]
    fn a_family_that_is_off_is_not_there_and_no_failure() {
        let window = Window { begin: Mono(1), end: Mono(2) };
        let absent = |detail: &str| Reading::Unavailable(Unavailable { why: Why::Absent, detail: detail.to_owned(), window });
        let mut snapshot = Snapshot::default();
        snapshot.lb.v4 = Reading::Observed { value: crate::lb::facts::LbTable::default(), window };
        snapshot.lb.v6 = absent("no cilium_lb6_services_v2");
        let [_, _, _, v4, v6, ..] = source_reads(&snapshot);
        assert_eq!((v4.not_there, v4.observed_at()), (None, Some(Mono(2))));
        assert_eq!((v6.failure, v6.not_there, v6.observed_at()), (None, Some("IPv6 is off in Cilium"), None));
        snapshot.lb.v4 = absent("no bpffs");
        let [_, _, _, v4, v6, ..] = source_reads(&snapshot);
        assert!(v4.failure.is_some() && v6.failure.is_some(), "neither is there: that is a failure");
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
