//! What is known of single commands: why one can't be run here, what one must show, what stands for a name of yours.
//! A command that none of these names is run as it is and must succeed.

/// A command that is not run, and why.
pub(crate) struct Exception {
    /// Part of its text.
    pub(crate) part: &'static str,
    #[expect(dead_code, reason = "for the reader of the list")]
    pub(crate) because: &'static str,
}

const fn except(part: &'static str, because: &'static str) -> Exception {
    Exception { part, because }
}

pub(crate) const EXCEPTIONS: &[Exception] = &[
    except("cargo xtask run", "a node in a box until Ctrl-C: this test makes the same node with the same parts"),
    except("cargo xtask test", "these are those tests"),
    except("cargo run -p gwready-core --example datapath", "builds it; core's golden test judges the same file by the same code"),
    except("git clone", "needs the address of the repository"),
    except("systemctl status", "needs systemd"),
    except("modprobe tcp_diag", "changes the kernel of the machine"),
    except("crictl", "needs RKE2's container runtime"),
    except("firewall-cmd", "needs firewalld or ufw"),
    except("dmesg", "reads the machine's own log, which containers may not"),
    except("/proc/pressure/cpu", "needs a kernel with pressure stall information"),
    except("/sys/fs/cgroup$(grep", "needs cgroup v2 alone, mounted at its usual place"),
    except("127.0.0.1:9879", "the cilium-agent's own port"),
    except("proxy_ports_state.json", "a file of the cilium-agent"),
    except("/stack", "needs a kernel that shows stacks of processes"),
];

/// What a command shows here, at least.
pub(crate) struct Expected {
    /// Part of its text.
    pub(crate) part: &'static str,
    /// Parts of its standard output.
    pub(crate) shows: &'static [&'static str],
}

