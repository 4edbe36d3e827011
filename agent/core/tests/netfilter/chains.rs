//! Chains: jumps and returns, policies, hooks and priorities, what one chain's verdict means to the next.

use gwready_core::netfilter::expr::{Expr, Verdict};
use gwready_core::netfilter::keys::state;

use crate::rules::{R, from, input, nat, rule, ruleset, table, to};
use crate::{told, word};

const WEB: &str = "10.0.0.11:80";

#[test]
fn accept_ends_its_chain_and_drop_ends_the_packet() {
    let chains = |first: R, second: R| {
        ruleset([table("inet a").base("early", "filter input -10", [first]), table("inet b").base("late", "filter input 10", [second])])
    };
    assert_eq!(word(&chains(rule().accept(), rule().dport(80).drop()), &to(WEB)), "dropped", "the later chain still sees it");
    assert_eq!(told(&chains(rule().dport(80).drop(), rule().accept()), &to(WEB)), "dropped: tcp dport 80 drop");
    assert_eq!(word(&chains(rule().accept(), rule().accept()), &to(WEB)), "passes");
}

#[test]
fn jump_comes_back_and_goto_does_not() {
    let with = |into: R, inner: R, after: R| ruleset([table("inet t").chain("inner", [inner]).base("in", "filter input 0", [into, after])]);
    assert_eq!(word(&with(rule().jump("inner"), rule().dport(81).drop(), rule().drop()), &to(WEB)), "dropped");
    assert_eq!(word(&with(rule().goto("inner"), rule().dport(81).drop(), rule().drop()), &to(WEB)), "passes", "to the policy");
    assert_eq!(word(&with(rule().jump("inner"), rule().ret(), rule().drop()), &to(WEB)), "dropped");
    assert_eq!(word(&with(rule().jump("inner"), rule().accept(), rule().drop()), &to(WEB)), "passes");
    assert_eq!(word(&with(rule().dport(81).jump("inner"), rule().drop(), rule()), &to(WEB)), "passes", "not for this port");
}

#[test]
fn a_goto_returns_to_the_caller_of_the_chain_it_left() {
    let rules = ruleset([table("inet t").chain("leaf", [rule()]).chain("middle", [rule().goto("leaf"), rule().drop()]).base(
        "in",
        "filter input 0",
        [rule().jump("middle"), rule().dport(80).reject()],
    )]);
    assert_eq!(told(&rules, &to(WEB)), "dropped: tcp dport 80 reject with tcp reset");
}

#[test]
fn return_in_a_base_chain_means_its_policy() {
    assert_eq!(word(&input("accept", [rule().ret(), rule().drop()]), &to(WEB)), "passes");
    assert_eq!(told(&input("drop", [rule().ret(), rule().accept()]), &to(WEB)), "dropped: policy drop");
    assert_eq!(word(&input("accept", [rule().verdict(Verdict::Continue), rule().drop()]), &to(WEB)), "dropped");
}

#[test]
fn a_program_that_decides_is_unclear() {
    let queue = |bypass| rule().dport(80).expr(Expr::Queue { number: 3, bypass });
    assert_eq!(word(&input("accept", [queue(false)]), &to(WEB)), "unclear");
    assert_eq!(word(&input("accept", [queue(true)]), &to(WEB)), "unclear");
    assert_eq!(word(&input("accept", [rule().verdict(Verdict::Queue)]), &to(WEB)), "unclear");
    assert_eq!(word(&input("accept", [rule().expr(Expr::Synproxy)]), &to(WEB)), "unclear");
}

#[test]
fn chains_run_in_the_order_of_their_priorities_whatever_the_dump_says() {
    // Marked at -300, dropped by the mark at -150; the dump has them the other way round.
    let rules = ruleset([
        table("ip mangle").base("PREROUTING", "filter prerouting -150", [rule().mark(7, 0xff).drop()]),
        table("ip raw").base("PREROUTING", "filter prerouting -300", [rule().dport(80).set_mark(7)]),
    ]);
    assert_eq!(word(&rules, &to(WEB)), "dropped");
    assert_eq!(word(&rules, &to("10.0.0.11:81")), "passes");
}

