//! Sets and maps: exact, intervals, concatenations, verdicts; keys of which only a part is known.

use gwready_core::netfilter::expr::{Base, Data, Expr, Reg, Verdict};
use gwready_core::netfilter::keys::meta;
use gwready_core::netfilter::set::{Element, Set, SetFlags};

use crate::rules::{R, REG1, element, from, interval_end, mapped, rule, ruleset, set, table, to};
use crate::{told, word};

const WEB: &str = "10.0.0.11:80";

fn with_set(set: Set, rules: impl IntoIterator<Item = R>) -> gwready_core::netfilter::ruleset::Ruleset {
    let jumped = |name: &str| (name.to_owned(), [rule().dport(80).drop()]);
    let (name, drops) = jumped("dropping");
    ruleset([table("ip t").set(set).chain(&name, drops).base("in", "filter input 0", rules)])
}

fn intervals(name: &str, key_len: u32, elements: Vec<Element>) -> Set {
    Set { flags: SetFlags { interval: true, ..SetFlags::default() }, ..set(name, key_len, elements) }
}

fn dport(set: &str) -> R {
    rule().l4(6).payload(Base::Transport, 2, 2).lookup(set).drop()
}

fn port(number: u16) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[test]
fn an_exact_set_has_it_or_not() {
    let ports = || set("ports", 2, vec![element(&port(80)), element(&port(443))]);
    assert_eq!(told(&with_set(ports(), [dport("ports")]), &to(WEB)), "dropped: tcp dport @ports drop");
    assert_eq!(word(&with_set(ports(), [dport("ports")]), &to("10.0.0.11:81")), "passes");
    let not_in = rule().l4(6).payload(Base::Transport, 2, 2);
    let not_in = not_in.expr(Expr::Lookup { set: "ports".into(), sreg: REG1, dest: None, inverted: true }).drop();
    assert_eq!(word(&with_set(ports(), [not_in.clone()]), &to(WEB)), "passes");
    assert_eq!(word(&with_set(ports(), [not_in]), &to("10.0.0.11:81")), "dropped");
}

#[test]
fn an_interval_begins_at_its_key_and_ends_before_its_end_in_any_order_of_the_dump() {
    let ports = || {
        let mut elements =
            vec![element(&port(80)), interval_end(&port(91)), element(&port(443)), interval_end(&port(444)), interval_end(&port(0))];
        elements.reverse();
        intervals("ports", 2, elements)
    };
    for (number, expected) in [(79, "passes"), (80, "dropped"), (90, "dropped"), (91, "passes"), (443, "dropped"), (444, "passes")] {
        assert_eq!(word(&with_set(ports(), [dport("ports")]), &to(&format!("10.0.0.11:{number}"))), expected, "{number}");
    }
}

#[test]
fn neighbouring_intervals_share_a_border_and_the_last_may_have_no_end() {
    let elements = vec![
        Element { data: Some(Data::Verdict(Verdict::Accept)), ..element(&port(0)) },
        interval_end(&port(80)),
        Element { data: Some(Data::Verdict(Verdict::Drop)), ..element(&port(80)) },
    ];
    let by_port = || rule().l4(6).payload(Base::Transport, 2, 2).vmap("v");
    for (number, expected) in [(79, "passes"), (80, "dropped"), (65_535, "dropped")] {
        let rules = with_set(intervals("v", 2, elements.clone()), [by_port(), rule().reject()]);
        let connection = to(&format!("10.0.0.11:{number}"));
        assert_eq!(word(&rules, &connection), expected, "{number}");
    }
}

#[test]
fn a_clients_address_may_be_in_the_set() {
    let banned = intervals("banned", 4, vec![element(&[198, 51, 100, 0]), interval_end(&[198, 51, 101, 0])]);
    let rules = with_set(banned, [rule().saddr_in("banned").drop()]);
    assert_eq!(told(&rules, &to(WEB)), "for some, others are dropped: ip saddr @banned drop");
    assert_eq!(word(&rules, &from("198.51.100.255", WEB)), "dropped");
    assert_eq!(word(&rules, &from("198.51.101.0", WEB)), "passes");
    let nobody = with_set(intervals("banned", 4, vec![]), [rule().saddr_in("banned").drop()]);
    assert_eq!(word(&nobody, &to(WEB)), "passes");
    let everybody = with_set(intervals("banned", 4, vec![element(&[0, 0, 0, 0])]), [rule().saddr_in("banned").drop()]);
    assert_eq!(word(&everybody, &to(WEB)), "dropped");
}

