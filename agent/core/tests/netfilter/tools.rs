//! Rule sets as the tools of a node write them: portmap, kube-proxy, docker, firewalld, ufw, Cilium.

use gwready_core::netfilter::expr::{Base, Data, Expr, Reg, Verdict};
use gwready_core::netfilter::keys::state;
use gwready_core::netfilter::ruleset::Ruleset;
use gwready_core::netfilter::set::{Element, Set, SetFlags};
use gwready_core::netfilter::xt::{Conntrack, Interface, Masked, NatRange, Ports, Tcp, XtEntry, XtMatch, XtTarget};

use crate::rules::{R, T, from, ip, mapped, rule, ruleset, set, table, to};
use crate::{told, word};

const WEB: &str = "10.0.0.11:80";

fn local() -> XtMatch {
    XtMatch::Addrtype { source: 0, destination: 4, source_inverted: false, destination_inverted: false, limit_in: false, limit_out: false }
}

fn comment(text: &str) -> XtMatch {
    XtMatch::Comment(text.into())
}

fn dnat(target: &str) -> XtTarget {
    let at: std::net::SocketAddr = target.parse().unwrap();
    XtTarget::Dnat(NatRange { flags: 3, addresses: Some((at.ip(), at.ip())), ports: Some((at.port(), at.port())) })
}

fn by_state(state_mask: u16) -> XtMatch {
    XtMatch::Conntrack(Conntrack { match_flags: 1, state_mask, ..Conntrack::default() })
}

/// The portmap CNI plugin, by iptables-nft.
fn portmap(port: u16) -> Ruleset {
    let dports = |port| XtMatch::Multiport { source: false, destination: true, ports: vec![(port, port)], inverted: false };
    ruleset([table("ip nat")
        .chain("CNI-HOSTPORT-SETMARK", [rule().target(XtTarget::Mark { value: 0x2000, mask: 0x2000 })])
        .chain(
            "CNI-DN-0b1a9d7f1c2e",
            [
                rule().saddr("10.42.1.0/24").dport(port).jump("CNI-HOSTPORT-SETMARK"),
                rule().saddr("127.0.0.1").dport(port).jump("CNI-HOSTPORT-SETMARK"),
                rule().dport(port).target(dnat("10.42.1.7:80")),
            ],
        )
        .chain(
            "CNI-HOSTPORT-DNAT",
            [rule().l4(6).xt(comment("dnat name: \"cbr0\" id: \"0123\"")).xt(dports(port)).jump("CNI-DN-0b1a9d7f1c2e")],
        )
        .base("PREROUTING", "nat prerouting -100", [rule().xt(local()).jump("CNI-HOSTPORT-DNAT")])])
}

#[test]
fn portmap_takes_its_host_port_from_every_client() {
    let expected = "to 10.42.1.7:80: tcp dport 80 xt target DNAT --to-destination 10.42.1.7:80";
    assert_eq!(told(&portmap(80), &to(WEB)), expected);
    assert_eq!(word(&portmap(8080), &to(WEB)), "passes");
    assert_eq!(told(&portmap(80), &from("10.42.1.9", WEB)), expected, "the mark of the pods changes nothing");
}

fn external(address: &str) -> XtEntry {
    let destination = Some(Masked { address: ip(address), mask: ip("255.255.255.255"), inverted: false });
    XtEntry { destination, protocol: Some((6, false)), ..XtEntry::default() }
}

fn legacy_dport(port: u16) -> XtMatch {
    let any = Ports { first: 0, last: u16::MAX, inverted: false };
    let destination = Ports { first: port, last: port, inverted: false };
    XtMatch::Tcp(Tcp { source: any, destination, option: None, flags_mask: 0, flags_value: 0, flags_inverted: false })
}

