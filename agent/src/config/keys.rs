//! Every key of the configuration: path, kind, default and documentation. The one table that reader, environment
//! overrides and `docs/configuration.md` follow.

/// What kind of value a key takes, for people and for the override reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any value that is replaced as a whole.
    Value,
    /// A mapping whose entries may be set one by one (`--set policy.require.TproxyPath=required`).
    Map,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Dotted path.
    pub path: &'static str,
    /// Shape.
    pub kind: Kind,
    /// What may be written.
    pub values: &'static str,
    /// Default, as YAML.
    pub default: &'static str,
    /// What it does, one or two sentences.
    pub doc: &'static str,
}

const fn value(path: &'static str, values: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind: Kind::Value, values, default, doc }
}

const fn map(path: &'static str, values: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind: Kind::Map, values, default, doc }
}

/// The table, in the order of the documents.
pub const KEYS: &[Key] = &[
    value("node_name", "DNS-1123 name", "\"\"", "Name in every output. Empty: the variable NODE_NAME, else the host name in lower case."),
    value(
        "mode",
        "host-network, load-balancer",
        "host-network",
        "How the gateway gets its traffic: Envoy listens on the node's own ports, or Cilium's datapath redirects load-balancer frontends to Envoy's proxy ports. In load-balancer mode TproxyPath is required.",
    ),
    value(
        "ports",
        "auto, list of ports",
        "auto",
        "Expected ports. auto: what Envoy's gateway listeners name, plus ports seen listening by them before; nothing known: 80 and 443.",
    ),
    value(
        "families",
        "auto, list of ipv4 and ipv6",
        "auto",
        "Families that are judged. auto: those the node has a judged address of and Cilium serves.",
    ),
    value("addresses.include", "list of CIDRs, addresses or interface names", "[]", "Addresses judged besides the automatic ones."),
    value("addresses.exclude", "list of CIDRs, addresses or interface names", "[]", "Addresses never judged; wins over include."),
    value(
        "health.listen",
        "address:port",
        "\"[::]:9680\"",
        "Where load balancers ask. [::] takes IPv4 too, and is 0.0.0.0 where there is no IPv6.",
    ),
    value(
        "health.unready",
        "status, close",
        "status",
        "Answer to drain and down: 503, or closing without a byte (for monitors with an empty receive string).",
    ),
    value(
        "health.scope",
        "address, node",
        "address",
        "address: the answer is of the local address on which the connection came in. node: always of the node.",
    ),
    value("health.detail", "true, false", "true", "One line per condition that is not True follows the state line."),
    value("admin.listen", "address:port", "\"[::]:9681\"", "Where /metrics, /livez, /readyz, /status and the status page are served."),
    value(
        "admin.allow",
        "list of CIDRs or addresses",
        "[]",
        "Clients that may read /status and the status page besides loopback. /metrics, /livez and /readyz are open to all.",
    ),
    value("agent_check.listen", "address:port, null", "null", "HAProxy agent-check listener; null: none."),
    value(
        "control_socket",
        "absolute path",
        "/run/gwready/gwready.sock",
        "Unix socket that status, drain, undrain and snapshot talk to. Mode 0600; only root and the agent's own uid are served.",
    ),
    value(
        "state_dir",
        "absolute path",
        "/run/gwready",
        "Keeps drain, last verdict, ports and families seen and the last 64 transitions over a restart of the agent.",
    ),
    value("host.proc", "absolute path", "/proc", "The host's proc file system."),
    value("host.cgroup", "absolute path", "/sys/fs/cgroup", "The host's cgroup file system."),
    value("host.tracefs", "absolute path", "/sys/kernel/tracing", "The host's tracefs, for tracepoints."),
    value("host.pod_logs", "absolute path", "/var/log/pods", "The kubelet's pod log folders: they give pod names to pod UIDs."),
    value("cilium.bpffs", "absolute path", "/sys/fs/bpf", "Where Cilium's maps are pinned (below tc/globals). They are opened read-only."),
    value("cilium.run_dir", "absolute path", "/var/run/cilium", "Cilium's run folder; its state names the pods behind backend addresses."),
    value("envoy.exe", "file name", "cilium-envoy", "Base name of Envoy's executable."),
    value("envoy.admin_socket", "absolute path", "/var/run/cilium/envoy/sockets/admin.sock", "Envoy's admin socket. It is only read from."),
    value(
        "ebpf",
        "true, false",
        "true",
        "Load eBPF programs that bring changes within microseconds. Without them polling gives the same answers, later.",
    ),
    value("timing.resync", "duration, 50ms to 1m", "1s", "How often everything is read again without an event."),
    value("timing.lb_poll", "duration, 50ms to 1m", "250ms", "How often Cilium's load-balancer maps are looked at."),
    value(
        "timing.min_up",
        "duration, 0s to 10m",
        "2s",
        "Everything must hold this long before a recovery counts; doubled by each further recovery within 5 minutes, up to 30s.",
    ),
    value(
        "timing.hold",
        "duration, 0s to 1h",
        "30s",
        "How long an Unknown condition keeps its last known status before policy.unknown decides.",
    ),
    value(
        "timing.stale_after",
        "duration, 500ms to 10m",
        "5s",
        "Age of the last good read of the socket table at which the answer turns down (Stale). Longer than timing.resync.",
    ),
    value("timing.queue_grace", "duration, 100ms to 5m", "2s", "How long a non-empty accept queue may stand still."),
    value("probe.enabled", "true, false", "true", "Run the built-in local probes."),
    value("probe.interval", "duration, 100ms to 5m", "2s", "Time between two probes of a front."),
    value("probe.timeout", "duration, 10ms to 1m", "2s", "Deadline of one probe."),
    value("probe.fall", "number, 1 to 100", "3", "Consecutive failures that count as down."),
    value("probe.sni", "DNS name, null", "null", "Server name for the TLS probe; null: learnt from Envoy's filter chains."),
    value(
        "probes",
        "list of {port, host, path, sni, expect_status}",
        "[]",
        "Extra, opt-in probes. port and host are needed; path is / and expect_status [200] by default. Such a probe may reach a backend.",
    ),
    map(
        "policy.require",
        "map of condition type to required, advisory",
        "{}",
        "Whether a condition that is False takes the node out. Observed and InService can't be changed.",
    ),
    map(
        "policy.unknown",
        "map of condition type to open, closed",
        "{}",
        "What a condition counts as when it stays Unknown longer than timing.hold.",
    ),
    value("log.format", "text, json", "text", "One line of text, or one JSON object, per notice."),
    value("log.level", "error, warn, info, debug, trace", "info", "Least important level that is written."),
];

