//! Rules as text, next to what `nft list ruleset` and `iptables -S` print.

use gwready_core::netfilter::expr::{Base, BitwiseOp, CmpOp, Data, Dest, Expr, Nat, Reg, Verdict};
use gwready_core::netfilter::keys::meta;
use gwready_core::netfilter::render::render_rule;
use gwready_core::netfilter::set::{Set, SetFlags};
use gwready_core::netfilter::xt::{Conntrack, NatRange, XtMatch, XtTarget};

use crate::rules::{R, REG1, REG2, T, dnat_of, element, interval_end, ip, mapped, rule, set, table};

fn shown_in(in_table: T, rule: R) -> String {
    let table = in_table.chain("c", [rule]).build();
    render_rule(&table, &table.chains[0].rules[0])
}

fn shown(rule: R) -> String {
    shown_in(table("inet t"), rule)
}

fn legacy(rule: R) -> String {
    shown_in(table("ip filter").legacy(), rule)
}

#[test]
fn statements_read_as_nft_prints_them() {
    for (rule, text) in [
        (
            rule().nfproto(2).daddr("10.0.0.11").dport(80).dnat("10.42.1.7:8080"),
            "ip daddr 10.0.0.11 tcp dport 80 dnat ip to 10.42.1.7:8080",
        ),
        (rule().dport_in(&[80, 443]).accept(), "tcp dport { 80, 443 } accept"),
        (rule().dports(8000, 9000).redirect(Some(8081)), "tcp dport >= 8000 tcp dport <= 9000 redirect to :8081"),
        (rule().l4(17).payload(Base::Transport, 2, 2).is(&53_u16.to_be_bytes()).accept(), "udp dport 53 accept"),
        (rule().ct_state(2 | 4).accept(), "ct state established,related accept"),
        (rule().ct_state(1).drop(), "ct state invalid drop"),
        (rule().saddr("10.0.0.0/8").drop(), "ip saddr 10.0.0.0/8 drop"),
        (rule().payload(Base::Network, 12, 1).is(&[10]).drop(), "ip saddr 10.0.0.0/8 drop"),
        (rule().not_saddr("10.1.0.0/16").drop(), "ip saddr != 10.1.0.0/16 drop"),
        (rule().daddr("fd00::/64").drop(), "ip6 daddr fd00::/64 drop"),
        (rule().saddr_in("banned").drop(), "ip saddr @banned drop"),
        (rule().iifname("lo").accept(), "iifname \"lo\" accept"),
        (rule().iifname("veth*").accept(), "iifname \"veth*\" accept"),
        (rule().meta(meta::IIF).is(&1_u32.to_ne_bytes()).accept(), "iif \"lo\" accept"),
        (rule().meta(meta::IIF).is(&2_u32.to_ne_bytes()).accept(), "iif 2 accept"),
        (rule().payload(Base::Transport, 13, 1).and(&[0x17]).is(&[2]).drop(), "tcp flags & fin,syn,rst,ack == syn drop"),
        (rule().payload(Base::Transport, 13, 1).and(&[2]).cmp(CmpOp::Neq, &[0]).drop(), "tcp flags syn drop"),
        (rule().mark(0x200, 0xf00).accept(), "meta mark & 0x00000f00 == 0x00000200 accept"),
        (rule().set_mark(0x4000), "meta mark set 0x00004000"),
        (rule().or_mark(0x4000), "meta mark set meta mark or 0x00004000"),
        (rule().fib_local().jump("services"), "fib daddr type local jump services"),
        (rule().limit().drop(), "limit rate 10/second drop"),
        (rule().dport(80).reject(), "tcp dport 80 reject with tcp reset"),
        (rule().dport(80).expr(Expr::Reject { kind: 2, code: 13 }), "tcp dport 80 reject"),
        (rule().dport(80).drop().comment("nobody, please"), "tcp dport 80 drop comment \"nobody, please\""),
        (rule().dport(80).expr(Expr::Counter).drop(), "tcp dport 80 drop"),
        (rule().l4(6).accept(), "meta l4proto tcp accept"),
        (rule().nfproto(10).drop(), "meta nfproto ipv6 drop"),
        (rule().dport(80).tproxy("127.0.0.1:8080"), "tcp dport 80 tproxy to 127.0.0.1:8080"),
        (rule().expr(Expr::Queue { number: 3, bypass: true }), "queue flags bypass to 3"),
        (rule().expr(Expr::Log { prefix: Some("new: ".into()) }).ret(), "log prefix \"new: \" return"),
        (rule().expr(Expr::Unknown { name: "flub".into() }).goto("x"), "[flub] goto x"),
        (rule().expr(Expr::Numgen { dreg: REG1, modulus: 3, offset: 0, random: true }).is(&0_u32.to_ne_bytes()), "numgen random mod 3 0"),
        (rule().expr(Expr::Notrack), "notrack"),
        (rule().expr(Expr::Masq), "masquerade"),
        (rule().payload(Base::Link, 0, 2).is(&[1, 2]), "@ll,0,16 0x0102"),
        (rule().expr(Expr::Socket { key: 0, level: 0, dreg: REG1 }).is(&[1]), "socket transparent 1"),
        (rule().expr(Expr::Quota { bytes: 5, over: true }).drop(), "quota over 5 bytes drop"),
        (rule().expr(Expr::Connlimit { count: 5, over: false }).drop(), "ct count 5 drop"),
    ] {
        assert_eq!(shown(rule), text);
    }
}

