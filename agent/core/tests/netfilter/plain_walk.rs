//! Where nothing is in doubt the follower agrees with a plain walk of one packet, and its answer for any client with those of all.

use gwready_core::facts::steering::NetfilterPath;
use gwready_core::netfilter::follow::Follower;
use gwready_core::netfilter::ruleset::Ruleset;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::rules::{R, from, rule, ruleset, table, to};
use crate::word;

/// Rules of which nothing is in doubt for one client; what each does is told twice: by the follower, and by [`Plain`].
#[derive(Debug, Clone)]
enum Plain {
    Port(u16, End),
    Source(u8, End),
    Mark(u8),
    OnMark(u8, End),
}

#[derive(Debug, Clone, Copy)]
enum End {
    Accept,
    Drop,
    Return,
    Jump,
    Goto,
    Redirect(u16),
}

impl Plain {
    fn rule(&self, nat: bool, inner: &str) -> R {
        let ended = |rule: R, end: End| match end {
            End::Accept => rule.accept(),
            End::Drop => rule.drop(),
            End::Return => rule.ret(),
            End::Jump => rule.jump(inner),
            End::Goto => rule.goto(inner),
            End::Redirect(port) if nat => rule.redirect(Some(port)),
            End::Redirect(_) => rule.drop(),
        };
        match self {
            Self::Port(port, end) => ended(rule().dport(*port), *end),
            Self::Source(net, end) => ended(rule().saddr(&format!("10.{net}.0.0/16")), *end),
            Self::Mark(mark) => rule().set_mark(u32::from(*mark)),
            Self::OnMark(mark, end) => ended(rule().mark(u32::from(*mark), 0xff), *end),
        }
    }
}

/// The plain walk: one packet, nothing unknown.
struct Packet {
    port: u16,
    net: u8,
    mark: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Through,
    Accepted,
    Dropped,
    Translated,
}

fn plain_chain(packet: &mut Packet, nat: bool, rules: &[Plain], inner: &[Plain]) -> Fate {
    for plain in rules {
        let (matches, end) = match plain {
            Plain::Port(port, end) => (packet.port == *port, *end),
            Plain::Source(net, end) => (packet.net == *net, *end),
            Plain::OnMark(mark, end) => (packet.mark == *mark, *end),
            Plain::Mark(mark) => {
                packet.mark = *mark;
                continue;
            }
        };
        if !matches {
            continue;
        }
        let fate = match end {
            End::Accept => return Fate::Accepted,
            End::Drop => return Fate::Dropped,
            End::Return => return Fate::Through,
            End::Redirect(_) if !nat => return Fate::Dropped,
            End::Redirect(port) => {
                let same = packet.port == port;
                packet.port = port;
                return if same { Fate::Accepted } else { Fate::Translated };
            }
            End::Jump | End::Goto => plain_chain(packet, nat, inner, &[]),
        };
        if fate != Fate::Through || matches!(end, End::Goto) {
            return fate;
        }
    }
    Fate::Through
}

fn plain_word(mut packet: Packet, nat: [&[Plain]; 2], input: [&[Plain]; 2], drops: bool) -> &'static str {
    let mut translated = false;
    match plain_chain(&mut packet, true, nat[0], nat[1]) {
        Fate::Dropped => return "dropped",
        Fate::Translated => translated = true,
        Fate::Through | Fate::Accepted => {}
    }
    match plain_chain(&mut packet, false, input[0], input[1]) {
        Fate::Dropped => "dropped",
        Fate::Through if drops => "dropped",
        _ if translated => "redirected",
        _ => "passes",
    }
}

fn plain(depth: bool) -> impl Strategy<Value = Vec<Plain>> {
    let port = || prop_oneof![Just(80_u16), Just(81)];
    let flat = prop_oneof![Just(End::Accept), Just(End::Drop), Just(End::Return), port().prop_map(End::Redirect)];
    let end = if depth { prop_oneof![2 => flat, 1 => Just(End::Jump), 1 => Just(End::Goto)].boxed() } else { flat.boxed() };
    let one = prop_oneof![
        (port(), end.clone()).prop_map(|(port, end)| Plain::Port(port, end)),
        (0_u8..3, end.clone()).prop_map(|(net, end)| Plain::Source(net, end)),
        (0_u8..3).prop_map(Plain::Mark),
        (0_u8..3, end).prop_map(|(mark, end)| Plain::OnMark(mark, end)),
    ];
    vec(one, 0..6)
}

fn built(nat: [&[Plain]; 2], input: [&[Plain]; 2], drops: bool) -> Ruleset {
    let rules = |of: &[Plain], nat: bool| of.iter().map(|plain| plain.rule(nat, "inner")).collect::<Vec<R>>();
    let policy = if drops { "drop" } else { "accept" };
    ruleset([
        table("ip nat").chain("inner", rules(nat[1], true)).base("pre", "nat prerouting -100", rules(nat[0], true)),
        table("inet f").chain("inner", rules(input[1], false)).base("in", &format!("filter input 0 {policy}"), rules(input[0], false)),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn where_nothing_is_in_doubt_it_agrees_with_a_plain_walk(
        nat in plain(true), nat_inner in plain(false), input in plain(true), input_inner in plain(false), drops: bool, port in 79_u16..83,
    ) {
        let rules = built([&nat, &nat_inner], [&input, &input_inner], drops);
        let follower = Follower::new(&rules);
        let mut each = Vec::new();
        for net in 0..4_u8 {
            let connection = from(&format!("10.{net}.0.1"), &format!("10.0.0.11:{port}"));
            let expected = plain_word(Packet { port, net, mark: 0 }, [&nat, &nat_inner], [&input, &input_inner], drops);
            prop_assert_eq!(word(&rules, &connection), expected, "client in 10.{}", net);
            each.push(expected);
        }
        // For any client: nobody is said to be dropped who passes, and nobody to pass who is always taken.
        let any = follower.follow(&to(&format!("10.0.0.11:{port}")));
        let some_pass = each.contains(&"passes");
        match any {
            NetfilterPath::Passes => prop_assert!(each.iter().all(|word| *word == "passes")),
            NetfilterPath::Dropped { .. } => prop_assert!(each.iter().all(|word| *word == "dropped")),
            NetfilterPath::Redirected { .. } => prop_assert!(!some_pass),
            NetfilterPath::PassesForSome { .. } => {}
            NetfilterPath::Unclear { because } => prop_assert!(false, "{}", because),
        }
    }
}