#[test]
fn legacy_and_nft_chains_are_one_row() {
    let rules = ruleset([
        table("ip filter").legacy().base("INPUT", "filter input 0 accept", [rule().mark(7, 0xff).drop()]),
        table("inet t").base("early", "filter input -1", [rule().set_mark(7)]),
    ]);
    assert_eq!(word(&rules, &to(WEB)), "dropped");
}

#[test]
fn where_the_order_cannot_be_told_and_matters_the_answer_is_unclear() {
    let rules = |second: R| {
        ruleset([
            table("inet a").base("one", "filter input 0", [rule().set_mark(7)]),
            table("inet b").base("two", "filter input 0", [second]),
        ])
    };
    assert_eq!(
        told(&rules(rule().mark(7, 0xff).drop()), &to(WEB)),
        "unclear, which of the chains with one priority comes first can't be told: policy accept"
    );
    assert_eq!(word(&rules(rule().dport(80).drop()), &to(WEB)), "dropped", "it does not matter");
    assert_eq!(word(&rules(rule().dport(81).drop()), &to(WEB)), "passes");
}

#[test]
fn hooks_that_are_not_on_the_way_in_do_nothing() {
    let rules = ruleset([
        table("inet t").base("fwd", "filter forward 0 drop", []).base("out", "filter output 0 drop", []),
        table("inet asleep").dormant().base("in", "filter input 0 drop", []),
        table("ip6 other").base("in", "filter input 0 drop", []),
    ]);
    assert_eq!(word(&rules, &to(WEB)), "passes");
    assert_eq!(word(&rules, &to("[fd00::11]:80")), "dropped");
}

#[test]
fn ingress_of_the_clients_device_comes_first() {
    let rules =
        |device: &str| ruleset([table("netdev t").base("in", &format!("filter ingress 0 accept {device}"), [rule().dport(80).drop()])]);
    assert_eq!(word(&rules("eth0"), &to(WEB)), "dropped");
    assert_eq!(word(&rules("eth1"), &to(WEB)), "passes");
    assert_eq!(word(&rules("eth*"), &to(WEB)), "dropped");
    let anywhere = gwready_core::netfilter::follow::Connection { ingress: Vec::new(), ..to(WEB) };
    assert_eq!(word(&rules("eth0"), &anywhere), "some");
}

#[test]
fn what_was_changed_before_a_failed_match_stays_changed() {
    let rules = [rule().set_mark(7).dport(81).accept(), rule().mark(7, 0xff).drop()];
    assert_eq!(word(&input("accept", rules), &to(WEB)), "dropped");
}

#[test]
fn two_ways_to_one_chain_are_followed_once_each() {
    // A diamond of sixteen storeys: 65,536 ways, two states.
    let mut made = table("inet t").chain("c16", [rule().mark(1, 1).drop()]);
    for storey in (0..16).rev() {
        let next = format!("c{}", storey + 1);
        let rules = [rule().saddr("10.0.0.0/8").jump(&next), rule().or_mark(1).jump(&next)];
        made = made.chain(&format!("c{storey}"), rules);
    }
    let rules = ruleset([made.base("in", "filter input 0", [rule().jump("c4")])]);
    assert_eq!(word(&rules, &to(WEB)), "dropped");
}

#[test]
fn loops_and_missing_chains_are_unclear_and_end() {
    let looping = ruleset([table("inet t")
        .chain("a", [rule().jump("b"), rule().jump("b")])
        .chain("b", [rule().jump("a"), rule().jump("a")])
        .base("in", "filter input 0", [rule().jump("a")])]);
    assert!(told(&looping, &to(WEB)).starts_with("unclear, too many ways"));
    assert_eq!(word(&input("accept", [rule().jump("nowhere")]), &to(WEB)), "unclear");
    assert_eq!(word(&input("accept", [rule().dport(81).jump("nowhere")]), &to(WEB)), "passes");
}

