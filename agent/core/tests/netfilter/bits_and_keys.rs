//! Single expressions on the packet: loads, comparisons, masks, ranges, shifts.

use gwready_core::netfilter::expr::{Base, BitwiseOp, CmpOp, Expr};
use gwready_core::netfilter::follow::Connection;
use gwready_core::netfilter::keys::{ct, fib, meta};

use crate::rules::{NODE, R, REG1, REG2, from, input, rule, ruleset, table, to};
use crate::word;

const WEB: &str = "10.0.0.11:80";

/// What a rule that drops what it matches does to any client's connection: the answer of the match.
fn answer(rule: R) -> &'static str {
    match word(&input("accept", [rule.drop()]), &to(WEB)) {
        "dropped" => "yes",
        "passes" => "no",
        "some" => "for some",
        other => other,
    }
}

fn answer6(rule: R) -> &'static str {
    word(&input("accept", [rule.drop()]), &to("[fd00::11]:80"))
}

#[test]
fn ports_compare_as_numbers_in_network_order() {
    let port = |op, number: u16| rule().payload(Base::Transport, 2, 2).cmp(op, &number.to_be_bytes());
    for (op, number, expected) in [
        (CmpOp::Eq, 80, "yes"),
        (CmpOp::Eq, 81, "no"),
        (CmpOp::Neq, 80, "no"),
        (CmpOp::Neq, 8080, "yes"),
        (CmpOp::Lt, 81, "yes"),
        (CmpOp::Lt, 80, "no"),
        (CmpOp::Lte, 80, "yes"),
        (CmpOp::Gt, 80, "no"),
        (CmpOp::Gt, 79, "yes"),
        (CmpOp::Gte, 80, "yes"),
        (CmpOp::Gte, 256, "no"),
    ] {
        assert_eq!(answer(port(op, number)), expected, "{op:?} {number}");
    }
    assert_eq!(answer(rule().dports(80, 90)), "yes");
    assert_eq!(answer(rule().dports(81, 90)), "no");
    let range = |inverted| Expr::Range { sreg: REG1, inverted, from: 80_u16.to_be_bytes().into(), to: 90_u16.to_be_bytes().into() };
    assert_eq!(answer(rule().payload(Base::Transport, 2, 2).expr(range(false))), "yes");
    assert_eq!(answer(rule().payload(Base::Transport, 2, 2).expr(range(true))), "no");
}

#[test]
fn a_clients_port_is_any_of_all() {
    let port = |op, number: u16| rule().payload(Base::Transport, 0, 2).cmp(op, &number.to_be_bytes());
    assert_eq!(answer(port(CmpOp::Gte, 1024)), "for some");
    assert_eq!(answer(port(CmpOp::Gte, 0)), "yes");
    assert_eq!(answer(port(CmpOp::Eq, 20)), "for some");
    assert_eq!(word(&input("accept", [port(CmpOp::Gte, 1024).drop()]), &from("203.0.113.7", WEB)), "dropped");
}

#[test]
fn addresses_compare_whole_by_mask_and_by_their_first_bytes() {
    assert_eq!(answer(rule().daddr(NODE)), "yes");
    assert_eq!(answer(rule().daddr("10.0.0.12")), "no");
    assert_eq!(answer(rule().daddr("10.0.0.8/29")), "yes");
    assert_eq!(answer(rule().daddr("10.0.0.0/29")), "no");
    assert_eq!(answer(rule().payload(Base::Network, 16, 1).is(&[10])), "yes");
    assert_eq!(answer(rule().saddr("10.0.0.0/8")), "for some");
    assert_eq!(answer(rule().not_saddr("10.0.0.0/8")), "for some");
    assert_eq!(answer(rule().saddr("0.0.0.0/0")), "yes");
    assert_eq!(answer6(rule().nfproto(10).daddr("fd00::11")), "dropped");
    assert_eq!(answer6(rule().nfproto(10).daddr("fd00::/16")), "dropped");
    assert_eq!(answer6(rule().nfproto(10).daddr("fd01::/16")), "passes");
    assert_eq!(answer6(rule().nfproto(2).daddr(NODE)), "passes");
}