/// The key with exactly this path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// True if keys exist below this path (`health`, `policy`).
#[must_use]
pub fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The environment variable of a key: `timing.lb_poll` → `GWREADY_TIMING_LB_POLL`.
#[must_use]
pub fn variable(path: &str) -> String {
    format!("GWREADY_{}", path.replace('.', "_").to_ascii_uppercase())
}

/// The known name nearest to a mistyped one, for "did you mean".
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= 2.max(name.len() / 4))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX - 1);
            let here = (corner + usize::from(x != y)).min(above + 1).min(left + 1);
            corner = above;
            if let Some(cell) = row.get_mut(j) {
                *cell = left;
            }
            left = here;
        }
        if let Some(cell) = row.last_mut() {
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_unique() {
        let mut names: Vec<String> = KEYS.iter().map(|key| variable(key.path)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
        assert_eq!(variable("timing.lb_poll"), "GWREADY_TIMING_LB_POLL");
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in
            [("", "", 0), ("abc", "abc", 0), ("lisen", "listen", 1), ("kitten", "sitting", 3), ("", "ab", 2), ("ab", "", 2)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }

    #[test]
    fn nearest_gives_no_wild_guess() {
        assert_eq!(nearest("min_upp", ["min_up", "hold"].into_iter()), Some("min_up"));
        assert_eq!(nearest("zebra", ["min_up", "hold"].into_iter()), None);
    }

    #[test]
    fn sections_are_the_parents_of_keys() {
        assert!(is_section("health") && is_section("policy"));
        assert!(!is_section("health.listen") && !is_section("heal") && !is_section("ports"));
    }
}
