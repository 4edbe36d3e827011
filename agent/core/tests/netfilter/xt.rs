//! Matches and targets of iptables, and what a legacy entry itself matches.

use std::net::IpAddr;

use gwready_core::netfilter::expr::Expr;
use gwready_core::netfilter::keys::state;
use gwready_core::netfilter::ruleset::Ruleset;
use gwready_core::netfilter::xt::{Conntrack, Interface, Masked, NatRange, Ports, Tcp, XtEntry, XtMatch, XtTarget};

use crate::rules::{R, from, ip, rule, ruleset, table, to};
use crate::{told, word};

const WEB: &str = "10.0.0.11:80";

/// A legacy filter INPUT whose only rule drops.
fn drops(rule: R) -> Ruleset {
    ruleset([table("ip filter").legacy().base("INPUT", "filter input 0", [rule.drop()])])
}

fn answer(rule: R) -> &'static str {
    word(&drops(rule), &to(WEB))
}

fn prerouting(name: &str, priority: i32, rules: impl IntoIterator<Item = R>) -> Ruleset {
    let kind = if name == "nat" { "nat" } else { "filter" };
    ruleset([table(&format!("ip {name}")).legacy().base("PREROUTING", &format!("{kind} prerouting {priority}"), rules)])
}

const ANY: Ports = Ports { first: 0, last: u16::MAX, inverted: false };

fn dport(first: u16, last: u16, inverted: bool) -> XtMatch {
    let destination = Ports { first, last, inverted };
    XtMatch::Tcp(Tcp { source: ANY, destination, option: None, flags_mask: 0, flags_value: 0, flags_inverted: false })
}

fn masked(address: &str, mask: &str, inverted: bool) -> Option<Masked> {
    Some(Masked { address: ip(address), mask: ip(mask), inverted })
}