#[test]
fn a_syn_has_its_flags_and_no_options_of_ip() {
    let flags = |mask: u8, value: u8| rule().payload(Base::Transport, 13, 1).and(&[mask]).is(&[value]);
    assert_eq!(answer(flags(0x17, 0x02)), "yes", "tcp flags syn / fin,syn,rst,ack");
    assert_eq!(answer(flags(0x10, 0x10)), "no", "ack");
    assert_eq!(answer(rule().payload(Base::Transport, 13, 1).is(&[0x02])), "for some", "ECN clients have more");
    assert_eq!(answer(rule().payload(Base::Network, 9, 1).is(&[6])), "yes");
    assert_eq!(answer(rule().payload(Base::Network, 9, 1).is(&[17])), "no");
    assert_eq!(answer(rule().payload(Base::Network, 6, 2).and(&[0x1f, 0xff]).is(&[0, 0])), "yes", "no fragment");
    assert_eq!(answer(rule().payload(Base::Network, 8, 1).is(&[64])), "for some", "ttl");
    assert_eq!(answer(rule().payload(Base::Link, 12, 2).is(&[8, 0])), "yes");
    assert_eq!(answer(rule().payload(Base::Link, 6, 6).is(&[2; 6])), "for some");
    assert_eq!(answer(rule().payload(Base::Inner, 0, 1).is(&[2])), "for some");
    assert_eq!(answer6(rule().payload(Base::Network, 6, 1).is(&[6])), "dropped", "next header");
    let exthdr = |op, present| Expr::Exthdr { op, kind: 2, offset: 2, len: 2, present, dreg: Some(REG1) };
    assert_eq!(answer(rule().expr(exthdr(2, true)).is(&[1])), "no", "no IP option");
    assert_eq!(answer(rule().expr(exthdr(2, false)).is(&[1])), "no");
    assert_eq!(answer(rule().expr(exthdr(1, false)).is(&[5, 180])), "for some", "tcp option maxseg");
}

#[test]
fn meta_knows_the_way_in() {
    let is = |key, data: &[u8]| answer(rule().meta(key).is(data));
    assert_eq!(is(meta::L4PROTO, &[6]), "yes");
    assert_eq!(is(meta::L4PROTO, &[17]), "no");
    assert_eq!(is(meta::NFPROTO, &[2]), "yes");
    assert_eq!(is(meta::PROTOCOL, &[8, 0]), "yes");
    assert_eq!(is(meta::IIF, &2_u32.to_ne_bytes()), "yes");
    assert_eq!(is(meta::IIF, &1_u32.to_ne_bytes()), "no");
    assert_eq!(is(meta::OIF, &2_u32.to_ne_bytes()), "no", "no output interface");
    assert_eq!(is(meta::PKTTYPE, &[0]), "yes", "to this host");
    assert_eq!(is(meta::MARK, &0_u32.to_ne_bytes()), "yes");
    assert_eq!(is(meta::LEN, &60_u32.to_ne_bytes()), "for some");
    assert_eq!(is(meta::CGROUP, &7_u32.to_ne_bytes()), "no", "no socket yet");
    assert_eq!(is(meta::SKUID, &0_u32.to_ne_bytes()), "no");
    assert_eq!(is(meta::OIFGROUP, &0_u32.to_ne_bytes()), "no");
    assert_eq!(is(meta::IIFGROUP, &0_u32.to_ne_bytes()), "unclear");
    assert_eq!(is(32, &[7; 4]), "unclear", "the hour");
    assert_eq!(answer(rule().iifname("eth0")), "yes");
    assert_eq!(answer(rule().iifname("eth*")), "yes");
    assert_eq!(answer(rule().iifname("lo")), "no");
    assert_eq!(answer(rule().not_iifname("docker0")), "yes");
}