/// kube-proxy in iptables mode, legacy tables: an externalIP with two endpoints.
fn kube_proxy(external_ip: &str) -> Ruleset {
    let statistic = || XtMatch::Unknown { name: "statistic".into(), revision: 0 };
    let from_pod = |pod: &str| XtEntry {
        source: Some(Masked { address: ip(pod), mask: ip("255.255.255.255"), inverted: false }),
        ..XtEntry::default()
    };
    let endpoint = |name: &str, pod: &str| {
        (
            name.to_owned(),
            [
                rule().expr(Expr::Entry(from_pod(pod))).jump("KUBE-MARK-MASQ"),
                rule().expr(Expr::Entry(XtEntry { protocol: Some((6, false)), ..XtEntry::default() })).target(dnat(&format!("{pod}:80"))),
            ],
        )
    };
    let (one, first) = endpoint("KUBE-SEP-AAAA", "10.42.1.7");
    let (two, second) = endpoint("KUBE-SEP-BBBB", "10.42.2.8");
    ruleset([table("ip nat")
        .legacy()
        .chain("KUBE-MARK-MASQ", [rule().target(XtTarget::Mark { value: 0x4000, mask: 0x4000 })])
        .chain(&one, first)
        .chain(&two, second)
        .chain("KUBE-SVC-WEB", [rule().xt(statistic()).jump("KUBE-SEP-AAAA"), rule().jump("KUBE-SEP-BBBB")])
        .chain("KUBE-EXT-WEB", [rule().jump("KUBE-MARK-MASQ"), rule().jump("KUBE-SVC-WEB")])
        .chain(
            "KUBE-SERVICES",
            [
                rule()
                    .expr(Expr::Entry(external(external_ip)))
                    .xt(comment("default/web external IP"))
                    .xt(legacy_dport(80))
                    .jump("KUBE-EXT-WEB"),
                rule().xt(local()).jump("KUBE-NODEPORTS"),
            ],
        )
        .chain(
            "KUBE-NODEPORTS",
            [rule()
                .expr(Expr::Entry(XtEntry { protocol: Some((6, false)), ..XtEntry::default() }))
                .xt(legacy_dport(31_000))
                .jump("KUBE-EXT-WEB")],
        )
        .base("PREROUTING", "nat prerouting -100", [rule().jump("KUBE-SERVICES")])])
}

#[test]
fn kube_proxys_external_ip_takes_the_port_whatever_endpoint_chance_chooses() {
    let answer = told(&kube_proxy("10.0.0.11"), &to(WEB));
    assert!(answer.starts_with("to 10.42.1.7:80 or 10.42.2.8:80: "), "{answer}");
    assert_eq!(word(&kube_proxy("10.0.0.99"), &to(WEB)), "passes");
    assert_eq!(word(&kube_proxy("10.0.0.11"), &to("10.0.0.11:443")), "passes");
    assert_eq!(word(&kube_proxy("10.0.0.99"), &to("10.0.0.11:31000")), "redirected", "a node port");
}

#[test]
fn kube_proxys_external_ip_without_endpoints_is_rejected_in_input() {
    let rules = ruleset([table("ip filter")
        .legacy()
        .chain(
            "KUBE-EXTERNAL-SERVICES",
            [rule()
                .expr(Expr::Entry(external("10.0.0.11")))
                .xt(comment("default/web has no endpoints"))
                .xt(legacy_dport(80))
                .target(XtTarget::Reject { with: 3 })],
        )
        .chain("KUBE-FIREWALL", [rule().xt(XtMatch::Mark { value: 0x8000, mask: 0x8000, inverted: false }).drop()])
        .base("INPUT", "filter input 0", [rule().xt(by_state(8)).jump("KUBE-EXTERNAL-SERVICES"), rule().jump("KUBE-FIREWALL")])]);
    let answer = told(&rules, &to(WEB));
    assert_eq!(answer, "dropped: -d 10.0.0.11 -p tcp -m comment \"default/web has no endpoints\" -m tcp --dport 80 -j REJECT");
    assert_eq!(word(&rules, &to("10.0.0.11:443")), "passes");
}

