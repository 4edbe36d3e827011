//! Any ruleset, nonsense included: an answer always comes, soon, and the same each time.

use gwready_core::facts::steering::NetfilterPath;
use gwready_core::netfilter::expr::{Base, BitwiseOp, CmpOp, Data, Dest, Expr, Nat, Reg, Verdict};
use gwready_core::netfilter::follow::{Connection, Followed, Follower, follow};
use gwready_core::netfilter::ruleset::{BaseChain, Chain, ChainKind, Hook, Policy, Rule, Ruleset, Table, TableFamily};
use gwready_core::netfilter::set::{Element, Set, SetFlags};
use gwready_core::netfilter::xt::{NatRange, XtMatch, XtTarget};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::rules::{from, ip, rule, ruleset, table, to};
use crate::word;

fn reg() -> impl Strategy<Value = Reg> {
    prop_oneof![Just(Reg(0)), Just(Reg(4)), Just(Reg(16)), (0_u8..70).prop_map(Reg)]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![0, 80]), Just(vec![10, 0, 0, 11]), Just(vec![6]), Just(vec![2]), vec(any::<u8>(), 0..20)]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("gone")].prop_map(str::to_owned)
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Accept),
        Just(Verdict::Drop),
        Just(Verdict::Queue),
        Just(Verdict::Continue),
        Just(Verdict::Return),
        name().prop_map(Verdict::Jump),
        name().prop_map(Verdict::Goto),
        any::<i32>().prop_map(Verdict::Other),
    ]
}

fn base() -> impl Strategy<Value = Base> {
    prop_oneof![Just(Base::Link), Just(Base::Network), Just(Base::Transport), Just(Base::Inner)]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..36, Just(64), any::<u32>()]
}

fn loads() -> impl Strategy<Value = Expr> {
    prop_oneof![
        (base(), small(), small(), reg()).prop_map(|(base, offset, len, dreg)| Expr::Payload { base, offset, len, dreg }),
        (base(), small(), small(), reg()).prop_map(|(base, offset, len, sreg)| Expr::PayloadWrite { base, offset, len, sreg }),
        (small(), reg()).prop_map(|(key, dreg)| Expr::Meta { key, dreg }),
        (small(), reg()).prop_map(|(key, sreg)| Expr::MetaSet { key, sreg }),
        (small(), reg(), option::of(any::<bool>())).prop_map(|(key, dreg, reply)| Expr::Ct { key, dreg, reply }),
        (small(), reg()).prop_map(|(key, sreg)| Expr::CtSet { key, sreg }),
        (small(), small(), reg()).prop_map(|(result, flags, dreg)| Expr::Fib { result, flags, dreg }),
        (small(), reg()).prop_map(|(key, dreg)| Expr::Socket { key, level: 0, dreg }),
        (reg(), small(), small(), any::<bool>()).prop_map(|(dreg, modulus, offset, random)| Expr::Numgen { dreg, modulus, offset, random }),
        (reg(), bytes()).prop_map(|(dreg, data)| Expr::Value { dreg, data }),
        (0_u32..4, any::<u8>(), small(), any::<bool>(), option::of(reg())).prop_map(|(op, kind, len, present, dreg)| Expr::Exthdr {
            op,
            kind,
            offset: 0,
            len,
            present,
            dreg
        }),
    ]
}

fn computes() -> impl Strategy<Value = Expr> {
    let op = prop_oneof![
        (bytes(), bytes()).prop_map(|(mask, xor)| BitwiseOp::MaskXor { mask, xor }),
        any::<u32>().prop_map(BitwiseOp::ShiftLeft),
        (0_u32..40).prop_map(BitwiseOp::ShiftRight),
        Just(BitwiseOp::Other),
    ];
    let cmp = prop_oneof![Just(CmpOp::Eq), Just(CmpOp::Neq), Just(CmpOp::Lt), Just(CmpOp::Lte), Just(CmpOp::Gt), Just(CmpOp::Gte)];
    let dest = prop_oneof![Just(Dest::Verdict), reg().prop_map(Dest::Data)];
    prop_oneof![
        (reg(), reg(), small(), op).prop_map(|(sreg, dreg, len, op)| Expr::Bitwise { sreg, dreg, len, op }),
        (reg(), reg(), small(), 0_u32..9).prop_map(|(sreg, dreg, len, size)| Expr::Byteorder { sreg, dreg, len, size }),
        (cmp, reg(), bytes()).prop_map(|(op, sreg, data)| Expr::Cmp { op, sreg, data }),
        (reg(), any::<bool>(), bytes(), bytes()).prop_map(|(sreg, inverted, from, to)| Expr::Range { sreg, inverted, from, to }),
        (name(), reg(), option::of(dest), any::<bool>()).prop_map(|(set, sreg, dest, inverted)| Expr::Lookup { set, sreg, dest, inverted }),
        Just(Expr::Limit { rate: 1, per: 1, burst: 1, bytes: false, over: false }),
        Just(Expr::Quota { bytes: 1, over: false }),
        Just(Expr::Counter),
    ]
}