#[test]
fn an_unknown_interface_is_any_but_the_loopback() {
    let anywhere = Connection { ingress: Vec::new(), ..to(WEB) };
    let of = |rule: R| word(&input("accept", [rule.drop()]), &anywhere);
    assert_eq!(of(rule().iifname("lo")), "passes");
    assert_eq!(of(rule().meta(meta::IIF).is(&1_u32.to_ne_bytes())), "passes");
    assert_eq!(of(rule().not_iifname("lo")), "dropped");
    assert_eq!(of(rule().iifname("eth0")), "some");
    assert_eq!(of(rule().not_iifname("docker0")), "some");
    let mut two = to(WEB);
    two.ingress.push(gwready_core::netfilter::follow::Ingress { index: 3, name: "eth1".into(), addresses: Vec::new() });
    assert_eq!(word(&input("accept", [rule().iifname("eth1").drop()]), &two), "some", "by one of its two ways in");
    assert_eq!(word(&input("accept", [rule().iifname("eth*").drop()]), &two), "dropped");
}

#[test]
fn marks_are_followed_through_masks() {
    let marked = |first: R, second: R| word(&input("accept", [first, second.drop()]), &to(WEB));
    assert_eq!(marked(rule().set_mark(0x1234), rule().mark(0x200, 0xf00)), "dropped");
    assert_eq!(marked(rule().set_mark(0x1234), rule().mark(0x300, 0xf00)), "passes");
    assert_eq!(marked(rule().or_mark(0x4000), rule().mark(0x4000, 0x4000)), "dropped");
    assert_eq!(marked(rule().saddr("10.0.0.0/8").or_mark(0x4000), rule().mark(0x4000, 0x4000)), "some");
    assert_eq!(marked(rule().saddr("10.0.0.0/8").or_mark(0x4000), rule().mark(0, 0x8000)), "dropped", "another bit");
    let saved = rule().set_mark(7).meta(meta::MARK).expr(Expr::CtSet { key: ct::MARK, sreg: REG1 });
    assert_eq!(marked(saved, rule().ct(ct::MARK).is(&7_u32.to_ne_bytes())), "dropped");
    assert_eq!(answer(rule().ct(ct::MARK).is(&7_u32.to_ne_bytes())), "no");
}

#[test]
fn shifts_and_swaps_compute() {
    let mark = |rule: R| rule.set_mark(0x0102_0304).meta(meta::MARK);
    let shift = |op| Expr::Bitwise { sreg: REG1, dreg: REG2, len: 4, op };
    let is = |value: u32| Expr::Cmp { op: CmpOp::Eq, sreg: REG2, data: value.to_ne_bytes().to_vec() };
    assert_eq!(answer(mark(rule()).expr(shift(BitwiseOp::ShiftLeft(8))).expr(is(0x0203_0400))), "yes");
    assert_eq!(answer(mark(rule()).expr(shift(BitwiseOp::ShiftRight(8))).expr(is(0x0001_0203))), "yes");
    assert_eq!(answer(mark(rule()).expr(shift(BitwiseOp::ShiftRight(40))).expr(is(0))), "unclear");
    assert_eq!(answer(mark(rule()).expr(shift(BitwiseOp::Other)).expr(is(0))), "unclear");
    let swap = Expr::Byteorder { sreg: REG1, dreg: REG2, len: 4, size: 4 };
    let big = |op, value: u32| Expr::Cmp { op, sreg: REG2, data: value.to_be_bytes().to_vec() };
    assert_eq!(answer(mark(rule()).expr(swap.clone()).expr(big(CmpOp::Eq, 0x0102_0304))), "yes");
    assert_eq!(answer(mark(rule()).expr(swap).expr(big(CmpOp::Lt, 0x0102_0305))), "yes");
}