#[test]
fn translations_show_ranges_and_families() {
    let ranged = |six: bool| {
        let (first, last) = if six { ("fd00::1", "fd00::5") } else { ("10.0.0.1", "10.0.0.5") };
        let octets = |text: &str| crate::rules::octets(ip(text));
        let nat = Nat {
            family: if six { 10 } else { 2 },
            address_max: Some(REG2),
            port_min: Some(Reg(32)),
            port_max: Some(Reg(48)),
            ..dnat_of(REG1)
        };
        rule()
            .value(REG1, &octets(first))
            .value(REG2, &octets(last))
            .value(Reg(32), &90_u16.to_be_bytes())
            .value(Reg(48), &95_u16.to_be_bytes())
            .expr(Expr::Nat(nat))
    };
    assert_eq!(shown_in(table("ip nat"), ranged(false)), "dnat to 10.0.0.1-10.0.0.5:90-95");
    assert_eq!(shown(ranged(true)), "dnat ip6 to [fd00::1]-fd00::5:90-95");
    let snat = Nat { destination: false, ..dnat_of(REG1) };
    assert_eq!(shown_in(table("ip nat"), rule().value(REG1, &[10, 0, 0, 1]).expr(Expr::Nat(snat))), "snat to 10.0.0.1");
}

#[test]
fn anonymous_sets_and_maps_are_written_out() {
    let anonymous = |map, interval| SetFlags { anonymous: true, map, interval, ..SetFlags::default() };
    let port = |number: u16| number.to_be_bytes();
    let ports = Set {
        flags: anonymous(false, true),
        ..set("s", 2, vec![element(&port(80)), interval_end(&port(91)), element(&port(443)), interval_end(&port(444))])
    };
    let by_port = || rule().l4(6).payload(Base::Transport, 2, 2);
    assert_eq!(shown_in(table("inet t").set(ports), by_port().lookup("s").accept()), "tcp dport { 80-90, 443 } accept");
    let nets = Set { flags: anonymous(false, true), ..set("n", 4, vec![element(&[10, 0, 0, 0]), interval_end(&[11, 0, 0, 0])]) };
    assert_eq!(shown_in(table("inet t").set(nets), rule().saddr_in("n").drop()), "ip saddr { 10.0.0.0/8 } drop");
    let verdicts = Set {
        flags: anonymous(true, false),
        ..set("v", 2, vec![mapped(&port(80), Data::Verdict(Verdict::Jump("web".into()))), mapped(&port(81), Data::Verdict(Verdict::Drop))])
    };
    assert_eq!(shown_in(table("inet t").set(verdicts), by_port().vmap("v")), "tcp dport vmap { 80 : jump web, 81 : drop }");
    let targets = Set { flags: anonymous(true, false), ..set("m", 2, vec![mapped(&port(80), Data::Value(vec![10, 0, 0, 1]))]) };
    let by_map = by_port().map("m", REG1).expr(Expr::Nat(dnat_of(REG1)));
    assert_eq!(shown_in(table("ip t").set(targets), by_map), "dnat to tcp dport map { 80 : 10.0.0.1 }");
    let many = Set { flags: anonymous(false, false), ..set("s", 2, (1..20).map(|n| element(&port(n))).collect()) };
    assert_eq!(shown_in(table("inet t").set(many), by_port().lookup("s").accept()), "tcp dport { 1, 2, 3, 4, 5, 6, .. } accept");
    let key = [&[10, 0, 0, 11][..], &port(80), &[0, 0]].concat();
    let both = Set {
        flags: SetFlags { concat: true, ..anonymous(true, false) },
        ..set("c", 8, vec![mapped(&key, Data::Verdict(Verdict::Accept))])
    };
    let load = |base, offset, len, at| Expr::Payload { base, offset, len, dreg: Reg(at) };
    let loaded = rule().nfproto(2).l4(6).expr(load(Base::Network, 16, 4, 0)).expr(load(Base::Transport, 2, 2, 4));
    assert_eq!(
        shown_in(table("inet t").set(both), loaded.vmap("c")),
        "meta nfproto ipv4 ip daddr . tcp dport vmap { 10.0.0.11 . 80 : accept }"
    );
}

