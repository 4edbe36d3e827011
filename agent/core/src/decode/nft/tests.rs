//! Messages as the kernel writes them, to the model; and any bytes, to a value or an error.

use proptest::prelude::*;

use super::testing::{message, name, nest, number};
use super::wire::NftError;
use super::*;
use crate::netfilter::expr::{Base, BitwiseOp, CmpOp, Data, Dest, Expr, Nat, Reg, Verdict};
use crate::netfilter::ruleset::{BaseChain, ChainKind, Hook, Policy, Rule, TableFamily};
use crate::netfilter::set::{Element, SetFlags};
use crate::netfilter::xt::{XtMatch, XtTarget};

type Attributes = Vec<(u16, Vec<u8>)>;

fn long(value: u64) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn value(bytes: &[u8]) -> Vec<u8> {
    nest(&[(1, bytes.to_vec())])
}

fn expression(kind: &str, attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    nest(&[(1, name(kind)), (2, nest(attributes))])
}

/// A rule of these expressions.
fn rule(family: u8, expressions: &[Vec<u8>]) -> Vec<u8> {
    let list: Attributes = expressions.iter().map(|one| (1, one.clone())).collect();
    message(family, &[(1, name("filter")), (2, name("INPUT")), (3, long(7)), (4, nest(&list))])
}

fn decoded(kind: &str, attributes: &[(u16, Vec<u8>)]) -> Expr {
    let placed = decode_rule(&rule(2, &[expression(kind, attributes)])).unwrap().unwrap();
    placed.rule.exprs.into_iter().next().unwrap()
}

#[test]
fn a_rule_has_its_place_its_handle_its_expressions_and_its_comment() {
    let comment = [&[0, 5][..], b"mine\0", &[1, 1, 9]].concat();
    let list = nest(&[(1, expression("counter", &[])), (1, nest(&[(1, name("notrack"))]))]);
    let body = message(1, &[(1, name("t")), (2, name("c")), (3, long(1 << 33)), (4, list), (7, comment)]);
    let rule = Rule { handle: 1 << 33, exprs: vec![Expr::Counter, Expr::Notrack], comment: Some("mine".to_owned()) };
    assert_eq!(decode_rule(&body), Ok(Some(PlacedRule { chain: "c".to_owned(), rule })));
}

#[test]
fn a_comment_may_follow_other_user_data_and_broken_user_data_is_none() {
    let of = |userdata: &[u8]| {
        let body = message(2, &[(1, name("t")), (2, name("c")), (7, userdata.to_vec())]);
        decode_rule(&body).unwrap().unwrap().rule.comment
    };
    assert_eq!(of(b"\x01\x02xx\x00\x03ab\0"), Some("ab".to_owned()));
    assert_eq!(of(b"\x00\x09ab\0"), None);
    assert_eq!(of(b"\x01"), None);
}

#[test]
fn rules_of_families_that_are_not_followed_are_left_out_and_broken_ones_are_errors() {
    assert_eq!(decode_rule(&rule(7, &[])), Ok(None));
    assert_eq!(decode_rule(&message(2, &[(1, name("t"))])), Err(NftError::Missing { what: "rule", attribute: "chain" }));
    let nameless = message(2, &[(2, name("c")), (4, nest(&[(1, nest(&[]))]))]);
    assert_eq!(decode_rule(&nameless), Err(NftError::Missing { what: "expression", attribute: "name" }));
}

#[test]
fn what_is_not_known_keeps_its_name() {
    let unknown = |name: &str| Expr::Unknown { name: name.to_owned() };
    assert_eq!(decoded("teleport", &[(1, number(1))]), unknown("teleport"));
    // A known one without what it always has, or with a number that came later.
    assert_eq!(decoded("cmp", &[(1, number(1))]), unknown("cmp"));
    assert_eq!(decoded("cmp", &[(1, number(1)), (2, number(99)), (3, value(&[0]))]), unknown("cmp"));
    assert_eq!(decoded("meta", &[(1, number(77)), (2, number(3))]), unknown("meta"), "register 77");
    assert_eq!(decoded("lookup", &[(1, name("s")), (2, number(1)), (3, number(99))]), unknown("lookup"));
    assert_eq!(decoded("immediate", &[(1, number(0)), (2, value(&[1]))]), unknown("immediate"), "a value is no verdict");
    assert_eq!(decoded("range", &[(1, number(1)), (2, number(2)), (3, value(&[1])), (4, value(&[2]))]), unknown("range"));
}

