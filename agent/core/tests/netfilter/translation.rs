//! Translations: dnat, redirect, netmap, tproxy, rewriting; to where, and whether that is elsewhere.

use gwready_core::net::Endpoint;
use gwready_core::netfilter::expr::{Base, Data, Expr, Nat};
use gwready_core::netfilter::follow::Connection;

use crate::rules::{R, REG1, REG2, dnat_of, ip, mapped, nat, rule, ruleset, set, table, to};
use crate::{told, word};

const WEB: &str = "10.0.0.11:80";

#[test]
fn dnat_says_where_to() {
    assert_eq!(told(&nat([rule().dport(80).dnat("10.42.1.7:8080")]), &to(WEB)), "to 10.42.1.7:8080: tcp dport 80 dnat to 10.42.1.7:8080");
    assert_eq!(
        told(&nat([rule().daddr("10.0.0.11").dnat("10.42.1.7")]), &to(WEB)),
        "to 10.42.1.7:80: ip daddr 10.0.0.11 dnat to 10.42.1.7"
    );
    let six = ruleset([table("ip6 nat").base("pre", "nat prerouting -100", [rule().dport(80).dnat("[fd00::7]:81")])]);
    assert_eq!(told(&six, &to("[fd00::11]:80")), "to [fd00::7]:81: tcp dport 80 dnat to [fd00::7]:81");
    assert_eq!(word(&six, &to(WEB)), "passes");
}

#[test]
fn a_translation_to_the_very_same_place_is_none() {
    assert_eq!(word(&nat([rule().dport(80).dnat("10.0.0.11:80")]), &to(WEB)), "passes");
    assert_eq!(word(&nat([rule().dport(80).dnat("10.0.0.11")]), &to(WEB)), "passes");
    assert_eq!(word(&nat([rule().dport(80).redirect(Some(80))]), &to(WEB)), "passes", "10.0.0.11 is the first address of eth0");
    assert_eq!(word(&nat([rule().dport(80).redirect(None)]), &to(WEB)), "passes");
    assert_eq!(told(&nat([rule().redirect(None)]), &to("10.0.0.12:80")), "to 10.0.0.11:80: redirect");
    let nameless = Connection { ingress: Vec::new(), ..to(WEB) };
    assert_eq!(word(&nat([rule().redirect(None)]), &nameless), "unclear");
    assert_eq!(told(&nat([rule().redirect(Some(81))]), &nameless), "to port 81 of this node: redirect to :81");
}

#[test]
fn a_range_of_ports_keeps_a_port_that_is_in_it() {
    let range = |first: u16, last: u16, flags| {
        let loaded = rule().value(REG1, &first.to_be_bytes()).value(REG2, &last.to_be_bytes());
        nat([loaded.expr(Expr::Redir { port_min: Some(REG1), port_max: Some(REG2), flags })])
    };
    assert_eq!(word(&range(80, 90, 2), &to(WEB)), "passes");
    assert_eq!(word(&range(81, 90, 2), &to(WEB)), "redirected");
    assert_eq!(word(&range(80, 90, 2 | 4), &to(WEB)), "unclear", "random");
    assert_eq!(told(&range(81, 90, 2), &to(WEB)), "to 10.0.0.11 port 81-90: redirect to :81-90");
}

#[test]
fn a_range_of_addresses_with_the_own_one_in_it_is_unclear() {
    let range = |first: &str, last: &str| {
        let loaded = rule().value(REG1, &crate::rules::octets(ip(first))).value(REG2, &crate::rules::octets(ip(last)));
        nat([loaded.expr(Expr::Nat(Nat { address_max: Some(REG2), ..dnat_of(REG1) }))])
    };
    assert_eq!(told(&range("10.9.0.1", "10.9.0.5"), &to(WEB)), "to 10.9.0.1-10.9.0.5 port 80: dnat to 10.9.0.1-10.9.0.5");
    assert_eq!(word(&range("10.0.0.1", "10.0.0.50"), &to(WEB)), "unclear");
}

#[test]
fn the_first_nat_chain_that_translates_wins_and_a_verdict_does_not_stop_the_next() {
    let chains = |first: R, second: R| {
        ruleset([table("ip one").base("pre", "nat prerouting -110", [first]), table("ip two").base("pre", "nat prerouting -100", [second])])
    };
    assert_eq!(told(&chains(rule().dnat("10.9.9.1:80"), rule().dnat("10.9.9.2:80")), &to(WEB)), "to 10.9.9.1:80: dnat to 10.9.9.1:80");
    assert_eq!(word(&chains(rule().accept(), rule().dnat("10.9.9.2:80")), &to(WEB)), "redirected");
    assert_eq!(word(&chains(rule().dnat("10.0.0.11:80"), rule().dnat("10.9.9.2:80")), &to(WEB)), "passes", "translated to itself");
    assert_eq!(word(&chains(rule().dport(80).drop(), rule().dnat("10.9.9.2:80")), &to(WEB)), "dropped");
}