#[test]
fn an_entry_matches_by_addresses_interfaces_and_protocol() {
    let entry = |entry: XtEntry| answer(rule().expr(Expr::Entry(entry)));
    let none = XtEntry::default;
    let all = "255.255.255.255";
    assert_eq!(entry(none()), "dropped");
    assert_eq!(entry(XtEntry { destination: masked("10.0.0.11", all, false), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { destination: masked("10.0.0.11", all, true), ..none() }), "passes");
    assert_eq!(entry(XtEntry { destination: masked("10.0.0.0", "255.255.255.0", false), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { source: masked("10.0.0.0", "255.0.0.0", false), ..none() }), "some");
    assert_eq!(entry(XtEntry { source: masked("10.0.0.0", "255.0.0.0", true), ..none() }), "some");
    assert_eq!(entry(XtEntry { source: masked("fd00::", "ffff::", false), ..none() }), "passes", "of the other family");
    assert_eq!(entry(XtEntry { protocol: Some((6, false)), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { protocol: Some((17, false)), ..none() }), "passes");
    assert_eq!(entry(XtEntry { protocol: Some((17, true)), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { fragment: Some(false), ..none() }), "passes");
    assert_eq!(entry(XtEntry { fragment: Some(true), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { traffic_class: true, ..none() }), "some");
    let interface = |name: &str, prefix, inverted| Some(Interface { name: name.into(), prefix, inverted });
    assert_eq!(entry(XtEntry { input: interface("eth0", false, false), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { input: interface("eth", true, false), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { input: interface("eth", false, false), ..none() }), "passes");
    assert_eq!(entry(XtEntry { input: interface("docker0", false, true), ..none() }), "dropped");
    assert_eq!(entry(XtEntry { input: interface("lo", false, false), ..none() }), "passes");
    assert_eq!(entry(XtEntry { output: interface("eth0", false, false), ..none() }), "passes");
    assert_eq!(entry(XtEntry { output: interface("eth0", false, true), ..none() }), "dropped");
}

#[test]
fn tcp_matches_ports_and_flags() {
    assert_eq!(answer(rule().xt(dport(80, 80, false))), "dropped");
    assert_eq!(answer(rule().xt(dport(80, 80, true))), "passes");
    assert_eq!(answer(rule().xt(dport(1, 79, false))), "passes");
    let tcp = |change: &dyn Fn(&mut Tcp)| {
        let mut tcp = Tcp { source: ANY, destination: ANY, option: None, flags_mask: 0, flags_value: 0, flags_inverted: false };
        change(&mut tcp);
        answer(rule().xt(XtMatch::Tcp(tcp)))
    };
    assert_eq!(tcp(&|tcp| tcp.source = Ports { first: 1024, last: 65_535, inverted: false }), "some");
    assert_eq!(tcp(&|tcp| (tcp.flags_mask, tcp.flags_value) = (0x17, 0x02)), "dropped", "--syn");
    assert_eq!(tcp(&|tcp| (tcp.flags_mask, tcp.flags_value, tcp.flags_inverted) = (0x17, 0x02, true)), "passes", "! --syn");
    assert_eq!(tcp(&|tcp| (tcp.flags_mask, tcp.flags_value) = (0x10, 0x10)), "passes");
    assert_eq!(tcp(&|tcp| (tcp.flags_mask, tcp.flags_value) = (0xff, 0x02)), "some", "without ECN");
    assert_eq!(tcp(&|tcp| tcp.option = Some((2, false))), "some");
    assert_eq!(answer(rule().xt(XtMatch::Udp)), "passes");
}

#[test]
fn multiport_matches_either_end() {
    let ports = |source, destination, inverted| XtMatch::Multiport { source, destination, ports: vec![(22, 22), (80, 90)], inverted };
    assert_eq!(answer(rule().xt(ports(false, true, false))), "dropped");
    assert_eq!(answer(rule().xt(ports(false, true, true))), "passes");
    assert_eq!(answer(rule().xt(ports(true, false, false))), "some");
    assert_eq!(answer(rule().xt(ports(true, true, false))), "dropped");
    assert_eq!(word(&drops(rule().xt(ports(true, true, false))), &from("203.0.113.7", "10.0.0.11:443")), "passes");
}

#[test]
fn addrtype_knows_local_destinations() {
    let typed = |source, destination, inverted, limit_in| XtMatch::Addrtype {
        source,
        destination,
        source_inverted: false,
        destination_inverted: inverted,
        limit_in,
        limit_out: false,
    };
    assert_eq!(answer(rule().xt(typed(0, 4, false, false))), "dropped", "--dst-type LOCAL");
    assert_eq!(answer(rule().xt(typed(0, 4, true, false))), "passes");
    assert_eq!(answer(rule().xt(typed(0, 4, false, true))), "dropped", "--limit-iface-in");
    assert_eq!(answer(rule().xt(typed(0, 32, false, false))), "passes", "multicast");
    assert_eq!(answer(rule().xt(typed(4, 0, false, false))), "passes", "--src-type LOCAL");
    assert_eq!(answer(rule().xt(typed(2, 0, false, false))), "dropped", "--src-type UNICAST");
}

#[test]
fn conntrack_knows_a_new_connection() {
    let state = |mask: u16, invert: u16| {
        answer(rule().xt(XtMatch::Conntrack(Conntrack { match_flags: 1, invert_flags: invert, state_mask: mask, ..Conntrack::default() })))
    };
    assert_eq!(state(2 | 4, 0), "passes", "RELATED,ESTABLISHED");
    assert_eq!(state(2 | 4, 1), "dropped", "! RELATED,ESTABLISHED");
    assert_eq!(state(8, 0), "dropped", "NEW");
    assert_eq!(state(1, 0), "passes", "INVALID");
    assert_eq!(state(256, 0), "passes", "UNTRACKED");
    let flags = |conntrack: Conntrack| answer(rule().xt(XtMatch::Conntrack(conntrack)));
    assert_eq!(flags(Conntrack { match_flags: 1 << 1, protocol: 6, ..Conntrack::default() }), "dropped");
    assert_eq!(flags(Conntrack { match_flags: 1 << 1, protocol: 17, ..Conntrack::default() }), "passes");
    assert_eq!(flags(Conntrack { match_flags: 1 << 2, ..Conntrack::default() }), "some", "--ctorigsrc");
    assert_eq!(flags(Conntrack { match_flags: 1 << 12, ..Conntrack::default() }), "dropped", "--ctdir ORIGINAL");
    assert_eq!(flags(Conntrack { match_flags: 1 << 7, ..Conntrack::default() }), "unclear", "--ctexpire");
    let target = |address: &str| Some((ip(address), ip("255.255.255.255")));
    assert_eq!(flags(Conntrack { match_flags: 1 << 3, original_destination: target("10.0.0.11"), ..Conntrack::default() }), "dropped");
    assert_eq!(flags(Conntrack { match_flags: 1 << 3, original_destination: target("10.0.0.12"), ..Conntrack::default() }), "passes");
    let port = |first, last| Conntrack { match_flags: 1 << 9, original_destination_port: Some((first, last)), ..Conntrack::default() };
    assert_eq!(flags(port(80, 80)), "dropped");
    assert_eq!(flags(port(81, 90)), "passes");
    assert_eq!(answer(rule().xt(XtMatch::State { mask: state::NEW })), "dropped");
    assert_eq!(answer(rule().xt(XtMatch::State { mask: 2 | 4 })), "passes");
}

#[test]
fn conntrack_before_its_time_asks_only_the_state() {
    let raw = |conntrack: Conntrack| word(&prerouting("raw", -300, [rule().xt(XtMatch::Conntrack(conntrack)).drop()]), &to(WEB));
    assert_eq!(raw(Conntrack { match_flags: 1, state_mask: 1, ..Conntrack::default() }), "dropped", "INVALID");
    assert_eq!(raw(Conntrack { match_flags: 1, state_mask: 8, ..Conntrack::default() }), "passes");
    assert_eq!(raw(Conntrack { match_flags: 1 << 12, ..Conntrack::default() }), "passes");
}

#[test]
fn marks_of_packets_and_connections() {
    let marked = |value, mask, inverted| XtMatch::Mark { value, mask, inverted };
    let mark = |value, mask| XtTarget::Mark { value, mask };
    let two = |first: R, second: R| word(&prerouting("mangle", -150, [first, second.drop()]), &to(WEB));
    assert_eq!(two(rule().target(mark(0x4000, 0x4000)), rule().xt(marked(0x4000, 0x4000, false))), "dropped");
    assert_eq!(two(rule().target(mark(0x4000, 0x4000)), rule().xt(marked(0x4000, 0x4000, true))), "passes");
    assert_eq!(answer(rule().xt(marked(0, 0, false))), "dropped");
    assert_eq!(answer(rule().xt(marked(0x8000, 0x8000, false))), "passes", "KUBE-FIREWALL's");
    let connmark = |mode| XtTarget::Connmark { ctmark: 0, ctmask: u32::MAX, nfmask: u32::MAX, mode };
    let rules = prerouting(
        "mangle",
        -150,
        [
            rule().target(mark(7, u32::MAX)).target(connmark(1)),
            rule().target(mark(0, u32::MAX)),
            rule().target(connmark(2)),
            rule().xt(XtMatch::Connmark { value: 7, mask: u32::MAX, inverted: false }).xt(marked(7, u32::MAX, false)).drop(),
        ],
    );
    assert_eq!(word(&rules, &to(WEB)), "dropped");
}

#[test]
fn matches_about_clients_and_those_that_are_not_known() {
    let named = |name: &str| rule().xt(XtMatch::Unknown { name: name.into(), revision: 0 });
    for (name, expected) in [
        ("hashlimit", "some"),
        ("recent", "some"),
        ("limit", "some"),
        ("mac", "some"),
        ("rpfilter", "some"),
        ("icmp", "passes"),
        ("owner", "passes"),
        ("nfacct", "dropped"),
        ("statistic", "unclear"),
        ("bpf", "unclear"),
        ("never-heard-of", "unclear"),
    ] {
        assert_eq!(answer(named(name)), expected, "{name}");
    }
    let set = |sources: &[bool]| XtMatch::Set { index: 3, sources: sources.to_vec(), inverted: false };
    assert_eq!(answer(rule().xt(set(&[true]))), "some", "a ban list");
    assert_eq!(answer(rule().xt(set(&[true, true]))), "some");
    assert_eq!(answer(rule().xt(set(&[true, false]))), "unclear");
    assert_eq!(answer(rule().xt(set(&[]))), "unclear");
    assert_eq!(answer(rule().xt(XtMatch::Socket { flags: 1 })), "unclear");
    assert_eq!(answer(rule().xt(XtMatch::Comment("hello".into()))), "dropped");
    let range = |first: &str, last: &str| Some((ip(first), ip(last), false));
    let iprange =
        |source: Option<(IpAddr, IpAddr, bool)>, destination: Option<(IpAddr, IpAddr, bool)>| XtMatch::Iprange { source, destination };
    assert_eq!(answer(rule().xt(iprange(None, range("10.0.0.10", "10.0.0.12")))), "dropped");
    assert_eq!(answer(rule().xt(iprange(None, range("10.0.0.12", "10.0.0.19")))), "passes");
    assert_eq!(answer(rule().xt(iprange(range("10.0.0.10", "10.0.0.12"), None))), "some");
}

#[test]
fn targets_translate() {
    let addresses = |text: &str| Some((ip(text), ip(text)));
    let dnat = |address: Option<(IpAddr, IpAddr)>, ports| XtTarget::Dnat(NatRange { flags: 3, addresses: address, ports });
    let nat = |target: XtTarget| prerouting("nat", -100, [rule().xt(dport(80, 80, false)).target(target)]);
    let told_nat = |target: XtTarget| told(&nat(target), &to(WEB));
    assert_eq!(
        told_nat(dnat(addresses("10.42.1.7"), Some((8080, 8080)))),
        "to 10.42.1.7:8080: -m tcp --dport 80 -j DNAT --to-destination 10.42.1.7:8080"
    );
    assert_eq!(word(&nat(dnat(addresses("10.0.0.11"), None)), &to(WEB)), "passes");
    let redirect = |ports| XtTarget::Redirect(NatRange { flags: 2, addresses: None, ports });
    assert_eq!(told_nat(redirect(Some((8080, 8080)))), "to 10.0.0.11:8080: -m tcp --dport 80 -j REDIRECT --to-ports 8080");
    assert_eq!(word(&nat(redirect(None)), &to(WEB)), "passes");
    let netmap = XtTarget::Netmap(NatRange { flags: 1, addresses: Some((ip("10.9.9.0"), ip("10.9.9.255"))), ports: None });
    assert_eq!(told_nat(netmap).split(": ").next(), Some("to 10.9.9.11:80"));
    assert_eq!(word(&nat(XtTarget::Snat { name: "MASQUERADE".into() }), &to(WEB)), "passes");
}

#[test]
fn tproxy_takes_for_sure_unless_it_is_ciliums_or_the_own_socket() {
    let tproxy = |port, address: &str, mark| XtTarget::Tproxy { address: ip(address), port, mark_mask: u32::MAX, mark_value: mark };
    let in_chain = |chain: &str, target: XtTarget| {
        ruleset([table("ip mangle").legacy().chain(chain, [rule().xt(dport(80, 80, false)).target(target)]).base(
            "PREROUTING",
            "filter prerouting -150",
            [rule().jump(chain)],
        )])
    };
    assert_eq!(told(&in_chain("X", tproxy(15_001, "127.0.0.1", 1)), &to(WEB)).split(": ").next(), Some("to 127.0.0.1:15001 (tproxy)"));
    assert_eq!(
        told(&in_chain("X", tproxy(15_001, "0.0.0.0", 1)), &to(WEB)).split(": ").next(),
        Some("to port 15001 of this node (tproxy)")
    );
    assert_eq!(word(&in_chain("X", tproxy(80, "0.0.0.0", 1)), &to(WEB)), "passes");
    assert_eq!(word(&in_chain("X", tproxy(0, "10.0.0.11", 1)), &to(WEB)), "passes");
    assert_eq!(word(&in_chain("CILIUM_PRE_mangle", tproxy(10_000, "127.0.0.1", 0x200)), &to(WEB)), "passes");
    assert_eq!(word(&in_chain("OLD_CILIUM_PRE_mangle", tproxy(10_000, "127.0.0.1", 0x200)), &to(WEB)), "passes");
    assert_eq!(word(&in_chain("CILIUM_PRE_mangle", tproxy(10_000, "127.0.0.1", 1)), &to(WEB)), "redirected", "not Cilium's mark");
    assert_eq!(word(&in_chain("X", tproxy(10_000, "127.0.0.1", 0x200)), &to(WEB)), "redirected", "not Cilium's chain");
}

#[test]
fn targets_that_end_or_go_on() {
    let one = |target: XtTarget| word(&drops_after(target), &to(WEB));
    assert_eq!(one(XtTarget::Reject { with: 3 }), "dropped");
    assert_eq!(one(XtTarget::Log { prefix: "x".into() }), "passes");
    let named = |name: &str| XtTarget::Unknown { name: name.into(), revision: 0 };
    for (name, expected) in [("TCPMSS", "passes"), ("SET", "passes"), ("TARPIT", "dropped"), ("NFQUEUE", "unclear"), ("FLUB", "unclear")] {
        assert_eq!(one(named(name)), expected, "{name}");
    }
    let untracked = |target: XtTarget| {
        let raw = table("ip raw").legacy().base("PREROUTING", "filter prerouting -300", [rule().target(target)]);
        let filter = table("ip filter").legacy().base("INPUT", "filter input 0", [rule().xt(XtMatch::State { mask: 64 }).drop()]);
        word(&ruleset([raw, filter]), &to(WEB))
    };
    assert_eq!(untracked(XtTarget::Notrack), "dropped");
    assert_eq!(untracked(XtTarget::Ct { notrack: true, zone: 0, helper: String::new() }), "dropped");
    assert_eq!(untracked(XtTarget::Ct { notrack: false, zone: 1, helper: "ftp".into() }), "passes");
}

fn drops_after(target: XtTarget) -> Ruleset {
    ruleset([table("ip filter").legacy().base("INPUT", "filter input 0", [rule().xt(dport(80, 80, false)).target(target)])])
}

#[test]
fn an_unknown_target_that_marks_makes_later_marks_doubtful() {
    let rules = prerouting(
        "mangle",
        -150,
        [
            rule().target(XtTarget::Unknown { name: "HMARK".into(), revision: 0 }),
            rule().xt(XtMatch::Mark { value: 7, mask: 255, inverted: false }).drop(),
        ],
    );
    assert_eq!(word(&rules, &to(WEB)), "unclear");
}