const fn expect(part: &'static str, shows: &'static [&'static str]) -> Expected {
    Expected { part, shows }
}

pub(crate) const EXPECTED: &[Expected] = &[
    expect("ss -tlnpe \"sport = :$PORT\"", &["cilium-envoy", "0.0.0.0:80"]),
    expect("ss -tlnpe --inet-sockopt \"sport = :$PORT\"", &["cilium-envoy", "fwmark:0xb00", "transparent"]),
    expect("ip -br addr", &["eth0", "10.77.0.1"]),
    expect("http://admin/ready", &["LIVE"]),
    expect("'{state, uptime_current_epoch}'", &["\"LIVE\""]),
    expect("jq '.configs[]?.active_state.listener | {address, additional_addresses}'", &["\"port_value\": 80"]),
    expect("jq '.addresses, .families'", &["10.77.0.1", "ipv4"]),
    expect("jq .drain", &["null"]),
    expect("jq '.config.probe, .config.probes'", &["\"interval\""]),
    expect("jq '.observed_age_ms, .sources'", &["\"sockets\"", "\"observed\""]),
    expect("select(.source == \"netfilter\")", &["\"state\": \"observed\""]),
    expect("select(.type == \"Responding\")", &["\"status\": \"true\""]),
    expect("grep -E 'observation_(age|failures)'", &["gwready_observation_age_seconds{source=\"sockets\"}"]),
    expect("select(.spec.hostNetwork != true and any", &["kube-system/rke2-ingress-nginx-controller-x"]),
    expect("select(.spec.externalIPs", &["web/shop"]),
    expect("select(any(.status.loadBalancer", &["web/shop"]),
    expect("select(any(.spec.ports[]?; .nodePort == $p))", &["web/shop"]),
    expect("[.spec.listeners[].port]", &["web/public 80,443"]),
    expect("[.tls.certificateRefs[]?.name]", &["web https www"]),
    expect("key hex $(printf '%02x ' ${IP//./ }) $(printf '%04x' $PORT", &["value:"]),
    expect("bpftool map show pinned /sys/fs/bpf/tc/globals/cilium_lb4_services_v2", &["key 12B  value 12B"]),
    expect("bpftool map show pinned /sys/fs/bpf/tc/globals/cilium_lb6_services_v2", &["key 24B  value 12B"]),
    expect("ls /sys/fs/bpf/tc/globals/", &["cilium_lb4_services_v2"]),
    expect("-H 'Host:' http://$IP:$PORT/", &["400"]),
    expect("grep -i '^server'", &["server: envoy"]),
    expect("grep -E '^Cap(Eff|Prm)'", &["CapEff:"]),
    expect("pgrep -ax cilium-envoy", &["cilium-envoy"]),
    expect("grep -nE 'drop|reject|policy drop'", &["tcp dport 9999 drop"]),
    expect("nft -a list chain FAMILY TABLE CHAIN", &["tcp dport 9999 drop"]),
    expect("ip route show table 2004", &["local default dev lo"]),
    expect("ip rule show | grep -E '0x200/0xf00'", &["fwmark 0x200/0xf00 lookup 2004"]),
    expect("openssl s_client -connect $IP:443", &[]),
    expect("jq '.certificates[].cert_chain[]?", &["gw.example"]),
    expect("echo $?             # the agent's own readiness", &["ok\n0"]),
    expect("/gwready check | tail -20", &["InService"]),
    expect("gwready --version", &["gwready 0."]),
    expect("ss -tlnpe 'sport = :80'", &["0.0.0.0:80", "cilium-envoy"]),
    expect("gwready explain theft.json", &["NotIntercepted 80/ipv4: FALSE HostPort", "4. Verdict"]),
    expect("gwready drain --for 30m", &["drain"]),
    expect("gwready undrain", &["no longer draining"]),
    expect("wait --timeout 2m --all 10.0.0.11 10.0.0.12 10.0.0.13", &["ready: 3 of 3"]),
    expect("wait --min 2 worker-1:9680", &["(2 wanted)"]),
    expect("--http http://10.0.0.11/", &["status=200"]),
    expect("helm upgrade --install gwready deploy/helm/gwready", &["kind: DaemonSet", "namespace: gwready-system"]),
];

/// What a command may end with besides 0; grep without a match is allowed anyway.
pub(crate) const ALLOWED: &[(&str, i32)] = &[
    // Not up: the node of this test has a thief on one address and, in some pages, a drain.
    ("gwready status", 1),
    ("gwready check", 1),
    // Cilium's fallback folder is not there.
    ("/run/cilium/bpffs/tc/globals", 2),
    // No wildcard entry for that address.
    ("00 00 00 00 00 00 00 00", 254),
    // Ended by the clock.
    ("nft monitor trace", 124),
];

/// What stands here for a name of yours, or a program that does not end by itself.
pub(crate) const SUBSTITUTES: &[(&str, &str)] = &[
    ("nsenter --net=… --mount=… ", ""),
    ("nsenter --net=… ", ""),
    ("$PWD/target/debug/gwready", "gwready"),
    ("target/debug/gwready", "gwready"),
    (" --config …", ""),
    ("theft.json", "/run/theft.json"),
    ("> node.json", "> /run/node.json"),
    ("watch -n1 ", "bash -c "),
    ("nft monitor trace", "timeout 1 nft monitor trace"),
    ("\"sport = :N\"", "\"sport = :80\""),
    ("bpftool prog show id N", "bpftool prog show id $(bpftool prog show | head -1 | cut -d: -f1)"),
    ("FAMILY TABLE CHAIN", "inet docs input"),
    ("-servername www.example.com", "-servername gw.example"),
    ("--host www.example.com", "--host ok.example"),
    ("Host: www.example.com", "Host: ok.example"),
    ("helm upgrade --install", "helm template"),
    ("helm uninstall gwready --namespace gwready-system", "helm uninstall --help"),
];

/// What a shell says of a command that is wrong, whatever its exit code.
pub(crate) const COMPLAINTS: &[&str] = &[
    "command not found",
    "syntax error",
    "unbound variable",
    "unknown flag",
    "unknown command",
    "unexpected argument",
    "unrecognized option",
    "invalid option",
    "No such file or directory",
    "jq: error",
    "kubectl: no",
    "kubectl exec:",
];

/// Programs that the documentation calls: none of them may begin a line of a block that names no language.
pub(crate) const PROGRAMS: &[&str] = &[
    "bpftool",
    "cargo",
    "cat",
    "curl",
    "gwready",
    "helm",
    "ip",
    "iptables-save",
    "jq",
    "kill",
    "kubectl",
    "nft",
    "nsenter",
    "openssl",
    "pgrep",
    "ss",
    "sysctl",
    "systemctl",
    "top",
];