#[test]
fn expressions_that_read_the_packet() {
    let (one, second, third) = (Reg(0), Reg(16), Reg(4));
    let payload = |base: u32| decoded("payload", &[(1, number(1)), (2, number(base)), (3, number(16)), (4, number(4))]);
    for (number, base) in [(0, Base::Link), (1, Base::Network), (2, Base::Transport), (3, Base::Inner), (9, Base::Inner)] {
        assert_eq!(payload(number), Expr::Payload { base, offset: 16, len: 4, dreg: one });
    }
    let inner = expression("payload", &[(1, number(1)), (2, number(2)), (3, number(2)), (4, number(2))]);
    let cases: Vec<(&str, Attributes, Expr)> = vec![
        (
            "payload",
            vec![(2, number(2)), (3, number(2)), (4, number(2)), (5, number(2))],
            Expr::PayloadWrite { base: Base::Transport, offset: 2, len: 2, sreg: second },
        ),
        ("inner", vec![(1, number(0)), (5, inner)], Expr::Payload { base: Base::Inner, offset: 2, len: 2, dreg: one }),
        ("meta", vec![(1, number(9)), (2, number(16))], Expr::Meta { key: 16, dreg: third }),
        ("meta", vec![(3, number(1)), (2, number(3))], Expr::MetaSet { key: 3, sreg: one }),
        ("ct", vec![(1, number(1)), (2, number(0))], Expr::Ct { key: 0, dreg: one, reply: None }),
        ("ct", vec![(1, number(1)), (2, number(8)), (3, vec![1])], Expr::Ct { key: 8, dreg: one, reply: Some(true) }),
        ("ct", vec![(4, number(1)), (2, number(3))], Expr::CtSet { key: 3, sreg: one }),
        ("fib", vec![(1, number(1)), (2, number(3)), (3, number(2))], Expr::Fib { result: 3, flags: 2, dreg: one }),
        ("socket", vec![(1, number(0)), (2, number(1))], Expr::Socket { key: 0, level: 0, dreg: one }),
        ("rt", vec![(1, number(1)), (2, number(3))], Expr::Rt { key: 3, dreg: one }),
        (
            "hash",
            vec![(1, number(2)), (2, number(1)), (3, number(4)), (4, number(8)), (5, number(99)), (6, number(3))],
            Expr::Hash { sreg: Some(second), len: 4, dreg: one, modulus: 8, offset: 3 },
        ),
        (
            "numgen",
            vec![(1, number(1)), (2, number(2)), (3, number(1)), (4, number(0))],
            Expr::Numgen { dreg: one, modulus: 2, offset: 0, random: true },
        ),
        (
            "exthdr",
            vec![(1, number(1)), (2, vec![2]), (3, number(1)), (4, number(2)), (5, number(1)), (6, number(1))],
            Expr::Exthdr { op: 1, kind: 2, offset: 1, len: 2, present: true, dreg: Some(one) },
        ),
        ("osf", vec![(1, number(1))], Expr::Osf { dreg: one }),
    ];
    for (name, attributes, expected) in cases {
        assert_eq!(decoded(name, &attributes), expected);
    }
}