/// kube-proxy in nftables mode: a map from address, protocol and port to a chain.
fn kube_proxy_nft(port: u16) -> Ruleset {
    let key = [&[10, 0, 0, 11][..], &[6, 0, 0, 0], &port.to_be_bytes(), &[0, 0]].concat();
    let load = |rule: R, base, offset, len, at| rule.expr(Expr::Payload { base, offset, len, dreg: Reg(at) });
    let meta_l4 = Expr::Meta { key: 16, dreg: Reg(4) };
    let looked_up = load(load(rule(), Base::Network, 16, 4, 0).expr(meta_l4), Base::Transport, 2, 2, 8).vmap("service-ips");
    let numbered = |n: u32, chain: &str| mapped(&n.to_ne_bytes(), Data::Verdict(Verdict::Goto(chain.into())));
    let choose = rule().expr(Expr::Numgen { dreg: Reg(0), modulus: 2, offset: 0, random: true }).vmap("__map1");
    ruleset([table("ip kube-proxy")
        .set(Set {
            flags: SetFlags { map: true, concat: true, ..SetFlags::default() },
            field_lens: vec![4, 1, 2],
            ..set("service-ips", 12, vec![mapped(&key, Data::Verdict(Verdict::Goto("external-web".into())))])
        })
        .set(Set {
            flags: SetFlags { map: true, anonymous: true, ..SetFlags::default() },
            ..set("__map1", 4, vec![numbered(0, "endpoint-a"), numbered(1, "endpoint-b")])
        })
        .chain("endpoint-a", [rule().saddr("10.42.1.7").jump("mark-for-masquerade"), rule().l4(6).dnat("10.42.1.7:80")])
        .chain("endpoint-b", [rule().saddr("10.42.2.8").jump("mark-for-masquerade"), rule().l4(6).dnat("10.42.2.8:80")])
        .chain("mark-for-masquerade", [rule().or_mark(0x4000)])
        .chain("service-web", [choose])
        .chain("external-web", [rule().jump("mark-for-masquerade"), rule().goto("service-web")])
        .chain("services", [looked_up, rule().fib_local().daddr("10.0.0.11").lookup("nodeports")])
        .set(set("nodeports", 4, vec![]))
        .base("nat-prerouting", "nat prerouting -100", [rule().jump("services")])])
}

#[test]
fn kube_proxy_in_nftables_mode_takes_the_port() {
    let answer = told(&kube_proxy_nft(80), &to(WEB));
    assert!(answer.starts_with("to 10.42.1.7:80 or 10.42.2.8:80: "), "{answer}");
    assert_eq!(word(&kube_proxy_nft(81), &to(WEB)), "passes");
}

/// `docker run -p 80:80`.
fn docker(port: u16) -> Ruleset {
    let bridge = |inverted| XtEntry { input: Some(Interface { name: "docker0".into(), prefix: false, inverted }), ..XtEntry::default() };
    let publish = XtEntry { protocol: Some((6, false)), ..bridge(true) };
    ruleset([table("ip nat")
        .legacy()
        .chain(
            "DOCKER",
            [
                rule().expr(Expr::Entry(bridge(false))).ret(),
                rule().expr(Expr::Entry(publish)).xt(legacy_dport(port)).target(dnat("172.17.0.2:80")),
            ],
        )
        .base("PREROUTING", "nat prerouting -100", [rule().xt(local()).jump("DOCKER")])])
}

#[test]
fn docker_takes_a_published_port_from_whoever_is_not_on_its_bridge() {
    assert_eq!(
        told(&docker(80), &to(WEB)),
        "to 172.17.0.2:80: ! -i docker0 -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.17.0.2:80"
    );
    assert_eq!(word(&docker(8080), &to(WEB)), "passes");
    let mut by_bridge = to(WEB);
    by_bridge.ingress[0].name = "docker0".into();
    assert_eq!(word(&docker(80), &by_bridge), "passes");
}

/// firewalld 1.x: zone public on eth0, with these ports open and this port forwarded.
fn firewalld(open: &[u16], forwarded: Option<u16>) -> Ruleset {
    let allow = open.iter().map(|port| rule().dport(*port).accept());
    let forward = forwarded.map(|port| rule().nfproto(2).dport(port).redirect(Some(8080)));
    let zone = |table: T, suffix: &str| table.chain(suffix, [rule().iifname("eth0").goto("IN_public"), rule().goto("IN_public")]);
    let filter = zone(table("inet firewalld").chain("IN_public_allow", allow), "INPUT_ZONES")
        .chain(
            "IN_public",
            [rule().jump("IN_public_allow"), rule().expr(Expr::Meta { key: 16, dreg: Reg(0) }).lookup("__icmp").accept(), rule().reject()],
        )
        .set(set("__icmp", 1, vec![crate::rules::element(&[1]), crate::rules::element(&[58])]))
        .chain("nat_PRE_public_allow", forward)
        .chain("nat_PREROUTING_ZONES", [rule().iifname("eth0").goto("nat_PRE_public"), rule().goto("nat_PRE_public")])
        .chain("nat_PRE_public", [rule().jump("nat_PRE_public_allow")])
        .base("nat_PREROUTING", "nat prerouting -90", [rule().jump("nat_PREROUTING_ZONES")])
        .base(
            "mangle_PREROUTING",
            "filter prerouting -140",
            [rule().nfproto(10).expr(Expr::Fib { result: 1, flags: 1 | 4 | 8 | 32, dreg: Reg(0) }).is(&[0]).drop()],
        )
        .base(
            "filter_INPUT",
            "filter input 10",
            [
                rule().ct_state(2 | 4).accept(),
                rule().ct(2).and(&32_u32.to_ne_bytes()).is(&32_u32.to_ne_bytes()).accept(),
                rule().iifname("lo").accept(),
                rule().ct_state(state::INVALID).drop(),
                rule().jump("INPUT_ZONES"),
                rule().reject(),
            ],
        );
    ruleset([filter])
}