#[test]
fn connection_tracking_knows_both_ends() {
    let is = |key, data: &[u8]| answer(rule().ct(key).is(data));
    assert_eq!(is(ct::DIRECTION, &[0]), "yes");
    assert_eq!(is(ct::PROTOCOL, &[6]), "yes");
    assert_eq!(is(ct::L3PROTOCOL, &[2]), "yes");
    assert_eq!(is(ct::DST_IP, &[10, 0, 0, 11]), "yes");
    assert_eq!(is(ct::PROTO_DST, &80_u16.to_be_bytes()), "yes");
    assert_eq!(is(ct::SRC_IP, &[10, 0, 0, 11]), "for some");
    assert_eq!(is(ct::PROTO_SRC, &80_u16.to_be_bytes()), "for some");
    assert_eq!(is(17, &[0, 0]), "unclear", "the zone");
    let reply = |key, data: &[u8]| answer(rule().expr(Expr::Ct { key, dreg: REG1, reply: Some(true) }).is(data));
    assert_eq!(reply(ct::SRC, &[10, 0, 0, 11]), "yes");
    assert_eq!(reply(ct::PROTO_SRC, &80_u16.to_be_bytes()), "yes");
    assert_eq!(reply(ct::DST, &[10, 0, 0, 11]), "for some");
    let early = |rule: R| ruleset([table("ip raw").base("pre", "filter prerouting -300", [rule.drop()])]);
    assert_eq!(word(&early(rule().ct(ct::DIRECTION).is(&[0])), &to(WEB)), "passes", "no entry yet");
    let middle = ruleset([table("ip raw").base("pre", "filter prerouting -200", [rule().ct(ct::DIRECTION).is(&[0]).drop()])]);
    assert_eq!(word(&middle, &to(WEB)), "unclear", "at the very priority of connection tracking");
}

#[test]
fn fib_tells_local_addresses() {
    let typed = |flags, kind: u32| rule().expr(Expr::Fib { result: fib::RESULT_ADDRTYPE, flags, dreg: REG1 }).is(&kind.to_ne_bytes());
    assert_eq!(answer(typed(fib::DADDR, 2)), "yes");
    assert_eq!(answer(typed(fib::DADDR, 1)), "no");
    assert_eq!(answer(typed(fib::DADDR | fib::IIF, 2)), "yes", "it is one of eth0's");
    assert_eq!(answer(typed(fib::SADDR, 2)), "no", "a client is never local");
    let way_back = |flags, present: &[u8]| rule().expr(Expr::Fib { result: fib::RESULT_OIF, flags, dreg: REG1 }).is(present);
    assert_eq!(answer(way_back(fib::SADDR | fib::IIF | fib::PRESENT, &[0])), "for some", "the reverse path");
    assert_eq!(answer(way_back(fib::DADDR | fib::PRESENT, &[0])), "unclear");
    let strange = Connection {
        ingress: vec![gwready_core::netfilter::follow::Ingress { index: 2, name: "eth0".into(), addresses: Vec::new() }],
        ..to(WEB)
    };
    let by_interface = input("accept", [typed(fib::DADDR | fib::IIF, 2).drop()]);
    assert_eq!(word(&by_interface, &strange), "unclear", "whose addresses the interface has is not known");
}

#[test]
fn sockets_and_routes_are_not_in_the_rules() {
    let socket = rule().expr(Expr::Socket { key: 0, level: 0, dreg: REG1 }).is(&[1]);
    assert_eq!(answer(socket.clone()), "unclear");
    let listening = |listeners: &[(&str, u16)]| {
        let endpoint = |&(address, port): &(&str, u16)| gwready_core::net::Endpoint { address: crate::rules::ip(address), port };
        let connection = Connection { transparent: Some(listeners.iter().map(endpoint).collect()), ..to(WEB) };
        word(&input("accept", [socket.clone().drop()]), &connection)
    };
    assert_eq!(listening(&[]), "passes");
    assert_eq!(listening(&[("0.0.0.0", 81)]), "passes");
    assert_eq!(listening(&[("0.0.0.0", 80)]), "unclear", "another listener may be ahead of it");
    assert_eq!(answer(rule().expr(Expr::Rt { key: 0, dreg: REG1 }).is(&[0; 4])), "unclear");
    assert_eq!(answer(rule().expr(Expr::Osf { dreg: REG1 }).is(b"Linux")), "for some");
    assert_eq!(answer(rule().expr(Expr::ObjrefMap { set: "m".into(), sreg: REG1 })), "unclear");
}

#[test]
fn a_register_that_was_never_loaded_is_unclear() {
    assert_eq!(answer(rule().is(&[0; 4])), "unclear");
    assert_eq!(answer(rule().expr(Expr::Cmp { op: CmpOp::Eq, sreg: gwready_core::netfilter::expr::Reg(62), data: vec![0; 4] })), "unclear");
}