#[test]
fn expressions_that_compute_and_compare() {
    let one = Reg(0);
    let bitwise = |more: Attributes| decoded("bitwise", &[vec![(1, number(1)), (2, number(1)), (3, number(4))], more].concat());
    let result = |op| Expr::Bitwise { sreg: one, dreg: one, len: 4, op };
    let mask = BitwiseOp::MaskXor { mask: vec![0, 0, 255, 255], xor: vec![0; 4] };
    assert_eq!(bitwise(vec![(4, value(&[0, 0, 255, 255])), (5, value(&[0; 4]))]), result(mask));
    let shift = || value(&3_u32.to_ne_bytes());
    assert_eq!(bitwise(vec![(6, number(1)), (7, shift())]), result(BitwiseOp::ShiftLeft(3)));
    assert_eq!(bitwise(vec![(6, number(2)), (7, shift())]), result(BitwiseOp::ShiftRight(3)));
    assert_eq!(bitwise(vec![(6, number(4))]), result(BitwiseOp::Other));
    let verdict = |code: i32| nest(&[(2, nest(&[(1, number(code.cast_unsigned())), (2, name("next"))]))]);
    let lookup = |dest, inverted| Expr::Lookup { set: "s".to_owned(), sreg: one, dest, inverted };
    let cases: Vec<(&str, Attributes, Expr)> = vec![
        ("cmp", vec![(1, number(1)), (2, number(1)), (3, value(&[6]))], Expr::Cmp { op: CmpOp::Neq, sreg: one, data: vec![6] }),
        (
            "range",
            vec![(1, number(1)), (2, number(1)), (3, value(&[0, 80])), (4, value(&[0, 90]))],
            Expr::Range { sreg: one, inverted: true, from: vec![0, 80], to: vec![0, 90] },
        ),
        (
            "byteorder",
            vec![(1, number(1)), (2, number(1)), (3, number(1)), (4, number(4)), (5, number(2))],
            Expr::Byteorder { sreg: one, dreg: one, len: 4, size: 2 },
        ),
        ("lookup", vec![(1, name("s")), (2, number(1))], lookup(None, false)),
        ("lookup", vec![(1, name("s")), (2, number(1)), (5, number(1))], lookup(None, true)),
        ("lookup", vec![(1, name("s")), (2, number(1)), (3, number(0))], lookup(Some(Dest::Verdict), false)),
        ("lookup", vec![(1, name("s")), (2, number(1)), (3, number(8))], lookup(Some(Dest::Data(one)), false)),
        ("immediate", vec![(1, number(1)), (2, value(&[31, 144]))], Expr::Value { dreg: one, data: vec![31, 144] }),
        ("immediate", vec![(1, number(0)), (2, verdict(-3))], Expr::Immediate(Verdict::Jump("next".to_owned()))),
        ("immediate", vec![(1, number(0)), (2, verdict(0))], Expr::Immediate(Verdict::Drop)),
    ];
    for (name, attributes, expected) in cases {
        assert_eq!(decoded(name, &attributes), expected);
    }
}

#[test]
fn expressions_that_act() {
    let (one, second) = (Some(Reg(0)), Some(Reg(16)));
    let nat = Nat { destination: true, family: 2, address_min: one, address_max: one, port_min: second, port_max: None, flags: 3 };
    let snat = Nat { destination: false, family: 10, address_min: one, address_max: None, port_min: None, port_max: None, flags: 0 };
    let cases: Vec<(&str, Attributes, Expr)> = vec![
        ("nat", vec![(1, number(1)), (2, number(2)), (3, number(1)), (4, number(1)), (5, number(2)), (7, number(3))], Expr::Nat(nat)),
        ("nat", vec![(1, number(0)), (2, number(10)), (3, number(1))], Expr::Nat(snat)),
        ("redir", vec![(1, number(1)), (3, number(2))], Expr::Redir { port_min: one, port_max: None, flags: 2 }),
        ("redir", vec![], Expr::Redir { port_min: None, port_max: None, flags: 0 }),
        ("tproxy", vec![(1, number(2)), (2, number(1)), (3, number(2))], Expr::Tproxy { family: 2, address: one, port: second }),
        ("masq", vec![], Expr::Masq),
        ("log", vec![(2, name("bad: "))], Expr::Log { prefix: Some("bad: ".to_owned()) }),
        ("log", vec![], Expr::Log { prefix: None }),
        ("reject", vec![(1, number(0)), (2, vec![3])], Expr::Reject { kind: 0, code: 3 }),
        ("reject", vec![(1, number(1))], Expr::Reject { kind: 1, code: 0 }),
        ("queue", vec![(1, vec![0, 5]), (2, vec![0, 1]), (3, vec![0, 1])], Expr::Queue { number: 5, bypass: true }),
        ("synproxy", vec![(1, vec![0, 9])], Expr::Synproxy),
        ("flow_offload", vec![(1, name("f"))], Expr::FlowOffload),
        ("last", vec![], Expr::Last),
    ];
    for (name, attributes, expected) in cases {
        assert_eq!(decoded(name, &attributes), expected);
    }
}