#[test]
fn firewalld_rejects_what_its_zone_does_not_open() {
    assert_eq!(told(&firewalld(&[22], None), &to(WEB)), "dropped: reject with tcp reset");
    assert_eq!(word(&firewalld(&[22, 80, 443], None), &to(WEB)), "passes");
    assert_eq!(word(&firewalld(&[80], None), &to("[fd00::11]:80")), "some", "IPv6 clients have to pass the reverse path filter");
    assert_eq!(told(&firewalld(&[22, 80], Some(80)), &to(WEB)), "to 10.0.0.11:8080: meta nfproto ipv4 tcp dport 80 redirect to :8080");
}

/// ufw, with this rule in its user chain.
fn ufw(user: impl IntoIterator<Item = R>) -> Ruleset {
    let limit = || XtMatch::Unknown { name: "limit".into(), revision: 0 };
    let log = || XtTarget::Log { prefix: "[UFW BLOCK] ".into() };
    let kind = |bit: u16| XtMatch::Addrtype {
        source: 0,
        destination: bit,
        source_inverted: false,
        destination_inverted: false,
        limit_in: false,
        limit_out: false,
    };
    ruleset([table("ip filter")
        .chain("ufw-user-limit", [rule().xt(limit()).target(log()), rule().target(XtTarget::Reject { with: 3 })])
        .chain("ufw-user-input", user)
        .chain("ufw-not-local", [rule().xt(kind(4)).ret(), rule().xt(kind(32)).ret(), rule().xt(limit()).target(log()), rule().drop()])
        .chain(
            "ufw-before-input",
            [
                rule().iifname("lo").accept(),
                rule().xt(by_state(2 | 4)).accept(),
                rule().xt(by_state(1)).drop(),
                rule().jump("ufw-not-local"),
                rule().jump("ufw-user-input"),
            ],
        )
        .chain("ufw-after-logging-input", [rule().xt(limit()).target(log())])
        .base("INPUT", "filter input 0 drop", [rule().jump("ufw-before-input"), rule().jump("ufw-after-logging-input")])])
}

#[test]
fn ufw_drops_by_policy_what_is_not_allowed() {
    assert_eq!(told(&ufw([rule().dport(22).accept()]), &to(WEB)), "dropped: policy drop");
    assert_eq!(word(&ufw([rule().dport(80).accept()]), &to(WEB)), "passes");
    assert_eq!(word(&ufw([rule().saddr("10.0.0.0/8").dport(80).accept()]), &to(WEB)), "some");
    assert_eq!(told(&ufw([rule().dport(80).drop()]), &to(WEB)), "dropped: tcp dport 80 drop", "ufw deny 80");
}

#[test]
fn ufw_limit_lets_some_through() {
    let recent = || XtMatch::Unknown { name: "recent".into(), revision: 0 };
    let limited = [
        rule().dport(80).xt(by_state(8)).xt(recent()),
        rule().dport(80).xt(by_state(8)).xt(recent()).jump("ufw-user-limit"),
        rule().dport(80).accept(),
    ];
    assert_eq!(word(&ufw(limited), &to(WEB)), "some");
}

#[test]
fn fail2bans_set_is_a_remark() {
    let banned = Set {
        flags: SetFlags { timeout: true, ..SetFlags::default() },
        ..set("addr-set-web", 4, vec![Element { expires: true, ..crate::rules::element(&[198, 51, 100, 7]) }])
    };
    let rules = ruleset([table("inet f2b-table").set(banned).base(
        "f2b-chain",
        "filter input -1",
        [rule().dport_in(&[80, 443]).nfproto(2).saddr_in("addr-set-web").reject()],
    )]);
    assert_eq!(told(&rules, &to(WEB)), "for some, others are dropped: tcp dport { 80, 443 } ip saddr @addr-set-web reject with tcp reset");
    assert_eq!(word(&rules, &from("203.0.113.9", WEB)), "passes");
}