fn ends() -> impl Strategy<Value = Expr> {
    let range = || {
        (small(), option::of((Just(ip("10.0.0.1")), Just(ip("fd00::1")))), option::of((any::<u16>(), any::<u16>())))
            .prop_map(|(flags, addresses, ports)| NatRange { flags, addresses, ports })
    };
    let nat = (any::<bool>(), prop_oneof![Just(2_u8), Just(10)], option::of(reg()), option::of(reg()), option::of(reg()), small())
        .prop_map(|(destination, family, address_min, address_max, port_min, flags)| {
            Expr::Nat(Nat { destination, family, address_min, address_max, port_min, port_max: port_min, flags })
        });
    prop_oneof![
        4 => verdict().prop_map(Expr::Immediate),
        1 => nat,
        1 => (option::of(reg()), option::of(reg()), small()).prop_map(|(port_min, port_max, flags)| Expr::Redir { port_min, port_max, flags }),
        1 => (0_u8..12, option::of(reg()), option::of(reg())).prop_map(|(family, address, port)| Expr::Tproxy { family, address, port }),
        1 => Just(Expr::Reject { kind: 1, code: 0 }),
        1 => Just(Expr::Unknown { name: "flub".into() }),
        1 => Just(Expr::Match(XtMatch::Unknown { name: "flub".into(), revision: 0 })),
        1 => range().prop_map(|range| Expr::Target(XtTarget::Dnat(range))),
        1 => range().prop_map(|range| Expr::Target(XtTarget::Netmap(range))),
        1 => Just(Expr::Target(XtTarget::Unknown { name: "FLUB".into(), revision: 0 })),
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let expr = prop_oneof![3 => loads(), 3 => computes(), 2 => ends()];
    (any::<u64>(), vec(expr, 0..7)).prop_map(|(handle, exprs)| Rule { handle, exprs, comment: None })
}

fn any_set() -> impl Strategy<Value = Set> {
    let data = prop_oneof![bytes().prop_map(Data::Value), verdict().prop_map(Data::Verdict)];
    let element =
        (bytes(), option::of(bytes()), any::<[bool; 3]>(), option::of(data)).prop_map(|(key, key_end, [end, all, expires], data)| {
            Element { key, key_end, interval_end: end, catch_all: all, expires, conditional: false, data }
        });
    (name(), any::<u32>(), small(), vec(small(), 0..4), vec(element, 0..6)).prop_map(|(name, flags, key_len, field_lens, elements)| Set {
        name,
        flags: SetFlags::from_kernel(flags),
        key_type: 0,
        key_len,
        field_lens,
        elements,
    })
}

fn any_table() -> impl Strategy<Value = Table> {
    let hook = prop_oneof![Just(Hook::Prerouting), Just(Hook::Input), Just(Hook::Ingress), Just(Hook::Other)];
    let kind = prop_oneof![Just(ChainKind::Filter), Just(ChainKind::Nat)];
    let policy = prop_oneof![Just(Policy::Accept), Just(Policy::Drop)];
    let base = (hook, prop_oneof![Just(0), Just(-300), any::<i32>()], kind, policy).prop_map(|(hook, priority, kind, policy)| BaseChain {
        hook,
        priority,
        kind,
        policy,
        devices: vec!["eth*".into()],
    });
    let chain = (name(), option::of(base), vec(any_rule(), 0..5)).prop_map(|(name, base, rules)| Chain { name, handle: 0, base, rules });
    let family = prop_oneof![Just(TableFamily::Ip), Just(TableFamily::Ip6), Just(TableFamily::Inet), Just(TableFamily::Netdev)];
    (family, any::<[bool; 2]>(), vec(chain, 0..5), vec(any_set(), 0..3)).prop_map(|(family, [dormant, legacy], chains, sets)| Table {
        family,
        name: "t".into(),
        dormant,
        legacy,
        chains,
        sets,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_always_comes_and_is_the_same_from_a_file(tables in vec(any_table(), 0..4)) {
        let rules = Ruleset { tables };
        let anywhere = Connection { ingress: Vec::new(), ..to("10.0.0.11:80") };
        let text = serde_json::to_string(&rules).unwrap();
        let again: Ruleset = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&again, &rules);
        for connection in [to("10.0.0.11:80"), to("[fd00::11]:80"), from("203.0.113.7", "10.0.0.11:80"), anywhere] {
            let answer = follow(&rules, &connection);
            prop_assert_eq!(follow(&again, &connection), answer.clone());
            if let NetfilterPath::Unclear { because } = answer {
                prop_assert!(!because.is_empty());
            }
        }
    }

    #[test]
    fn rules_of_chains_that_are_not_met_do_not_matter(tables in vec(any_table(), 0..4)) {
        let rules = Ruleset { tables };
        for connection in [to("10.0.0.11:80"), to("[fd00::11]:80")] {
            let followed = Follower::new(&rules).follow_through(&connection);
            prop_assert_eq!(&read_as_met(&rules, &connection), &followed);
        }
    }
}

/// The rules as a reader gets them that begins with none and reads those of the chains that are met.
fn read_as_met(rules: &Ruleset, connection: &Connection) -> Followed {
    let mut read = rules.clone();
    read.tables.iter_mut().flat_map(|table| &mut table.chains).for_each(|chain| chain.rules.clear());
    let mut known = std::collections::BTreeSet::new();
    loop {
        let followed = Follower::new(&read).follow_through(connection);
        let news: Vec<(usize, usize)> = followed.chains.difference(&known).copied().collect();
        if news.is_empty() {
            return followed;
        }
        for (table, chain) in news {
            read.tables[table].chains[chain].rules.clone_from(&rules.tables[table].chains[chain].rules);
            known.insert((table, chain));
        }
    }
}

#[test]
fn twenty_thousand_rules_are_followed_in_one_go() {
    let rules = (0..20_000).map(|n: u32| rule().daddr(&format!("10.43.{}.{}", n / 256 % 256, n % 256)).dport(80).jump("gone"));
    let big = ruleset([table("ip nat").base("pre", "nat prerouting -100", rules)]);
    assert_eq!(word(&big, &to("10.0.0.11:80")), "passes");
}