/// `ip saddr . ip daddr . tcp dport`, each in its own registers.
fn concatenated(rule: R, set: &str) -> R {
    let load = |rule: R, base, offset, len, at| rule.expr(Expr::Payload { base, offset, len, dreg: Reg(at) });
    let loaded = load(load(rule.l4(6), Base::Network, 12, 4, 0), Base::Network, 16, 4, 4);
    load(loaded, Base::Transport, 2, 2, 8).lookup(set)
}

fn fields(name: &str, elements: Vec<Element>) -> Set {
    let flags = SetFlags { interval: true, concat: true, ..SetFlags::default() };
    Set { flags, field_lens: vec![4, 4, 2], ..set(name, 12, elements) }
}

fn triple(source: [u8; 4], target: [u8; 4], port: u16) -> Vec<u8> {
    [&source[..], &target[..], &port.to_be_bytes(), &[0, 0]].concat()
}

#[test]
fn a_concatenation_with_ranges_is_asked_field_by_field() {
    let ranged = |sources: ([u8; 4], [u8; 4]), ports: (u16, u16)| {
        let node = [10, 0, 0, 11];
        let first = triple(sources.0, node, ports.0);
        let last = triple(sources.1, node, ports.1);
        let set = fields("c", vec![Element { key_end: Some(last), ..element(&first) }]);
        with_set(set, [concatenated(rule(), "c").drop()])
    };
    let all = ([0, 0, 0, 0], [255, 255, 255, 255]);
    assert_eq!(word(&ranged(all, (80, 90)), &to(WEB)), "dropped");
    assert_eq!(word(&ranged(all, (81, 90)), &to(WEB)), "passes");
    assert_eq!(word(&ranged(([10, 0, 0, 0], [10, 255, 255, 255]), (80, 90)), &to(WEB)), "some");
    assert_eq!(word(&ranged(([10, 0, 0, 0], [10, 255, 255, 255]), (80, 90)), &from("10.9.9.9", WEB)), "dropped");
    assert_eq!(word(&ranged(([10, 0, 0, 0], [10, 255, 255, 255]), (80, 90)), &from("11.9.9.9", WEB)), "passes");
}

#[test]
fn single_elements_among_ranges_need_no_end() {
    let of =
        |port| with_set(fields("c", vec![element(&triple([198, 51, 100, 7], [10, 0, 0, 11], port))]), [concatenated(rule(), "c").drop()]);
    assert_eq!(word(&of(80), &from("198.51.100.7", WEB)), "dropped");
    assert_eq!(word(&of(80), &from("198.51.100.8", WEB)), "passes");
    assert_eq!(word(&of(81), &from("198.51.100.9", WEB)), "passes");
}

#[test]
fn a_concatenation_whose_fields_are_not_known_is_unclear() {
    let node = [10, 0, 0, 11];
    let element = Element { key_end: Some(triple([255; 4], node, 90)), ..element(&triple([0; 4], node, 80)) };
    let set = Set { field_lens: Vec::new(), ..fields("c", vec![element]) };
    assert_eq!(word(&with_set(set, [concatenated(rule(), "c").drop()]), &to(WEB)), "unclear");
}

#[test]
fn an_exact_concatenation_is_one_key() {
    let set = set("c", 12, vec![element(&triple([198, 51, 100, 7], [10, 0, 0, 11], 80))]);
    let rules = with_set(set, [concatenated(rule(), "c").drop()]);
    assert_eq!(word(&rules, &from("198.51.100.7", WEB)), "dropped");
    assert_eq!(word(&rules, &to(WEB)), "some");
    assert_eq!(word(&rules, &to("10.0.0.11:81")), "passes");
}

#[test]
fn a_verdict_map_jumps() {
    let verdicts = || {
        let jump = |key: u16, chain: &str| mapped(&port(key), Data::Verdict(Verdict::Jump(chain.into())));
        set("v", 2, vec![jump(80, "dropping"), mapped(&port(443), Data::Verdict(Verdict::Accept))])
    };
    let by_port = || rule().l4(6).payload(Base::Transport, 2, 2).vmap("v");
    assert_eq!(word(&with_set(verdicts(), [by_port()]), &to(WEB)), "dropped");
    assert_eq!(word(&with_set(verdicts(), [by_port(), rule().drop()]), &to("10.0.0.11:443")), "passes");
    assert_eq!(word(&with_set(verdicts(), [by_port(), rule().drop()]), &to("10.0.0.11:22")), "dropped", "no element, the rule ends");
}