#[test]
fn nat_stands_at_its_own_place_whatever_the_chains_priority() {
    // A nat chain at -200 is asked at -100, after mangle has marked.
    let rules = ruleset([
        table("ip n").base("pre", "nat prerouting -190", [rule().mark(7, 0xff).dnat("10.9.9.9:80")]),
        table("ip m").base("pre", "filter prerouting -150", [rule().set_mark(7)]),
    ]);
    assert_eq!(word(&rules, &to(WEB)), "redirected");
}

#[test]
fn what_leaves_the_node_never_meets_input_and_what_stays_does() {
    let with_input = |translated: R, dropped: R| {
        ruleset([table("ip nat").base("pre", "nat prerouting -100", [translated]), table("inet f").base("in", "filter input 0", [dropped])])
    };
    assert_eq!(word(&with_input(rule().dport(80).dnat("10.42.1.7:80"), rule().drop()), &to(WEB)), "redirected");
    assert_eq!(word(&with_input(rule().dport(80).redirect(Some(8080)), rule().dport(8080).drop()), &to(WEB)), "dropped");
    assert_eq!(word(&with_input(rule().dport(80).redirect(Some(8080)), rule().dport(80).drop()), &to(WEB)), "redirected");
    // Only the way round is open.
    assert_eq!(word(&with_input(rule().dport(80).redirect(Some(8080)), rule().expr(Expr::Counter)), &to(WEB)), "redirected");
}

#[test]
fn a_translated_connection_has_its_status() {
    let rules = |status: u32| {
        ruleset([
            table("ip nat").base("pre", "nat prerouting -100", [rule().dport(81).redirect(Some(8080))]),
            table("inet f").base("in", "filter input 0 drop", [rule().ct(2).and(&status.to_ne_bytes()).is(&status.to_ne_bytes()).accept()]),
        ])
    };
    assert_eq!(word(&rules(32), &to("10.0.0.11:81")), "redirected", "ct status dnat accept");
    assert_eq!(word(&rules(32), &to(WEB)), "dropped");
}

#[test]
fn maps_choose_the_target() {
    let targets = |ports: &[u16]| {
        let elements = ports.iter().map(|port| mapped(&port.to_be_bytes(), Data::Value(crate::rules::octets(ip("10.9.9.9")))));
        ruleset([table("ip nat").set(set("m", 2, elements.collect())).base(
            "pre",
            "nat prerouting -100",
            [rule().l4(6).payload(Base::Transport, 2, 2).map("m", REG1).expr(Expr::Nat(dnat_of(REG1)))],
        )])
    };
    assert_eq!(told(&targets(&[80, 443]), &to(WEB)), "to 10.9.9.9:80: dnat to tcp dport map @m");
    assert_eq!(word(&targets(&[443]), &to(WEB)), "passes");
}

#[test]
fn a_choice_by_chance_is_a_redirect_if_every_choice_is_one() {
    let balanced = |targets: &[&str], modulus| {
        let number = |at: usize| u32::try_from(at).unwrap().to_ne_bytes();
        let elements = targets.iter().enumerate().map(|(at, target)| mapped(&number(at), Data::Value(crate::rules::octets(ip(target)))));
        let numbered = rule().dport(80).expr(Expr::Numgen { dreg: REG1, modulus, offset: 0, random: true });
        ruleset([table("ip nat").set(set("m", 4, elements.collect())).base(
            "pre",
            "nat prerouting -100",
            [numbered.map("m", REG1).expr(Expr::Nat(dnat_of(REG1)))],
        )])
    };
    assert_eq!(
        told(&balanced(&["10.9.9.1", "10.9.9.2", "10.9.9.3"], 3), &to(WEB)).split(": ").next(),
        Some("to 10.9.9.1:80 or 10.9.9.2:80 or 10.9.9.3:80")
    );
    assert_eq!(word(&balanced(&["10.9.9.1", "10.9.9.2"], 3), &to(WEB)), "unclear", "the third has no target");
    assert_eq!(word(&balanced(&["10.9.9.1", "10.0.0.11"], 2), &to(WEB)), "unclear", "the second is the own address");
}