#[test]
fn expressions_with_a_state() {
    let dynset = |more: Attributes| decoded("dynset", &[vec![(1, name("s")), (3, number(0)), (4, number(1))], more].concat());
    let added = |conditional, inverted, delete| Expr::Dynset { set: "s".to_owned(), sreg_key: Reg(0), conditional, inverted, delete };
    let counter = expression("counter", &[]);
    let limit = expression("limit", &[(1, long(5)), (2, long(1))]);
    assert_eq!(dynset(vec![]), added(false, false, false));
    assert_eq!(dynset(vec![(7, counter.clone())]), added(false, false, false));
    assert_eq!(dynset(vec![(7, limit.clone()), (9, number(1))]), added(true, true, false));
    assert_eq!(dynset(vec![(10, nest(&[(1, counter), (1, limit)]))]), added(true, false, false));
    assert_eq!(decoded("dynset", &[(1, name("s")), (3, number(2)), (4, number(1))]), added(false, false, true));
    let cases: Vec<(&str, Attributes, Expr)> = vec![
        (
            "limit",
            vec![(1, long(5)), (2, long(60)), (3, number(7)), (4, number(1)), (5, number(1))],
            Expr::Limit { rate: 5, per: 60, burst: 7, bytes: true, over: true },
        ),
        ("quota", vec![(1, long(1 << 40)), (2, number(1))], Expr::Quota { bytes: 1 << 40, over: true }),
        ("connlimit", vec![(1, number(9))], Expr::Connlimit { count: 9, over: false }),
        ("objref", vec![(1, number(4)), (2, name("slow"))], Expr::Objref { kind: 4, name: "slow".to_owned() }),
        ("objref", vec![(3, number(1)), (4, name("m"))], Expr::ObjrefMap { set: "m".to_owned(), sreg: Reg(0) }),
    ];
    for (name, attributes, expected) in cases {
        assert_eq!(decoded(name, &attributes), expected);
    }
}

#[test]
fn compat_expressions_are_matches_and_targets_of_the_tables_family() {
    let info = [&2_u16.to_ne_bytes()[..], &[0; 6]].concat();
    let socket = expression("match", &[(1, name("socket")), (2, number(1)), (3, info)]);
    let redirect = expression("target", &[(1, name("REDIRECT")), (2, number(0)), (3, vec![0; 48])]);
    let of = |family| decode_rule(&rule(family, &[socket.clone(), redirect.clone()])).unwrap().unwrap().rule.exprs;
    let unknown = || Expr::Target(XtTarget::Unknown { name: "REDIRECT".to_owned(), revision: 0 });
    assert_eq!(of(2), [Expr::Match(XtMatch::Socket { flags: 2 }), unknown()], "a multi-range of no range");
    assert_eq!(of(1)[1], unknown(), "a table of both families");
    assert!(matches!(of(10)[1], Expr::Target(XtTarget::Redirect(_))));
}

#[test]
fn tables_and_chains() {
    let table = decode_table(&message(1, &[(1, name("t")), (2, number(1))])).unwrap().unwrap();
    assert_eq!((table.family, table.name.as_str(), table.dormant, table.legacy), (TableFamily::Inet, "t", true, false));
    assert_eq!(decode_table(&message(3, &[(1, name("arp"))])), Ok(None));
    assert_eq!(decode_table(&message(2, &[])), Err(NftError::Missing { what: "table", attribute: "name" }));

    let hook = |more: Attributes| nest(&[vec![(1, number(0)), (2, number((-100_i32).cast_unsigned()))], more].concat());
    let of = |family, attributes: Attributes| {
        let all = [vec![(1, name("t")), (2, long(3)), (3, name("c"))], attributes].concat();
        decode_chain(&message(family, &all)).unwrap().unwrap().2
    };
    let plain = of(2, vec![]);
    assert_eq!((plain.name.as_str(), plain.handle, plain.base), ("c", 3, None));
    let base = |hook, kind, policy, devices: &[&str]| {
        Some(BaseChain { hook, priority: -100, kind, policy, devices: devices.iter().map(|&one| one.to_owned()).collect() })
    };
    let nat = of(2, vec![(4, hook(vec![])), (5, number(1)), (7, name("nat"))]);
    assert_eq!(nat.base, base(Hook::Prerouting, ChainKind::Nat, Policy::Accept, &[]));
    let drop = of(10, vec![(4, hook(vec![])), (5, number(0)), (7, name("filter"))]);
    assert_eq!(drop.base, base(Hook::Prerouting, ChainKind::Filter, Policy::Drop, &[]));
    let one = of(5, vec![(4, hook(vec![(3, name("eth0"))]))]);
    assert_eq!(one.base, base(Hook::Ingress, ChainKind::Filter, Policy::Accept, &["eth0"]));
    let two = of(5, vec![(4, hook(vec![(4, nest(&[(1, name("eth0")), (1, name("eth1"))]))]))]);
    assert_eq!(two.base, base(Hook::Ingress, ChainKind::Filter, Policy::Accept, &["eth0", "eth1"]));
    assert!(decode_chain(&message(2, &[(1, name("t")), (3, name("c")), (4, nest(&[]))])).is_err(), "a hook without its number");
}