#[test]
fn a_verdict_map_by_client_gives_each_client_its_verdict() {
    let verdicts = |other: Verdict| {
        let catch_all = Element { catch_all: true, data: Some(Data::Verdict(other)), ..Element::default() };
        set("v", 4, vec![mapped(&[10, 0, 0, 1], Data::Verdict(Verdict::Drop)), catch_all])
    };
    let by_client = || [rule().payload(Base::Network, 12, 4).vmap("v")];
    assert_eq!(word(&with_set(verdicts(Verdict::Accept), by_client()), &to(WEB)), "some");
    assert_eq!(word(&with_set(verdicts(Verdict::Drop), by_client()), &to(WEB)), "dropped", "all elements drop, and so does the rest");
    assert_eq!(word(&with_set(verdicts(Verdict::Accept), by_client()), &from("10.0.0.1", WEB)), "dropped");
    assert_eq!(word(&with_set(verdicts(Verdict::Drop), by_client()), &from("10.0.0.2", WEB)), "dropped");
}

#[test]
fn what_packets_fill_proves_nothing() {
    let dynamic = Set { flags: SetFlags { dynamic: true, ..SetFlags::default() }, ..set("d", 2, vec![]) };
    assert_eq!(word(&with_set(dynamic, [dport("d")]), &to(WEB)), "unclear");
    let seen = Set { flags: SetFlags { dynamic: true, timeout: true, ..SetFlags::default() }, ..set("d", 4, vec![]) };
    assert_eq!(word(&with_set(seen, [rule().saddr_in("d").drop()]), &to(WEB)), "some", "it is about clients");
    let expiring = Element { expires: true, ..element(&port(80)) };
    assert_eq!(word(&with_set(set("e", 2, vec![expiring]), [dport("e")]), &to(WEB)), "unclear");
    let limited = Element { conditional: true, ..element(&port(80)) };
    assert_eq!(word(&with_set(set("e", 2, vec![limited]), [dport("e")]), &to(WEB)), "some");
}

#[test]
fn a_set_that_is_missing_or_longer_than_the_registers_is_unclear() {
    assert_eq!(word(&with_set(set("s", 80, vec![]), [dport("s")]), &to(WEB)), "unclear");
    assert_eq!(word(&with_set(set("s", 2, vec![]), [dport("other")]), &to(WEB)), "unclear");
}

#[test]
fn interfaces_stand_in_sets_too() {
    let names = |name: &str| {
        let key: Vec<u8> = name.bytes().chain(std::iter::repeat(0)).take(16).collect();
        with_set(set("i", 16, vec![element(&key)]), [rule().meta(meta::IIFNAME).lookup("i").drop()])
    };
    assert_eq!(word(&names("eth0"), &to(WEB)), "dropped");
    assert_eq!(word(&names("lo"), &to(WEB)), "passes");
    let anywhere = gwready_core::netfilter::follow::Connection { ingress: Vec::new(), ..to(WEB) };
    assert_eq!(word(&names("eth0"), &anywhere), "some");
    assert_eq!(word(&names("lo"), &anywhere), "passes", "a client never comes in there");
}

#[test]
fn a_bounded_number_is_asked_for_each_of_its_values() {
    let verdicts = |values: std::ops::Range<u32>| {
        let elements = values.map(|value| mapped(&value.to_ne_bytes(), Data::Verdict(Verdict::Drop)));
        set("v", 4, elements.collect())
    };
    let numbered = |offset| rule().expr(Expr::Numgen { dreg: REG1, modulus: 4, offset, random: false }).vmap("v");
    assert_eq!(word(&with_set(verdicts(0..4), [numbered(0)]), &to(WEB)), "dropped");
    assert_eq!(word(&with_set(verdicts(0..3), [numbered(0)]), &to(WEB)), "unclear");
    assert_eq!(word(&with_set(verdicts(0..4), [numbered(10)]), &to(WEB)), "passes");
    // Intervals of numbers are kept in network order: nft swaps first.
    let halves = intervals("v", 4, vec![mapped(&0_u32.to_be_bytes(), Data::Verdict(Verdict::Drop)), interval_end(&4_u32.to_be_bytes())]);
    let swapped = rule().expr(Expr::Numgen { dreg: REG1, modulus: 4, offset: 0, random: false });
    let swapped = swapped.expr(Expr::Byteorder { sreg: REG1, dreg: REG1, len: 4, size: 4 }).vmap("v");
    assert_eq!(word(&with_set(halves, [swapped]), &to(WEB)), "dropped");
}