#[test]
fn more_states_than_are_followed_are_unclear() {
    // Each rule may set one more bit: 2^20 marks.
    let bits = (0..20).map(|bit| rule().saddr(&format!("10.{bit}.0.0/16")).or_mark(1 << bit));
    assert_eq!(word(&input("accept", bits), &to(WEB)), "unclear");
}

#[test]
fn new_is_the_state_of_a_new_connection() {
    assert_eq!(word(&input("accept", [rule().ct_state(state::INVALID).drop()]), &to(WEB)), "passes");
    assert_eq!(word(&input("drop", [rule().ct_state(2 | 4).accept()]), &to(WEB)), "dropped");
    assert_eq!(word(&input("drop", [rule().ct_state(state::NEW).dport(80).accept()]), &to(WEB)), "passes");
}

#[test]
fn before_connection_tracking_a_packet_has_no_state_and_notrack_keeps_it_so() {
    let early = |rule: R| ruleset([table("ip raw").base("PREROUTING", "filter prerouting -300", [rule])]);
    assert_eq!(word(&early(rule().ct_state(state::NEW).drop()), &to(WEB)), "passes");
    assert_eq!(word(&early(rule().ct_state(state::INVALID).drop()), &to(WEB)), "dropped");
    let notrack = |priority: i32| {
        ruleset([
            table("ip raw").base("PREROUTING", &format!("filter prerouting {priority}"), [rule().dport(80).expr(Expr::Notrack)]),
            table("ip nat").base("PREROUTING", "nat prerouting -100", [rule().dport(80).redirect(Some(8080))]),
            table("inet f").base("in", "filter input 0", [rule().ct_state(state::UNTRACKED).drop()]),
        ])
    };
    assert_eq!(word(&notrack(-300), &to(WEB)), "dropped", "untracked: nat does not see it");
    assert_eq!(word(&notrack(-150), &to(WEB)), "redirected", "too late to be untracked");
    assert_eq!(word(&nat([rule().dport(80).redirect(Some(8080))]), &from("203.0.113.7", WEB)), "redirected");
}

#[test]
fn rate_limits_and_counters_are_told_apart() {
    let counted = rule().dport(80).expr(Expr::Counter).expr(Expr::Log { prefix: None }).expr(Expr::Last).drop();
    assert_eq!(word(&input("accept", [counted]), &to(WEB)), "dropped");
    let connlimit = rule().expr(Expr::Connlimit { count: 100, over: true }).drop();
    assert_eq!(word(&input("accept", [connlimit]), &to(WEB)), "some");
    let object = |kind| rule().dport(80).expr(Expr::Objref { kind, name: "o".into() }).drop();
    assert_eq!(word(&input("accept", [object(1)]), &to(WEB)), "dropped", "a counter");
    assert_eq!(word(&input("accept", [object(2)]), &to(WEB)), "unclear", "a quota");
    assert_eq!(word(&input("accept", [object(4)]), &to(WEB)), "some", "a limit");
    let meter =
        rule().expr(Expr::Dynset { set: "m".into(), sreg_key: crate::rules::REG1, conditional: true, inverted: false, delete: false });
    assert_eq!(word(&input("accept", [meter.drop()]), &to(WEB)), "some");
}

#[test]
fn an_unknown_expression_may_do_anything() {
    let unknown = |name: &str| rule().dport(80).expr(Expr::Unknown { name: name.into() });
    assert_eq!(word(&input("accept", [unknown("flub")]), &to(WEB)), "unclear");
    assert_eq!(word(&input("accept", [unknown("flub")]), &to("10.0.0.11:443")), "passes");
    assert_eq!(word(&input("accept", [unknown("dup")]), &to(WEB)), "passes", "a copy goes elsewhere");
    assert_eq!(word(&input("accept", [unknown("fwd")]), &to(WEB)), "dropped", "the packet itself goes elsewhere");
}
