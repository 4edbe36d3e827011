//! Rule sets as those tools write them that are found on nodes: what is foretold of each endpoint is what a neighbour's connection meets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use gwready_core::facts::steering::NetfilterPath;
use gwready_tests::netfilter::{Stage, Tool, compare};

/// Every iptables rule set is loaded by both kinds of iptables.
const IPTABLES: [Tool; 2] = [Tool::IptablesNft, Tool::IptablesLegacy];
const FIRST: [&str; 2] = ["10.77.0.1:80", "10.77.0.1:443"];
const PROXY: &str = "to port 12345 of this node (tproxy)";
const SECOND: [&str; 2] = ["10.77.0.2:80", "10.77.0.2:443"];

/// What is foretold of every IPv4 endpoint, in few words; reality agrees.
fn foretold(tool: Tool, rules: &str) -> BTreeMap<String, String> {
    let stage = Stage::new().unwrap();
    tool.load(stage.node().space(), rules).unwrap();
    let seen = compare(&stage).unwrap_or_else(|error| panic!("{tool:?}: {error:#}\n{rules}"));
    let words = |path: &NetfilterPath| match path {
        NetfilterPath::Passes => "passes".to_owned(),
        NetfilterPath::PassesForSome { .. } => "passes for some".to_owned(),
        NetfilterPath::Redirected { to, .. } => format!("to {to}"),
        NetfilterPath::Dropped { .. } => "dropped".to_owned(),
        NetfilterPath::Unclear { because } => format!("unclear: {because}"),
    };
    seen.iter().filter(|one| one.to.address.is_ipv4()).map(|one| (one.to.to_string(), words(&one.path))).collect()
}

/// Asserts what is foretold of the four IPv4 endpoints, in the order of [`FIRST`] and [`SECOND`].
fn told(tool: Tool, rules: &str, expected: [&str; 4]) {
    let seen = foretold(tool, rules);
    let seen: Vec<&str> = FIRST.iter().chain(&SECOND).map(|at| seen[*at].as_str()).collect();
    assert_eq!(seen, expected, "{tool:?}");
}

#[test]
fn portmaps_host_ports_are_redirects() {
    for tool in IPTABLES {
        told(tool, include_str!("../netfilter/portmap.rules"), ["to 10.42.0.7:8080", "passes", "to 10.42.0.7:8080", "passes"]);
    }
    let expected = ["to 10.42.0.7:8080", "passes", "to 10.42.0.7:8080", "to 10.42.0.7:8080"];
    told(Tool::Nft, include_str!("../netfilter/portmap.nft"), expected);
}

#[test]
fn kube_proxys_external_ip_is_a_redirect_whichever_backend_it_picks() {
    let expected = ["to 10.42.0.7:8080 or 10.42.0.7:9090", "passes", "passes", "dropped"];
    for tool in IPTABLES {
        told(tool, include_str!("../netfilter/kube-proxy.rules"), expected);
    }
    told(Tool::Nft, include_str!("../netfilter/kube-proxy.nft"), expected);
}

#[test]
fn dockers_published_port_is_a_redirect() {
    for tool in IPTABLES {
        let expected = ["to 10.42.0.7:8080", "passes", "to 10.42.0.7:8080", "to 10.42.0.7:9090"];
        told(tool, include_str!("../netfilter/docker.rules"), expected);
    }
}

#[test]
fn firewalld_opens_the_ports_of_its_zone_and_no_others() {
    told(Tool::Nft, include_str!("../netfilter/firewalld.nft"), ["passes", "dropped", "passes", "dropped"]);
}

#[test]
fn ufw_opens_the_ports_that_were_allowed_and_no_others() {
    for tool in IPTABLES {
        told(tool, include_str!("../netfilter/ufw.rules"), ["passes", "dropped", "passes", "dropped"]);
    }
}

#[test]
fn ciliums_own_chains_take_nothing() {
    for tool in IPTABLES {
        told(tool, include_str!("../netfilter/cilium.rules"), ["passes"; 4]);
    }
}

#[test]
fn a_firewall_behind_ciliums_chains_is_judged_since_their_socket_match_passes_over_the_gateways_listener() {
    let at = "-A FORWARD -m comment --comment \"cilium-feeder";
    let rules = include_str!("../netfilter/cilium.rules");
    let behind = rules.replacen(at, &format!("-A INPUT -p tcp -m tcp --dport 443 -j DROP\n{at}"), 1);
    for tool in IPTABLES {
        told(tool, &behind, ["passes", "dropped", "passes", "dropped"]);
    }
}

/// One line of nft in a table of both families, at a hook.
fn hooked(hook: &str, rule: &str) -> String {
    let (kind, hook, priority) = match hook {
        "dstnat" => ("nat", "prerouting", "-100"),
        "mangle" => ("filter", "prerouting", "-150"),
        "raw" => ("filter", "prerouting", "-300"),
        _ => ("filter", "input", "0"),
    };
    format!("table inet t {{ chain c {{ type {kind} hook {hook} priority {priority}; {rule}; }}; }}\n")
}

#[test]
fn single_rules_do_what_they_say() {
    let cases = [
        ("dstnat", "tcp dport 80 redirect to :8080", ["to 10.77.0.1:8080", "passes", "to 10.77.0.1:8080", "passes"]),
        ("dstnat", "ip daddr 10.77.0.2 tcp dport 443 dnat ip to 10.77.0.1:80", ["passes", "passes", "passes", "to 10.77.0.1:80"]),
        ("mangle", "meta nfproto ipv4 tcp dport 443 tproxy ip to :12345 meta mark set 0x200", ["passes", PROXY, "passes", PROXY]),
        ("input", "tcp dport { 80, 443 } ip daddr 10.77.0.1 drop", ["dropped", "dropped", "passes", "passes"]),
        ("input", "tcp dport 443 reject with tcp reset", ["passes", "dropped", "passes", "dropped"]),
        ("raw", "tcp dport 80-90 drop", ["dropped", "passes", "dropped", "passes"]),
        ("input", "iifname \"lo\" drop", ["passes"; 4]),
    ];
    for (hook, rule, expected) in cases {
        told(Tool::Nft, &hooked(hook, rule), expected);
    }
}