/// Cilium's own chains (`pkg/datapath/iptables/iptables.go`).
fn cilium() -> [T; 3] {
    let marked = |value, mask, inverted| XtMatch::Mark { value, mask, inverted };
    let not_lo = XtEntry { output: Some(Interface { name: "lo".into(), prefix: false, inverted: true }), ..XtEntry::default() };
    let tcp = || XtEntry { protocol: Some((6, false)), ..XtEntry::default() };
    let tproxy = XtTarget::Tproxy { address: ip("127.0.0.1"), port: 10_000, mark_mask: u32::MAX, mark_value: 0x200 };
    let feeder = |chain: &str| rule().xt(comment(&format!("cilium-feeder: {chain}"))).jump(chain);
    [
        table("ip mangle")
            .chain(
                "CILIUM_PRE_mangle",
                [
                    rule()
                        .expr(Expr::Entry(not_lo))
                        .xt(XtMatch::Socket { flags: 1 })
                        .xt(marked(0xe00, 0xf00, true))
                        .xt(marked(0x800, 0xf00, true))
                        .target(XtTarget::Mark { value: 0x200, mask: u32::MAX }),
                    rule()
                        .expr(Expr::Entry(tcp()))
                        .xt(marked(0x1027_0200, u32::MAX, false))
                        .xt(comment("cilium: TPROXY to host a proxy"))
                        .target(tproxy),
                ],
            )
            .base("PREROUTING", "filter prerouting -150", [feeder("CILIUM_PRE_mangle")]),
        table("ip raw")
            .chain(
                "CILIUM_PRE_raw",
                [rule().xt(marked(0x200, 0xf00, false)).target(XtTarget::Ct { notrack: true, zone: 0, helper: String::new() })],
            )
            .base("PREROUTING", "filter prerouting -300", [feeder("CILIUM_PRE_raw")]),
        table("ip filter").chain("CILIUM_INPUT", [rule().xt(marked(0x200, 0xf00, false)).accept()]).base(
            "INPUT",
            "filter input 0",
            [feeder("CILIUM_INPUT")],
        ),
    ]
}

#[test]
fn ciliums_own_rules_take_nothing() {
    assert_eq!(word(&ruleset(cilium()), &to(WEB)), "passes");
}

#[test]
fn next_to_ciliums_rules_a_firewall_is_still_judged() {
    let [mangle, raw, filter] = cilium();
    let firewall = table("inet fw").base("in", "filter input 20 drop", [rule().dport(443).accept()]);
    let rules = ruleset([mangle, raw, filter, firewall]);
    assert_eq!(word(&rules, &to(WEB)), "dropped");
    assert_eq!(word(&rules, &to("10.0.0.11:443")), "passes");
}

#[test]
fn a_firewall_behind_ciliums_accept_is_judged_as_far_as_the_listeners_are_known() {
    let [mangle, raw, _] = cilium();
    let marked = XtMatch::Mark { value: 0x200, mask: 0xf00, inverted: false };
    let filter = table("ip filter").chain("CILIUM_INPUT", [rule().xt(marked).accept()]).base(
        "INPUT",
        "filter input 0 drop",
        [rule().jump("CILIUM_INPUT"), rule().dport(22).accept()],
    );
    let rules = ruleset([mangle, raw, filter]);
    let listening = |address: &str| {
        let listener = gwready_core::net::Endpoint { address: ip(address), port: 80 };
        gwready_core::netfilter::follow::Connection { transparent: Some(vec![listener]), ..to(WEB) }
    };
    assert_eq!(told(&rules, &listening("0.0.0.0")), "dropped: policy drop", "the socket match passes over wildcard listeners");
    assert_eq!(word(&rules, &listening("10.0.0.11")), "unclear", "marked by Cilium's rule, if this listener is picked");
    assert_eq!(word(&rules, &to(WEB)), "unclear", "the listeners are not known");
    assert_eq!(word(&rules, &to("10.0.0.11:22")), "passes");
}