#[test]
fn sets_and_their_elements() {
    let concat = nest(&[(1, nest(&[(1, number(4))])), (1, nest(&[(1, number(2))]))]);
    let attributes =
        [(1, name("t")), (2, name("s")), (3, number(0x8c)), (4, number(0x1c3)), (5, number(8)), (9, nest(&[(1, number(9)), (2, concat)]))];
    let (family, table, set) = decode_set(&message(2, &attributes)).unwrap().unwrap();
    assert_eq!((family, table.as_str(), set.name.as_str(), set.key_len), (TableFamily::Ip, "t", "s", 8));
    assert_eq!(set.flags, SetFlags { concat: true, map: true, interval: true, ..SetFlags::default() });
    assert_eq!(set.field_lens, [4, 2]);
    let counted = decode_set(&message(2, &[(1, name("t")), (2, name("s")), (5, number(4)), (17, nest(&[]))])).unwrap().unwrap().2;
    assert!(counted.flags.expressions);

    let verdict = nest(&[(2, nest(&[(1, number(0))]))]);
    let list = nest(&[
        (1, nest(&[(1, value(&[0, 80])), (2, verdict)])),
        (1, nest(&[(1, value(&[0, 90])), (3, number(1))])),
        (1, nest(&[(3, number(2)), (2, value(&[1]))])),
        (1, nest(&[(1, value(&[1])), (10, value(&[9])), (4, long(5)), (7, expression("counter", &[]))])),
        (1, nest(&[(1, value(&[2])), (11, nest(&[(1, expression("limit", &[]))]))])),
    ]);
    let elements = decode_elements(&message(2, &[(1, name("t")), (2, name("s")), (3, list)])).unwrap();
    let of = |key: &[u8]| Element { key: key.to_vec(), ..Element::default() };
    assert_eq!(
        elements,
        [
            Element { data: Some(Data::Verdict(Verdict::Drop)), ..of(&[0, 80]) },
            Element { interval_end: true, ..of(&[0, 90]) },
            Element { catch_all: true, data: Some(Data::Value(vec![1])), ..of(&[]) },
            Element { key_end: Some(vec![9]), expires: true, ..of(&[1]) },
            Element { conditional: true, ..of(&[2]) },
        ]
    );
    let keyless = message(2, &[(3, nest(&[(1, nest(&[]))]))]);
    assert_eq!(decode_elements(&keyless), Err(NftError::Missing { what: "element of a set", attribute: "key" }));
}

#[test]
fn the_sets_of_a_rule_are_those_it_looks_something_up_in() {
    let lookup = expression("lookup", &[(1, name("a")), (2, number(1))]);
    let object = expression("objref", &[(3, number(1)), (4, name("b"))]);
    let dynset = expression("dynset", &[(1, name("c")), (3, number(0)), (4, number(1))]);
    let placed = decode_rule(&rule(2, &[lookup, object, dynset])).unwrap().unwrap();
    assert_eq!(sets_of(&placed.rule).collect::<Vec<_>>(), ["a", "b"]);
}

/// A message with something of everything.
fn sample() -> Vec<u8> {
    let expressions = [
        expression("meta", &[(1, number(1)), (2, number(16))]),
        expression("cmp", &[(1, number(1)), (2, number(0)), (3, value(&[6]))]),
        expression("lookup", &[(1, name("s")), (2, number(1)), (3, number(0))]),
        expression("target", &[(1, name("DNAT")), (2, number(2)), (3, vec![1; 48])]),
        expression("immediate", &[(1, number(0)), (2, nest(&[(2, nest(&[(1, number(0xffff_fffd)), (2, name("x"))]))]))]),
    ];
    rule(2, &expressions)
}

/// Every decoder, on one body.
fn decode_as_everything(body: &[u8]) {
    let _ = (decode_rule(body), decode_table(body), decode_chain(body), decode_set(body), decode_elements(body));
}

#[test]
fn a_message_that_is_cut_anywhere_is_an_error_or_less_never_a_panic() {
    let body = sample();
    for length in 0..body.len() {
        decode_as_everything(&body[..length]);
    }
    assert_eq!(decode_rule(&body).unwrap().unwrap().rule.exprs.len(), 5);
}

proptest! {
    #[test]
    fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        decode_as_everything(&bytes);
    }

    #[test]
    fn a_changed_message_gives_a_value_or_an_error(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut body = sample();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        decode_as_everything(&body);
    }
}