#[test]
fn by_a_hash_of_the_client_some_go_elsewhere() {
    let hashed = rule().expr(Expr::Hash { sreg: Some(REG1), len: 4, dreg: REG1, modulus: 2, offset: 0 }).is(&0_u32.to_ne_bytes());
    assert_eq!(word(&nat([hashed.dport(80).dnat("10.9.9.9:80")]), &to(WEB)), "some");
}

#[test]
fn tproxy_of_nft_needs_a_transparent_listener() {
    let rules =
        ruleset([table("ip m").base("pre", "filter prerouting -150", [rule().dport(80).tproxy("127.0.0.1:8080").set_mark(1).accept()])]);
    let listening = |at: &[&str]| {
        let endpoint = |text: &&str| text.parse::<std::net::SocketAddr>().map(|at| Endpoint { address: at.ip(), port: at.port() }).unwrap();
        Connection { transparent: Some(at.iter().map(endpoint).collect()), ..to(WEB) }
    };
    assert_eq!(word(&rules, &to(WEB)), "unclear");
    assert_eq!(word(&rules, &listening(&[])), "passes");
    assert_eq!(word(&rules, &listening(&["0.0.0.0:80"])), "passes");
    assert_eq!(told(&rules, &listening(&["127.0.0.1:8080"])).split(": ").next(), Some("to 127.0.0.1:8080 (tproxy)"));
    assert_eq!(word(&rules, &listening(&["0.0.0.0:8080"])), "redirected");
    assert_eq!(word(&rules, &listening(&["[::]:8080"])), "redirected", "a dual-stack one");
    assert_eq!(word(&rules, &listening(&["10.0.0.12:8080"])), "passes");
}

#[test]
fn a_socket_that_tproxy_chose_stays_chosen_after_a_translation_to_itself() {
    let rules = ruleset([
        table("ip m").base("pre", "filter prerouting -150", [rule().dport(80).tproxy("127.0.0.1:8080").accept()]),
        table("ip nat").base("pre", "nat prerouting -100", [rule().dnat("10.0.0.11:80")]),
    ]);
    let listener = Endpoint { address: ip("127.0.0.1"), port: 8080 };
    assert_eq!(word(&rules, &Connection { transparent: Some(vec![listener]), ..to(WEB) }), "redirected");
}

#[test]
fn tproxy_to_the_own_listener_takes_nothing() {
    let rules = ruleset([table("ip m").base("pre", "filter prerouting -150", [rule().dport(80).tproxy("10.0.0.11:80").accept()])]);
    assert_eq!(word(&rules, &to(WEB)), "passes");
}

#[test]
fn a_rewritten_header_is_a_redirect_without_nat() {
    let raw = |rule: R| ruleset([table("ip t").base("pre", "filter prerouting -300", [rule])]);
    let write = |base, offset, len| Expr::PayloadWrite { base, offset, len, sreg: REG1 };
    let address = rule().dport(80).value(REG1, &[10, 9, 9, 9]).expr(write(Base::Network, 16, 4));
    assert_eq!(told(&raw(address), &to(WEB)), "to 10.9.9.9:80: tcp dport 80 ip daddr set 10.9.9.9");
    let port = rule().dport(80).value(REG1, &81_u16.to_be_bytes()).expr(write(Base::Transport, 2, 2));
    assert_eq!(word(&raw(port), &to(WEB)), "redirected");
    let same = rule().value(REG1, &80_u16.to_be_bytes()).expr(write(Base::Transport, 2, 2));
    assert_eq!(word(&raw(same), &to(WEB)), "passes");
    let unknown = rule().payload(Base::Network, 12, 4).expr(write(Base::Network, 16, 4));
    assert_eq!(word(&raw(unknown), &to(WEB)), "unclear");
    let ttl = rule().value(REG1, &[64]).expr(write(Base::Network, 8, 1));
    assert_eq!(word(&raw(ttl), &to(WEB)), "passes");
}

#[test]
fn source_translation_is_no_redirect() {
    let snat = Expr::Nat(Nat { destination: false, ..dnat_of(REG1) });
    let rules = ruleset([table("ip nat").base("in", "nat input 100", [rule().value(REG1, &[10, 1, 1, 1]).expr(snat), rule().drop()])]);
    assert_eq!(word(&rules, &to(WEB)), "passes");
    let masquerade = ruleset([table("ip nat").base("in", "nat input 100", [rule().expr(Expr::Masq)])]);
    assert_eq!(word(&masquerade, &to(WEB)), "passes");
}