#[test]
fn iptables_reads_as_iptables_prints_it() {
    let established = XtMatch::Conntrack(Conntrack { match_flags: 1, state_mask: 2 | 4, ..Conntrack::default() });
    assert_eq!(legacy(rule().xt(established.clone()).accept()), "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT");
    assert_eq!(shown(rule().xt(established).accept()), "xt match conntrack --ctstate ESTABLISHED,RELATED accept");
    assert_eq!(legacy(rule().xt(XtMatch::State { mask: 8 }).goto("X")), "-m state --state NEW -g X");
    let mark = XtTarget::Mark { value: 0x4000, mask: 0x4000 };
    assert_eq!(legacy(rule().target(mark)), "-j MARK --set-xmark 0x4000/0x4000");
    let tproxy = XtTarget::Tproxy { address: ip("127.0.0.1"), port: 10_000, mark_mask: u32::MAX, mark_value: 0x200 };
    assert_eq!(shown(rule().target(tproxy)), "xt target TPROXY --on-port 10000 --on-ip 127.0.0.1 --tproxy-mark 0x200/0xffffffff");
    let six = NatRange { flags: 3, addresses: Some((ip("fd00::7"), ip("fd00::7"))), ports: Some((80, 80)) };
    assert_eq!(legacy(rule().target(XtTarget::Dnat(six))), "-j DNAT --to-destination [fd00::7]:80");
    assert_eq!(legacy(rule().xt(XtMatch::Set { index: 2, sources: vec![true, false], inverted: true })), "-m set ! --match-set 2 src,dst");
    assert_eq!(legacy(rule().xt(XtMatch::Unknown { name: "recent".into(), revision: 0 }).ret()), "-m recent -j RETURN");
    assert_eq!(legacy(rule().target(XtTarget::Unknown { name: "NFQUEUE".into(), revision: 3 })), "-j NFQUEUE");
    let ports = XtMatch::Multiport { source: false, destination: true, ports: vec![(80, 80), (8000, 8100)], inverted: true };
    assert_eq!(legacy(rule().xt(ports).drop()), "-m multiport ! --dports 80,8000:8100 -j DROP");
}

#[test]
fn foreign_text_is_harmless_and_a_long_rule_keeps_its_ends() {
    let named = shown(rule().jump("a=b\nc").comment("state=up\u{1b}"));
    assert_eq!(named, "jump a:b?c comment \"state:up?\"");
    let long = (0..40).fold(rule().dport(80), |rule, _| rule.mark(1, 1)).drop();
    let text = shown(long);
    assert!(text.len() <= 150 && text.starts_with("tcp dport 80 ") && text.ends_with(" drop") && text.contains(" .. "), "{text}");
}

#[test]
fn a_bitwise_expression_that_nft_never_writes_is_still_shown() {
    let shifted = Expr::Bitwise { sreg: REG1, dreg: REG1, len: 4, op: BitwiseOp::ShiftRight(4) };
    assert_eq!(shown(rule().meta(meta::MARK).expr(shifted).is(&1_u32.to_ne_bytes())), "meta mark >> 4 0x00000001");
    let lookup = Expr::Lookup { set: "gone".into(), sreg: Reg(60), dest: Some(Dest::Verdict), inverted: false };
    assert_eq!(shown(rule().expr(lookup)), "reg 60 vmap @gone");
}
