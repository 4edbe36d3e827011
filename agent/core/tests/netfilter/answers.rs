//! What an answer means: who is dropped, who passes, what can't be told.

use crate::rules::{R, from, input, nat, rule, ruleset, table, to};
use crate::{told, word};

const WEB: &str = "10.0.0.11:80";

#[test]
fn without_rules_everything_passes() {
    assert_eq!(word(&ruleset([]), &to(WEB)), "passes");
    assert_eq!(word(&input("accept", []), &to(WEB)), "passes");
}

#[test]
fn a_drop_of_every_client_is_told_with_its_rule() {
    assert_eq!(told(&input("accept", [rule().dport(80).drop()]), &to(WEB)), "dropped: tcp dport 80 drop");
    assert_eq!(word(&input("accept", [rule().dport(80).drop()]), &to("10.0.0.11:443")), "passes");
    assert_eq!(
        told(&input("accept", [rule().dport_in(&[80, 443]).reject()]), &to(WEB)),
        "dropped: tcp dport { 80, 443 } reject with tcp reset"
    );
    assert_eq!(told(&input("drop", [rule().dport(22).accept()]), &to(WEB)), "dropped: policy drop");
    assert_eq!(word(&input("drop", [rule().dport_in(&[22, 80]).accept()]), &to(WEB)), "passes");
}

#[test]
fn a_ban_or_a_rate_takes_some_clients_and_no_node() {
    let banned = rule().saddr("198.51.100.0/24").drop();
    assert_eq!(told(&input("accept", [banned.clone()]), &to(WEB)), "for some, others are dropped: ip saddr 198.51.100.0/24 drop");
    assert_eq!(word(&input("accept", [banned.clone()]), &from("198.51.100.7", WEB)), "dropped");
    assert_eq!(word(&input("accept", [banned]), &from("203.0.113.7", WEB)), "passes");
    assert_eq!(word(&input("accept", [rule().dport(80).limit().drop()]), &to(WEB)), "some");
    assert_eq!(word(&input("drop", [rule().saddr("10.0.0.0/8").dport(80).accept()]), &to(WEB)), "some", "open to one network");
    assert_eq!(word(&nat([rule().saddr("10.42.0.0/16").dport(80).redirect(Some(15001))]), &to(WEB)), "some", "the pods' own");
}

#[test]
fn thousands_of_bans_are_one_remark() {
    let bans = (0..3000).map(|n| rule().saddr(&format!("198.18.{}.{}", n / 256, n % 256)).drop());
    assert_eq!(word(&input("accept", bans), &to(WEB)), "some");
}

#[test]
fn what_cannot_be_told_is_unclear_with_the_expression_and_its_rule() {
    let guarded = input("accept", [rule().dport(80).mystery().drop()]);
    assert_eq!(
        told(&guarded, &to(WEB)),
        "unclear, \"quota over 1000000 bytes\" can't be decided: tcp dport 80 quota over 1000000 bytes drop"
    );
    assert_eq!(word(&guarded, &to("10.0.0.11:443")), "passes", "it is not asked");
    assert_eq!(
        told(&input("drop", [rule().mystery().accept()]), &to(WEB)).split(':').next(),
        Some("unclear, \"quota over 1000000 bytes\" can't be decided")
    );
}

#[test]
fn what_cannot_be_told_and_does_not_matter_leaves_no_trace() {
    assert_eq!(word(&input("accept", [rule().mystery().accept()]), &to(WEB)), "passes");
    assert_eq!(word(&input("drop", [rule().mystery().drop()]), &to(WEB)), "dropped");
    assert_eq!(word(&input("accept", [rule().mystery().set_mark(7), rule().saddr("10.0.0.0/8").drop()]), &to(WEB)), "some");
    // The client decides first: those outside pass either way.
    assert_eq!(word(&input("accept", [rule().saddr("10.0.0.0/8").mystery().drop()]), &to(WEB)), "some");
}

#[test]
fn the_last_doubt_on_the_way_is_the_one_that_is_named() {
    let rules = input("accept", [rule().mystery().set_mark(7), rule().dport(80).ct_label().drop()]);
    let answer = told(&rules, &to(WEB));
    assert!(answer.contains("ct label"), "{answer}");
}

impl R {
    fn ct_label(self) -> Self {
        self.ct(13).is(&[1; 16])
    }
}

#[test]
fn a_drop_by_one_rule_or_another_is_a_drop() {
    let rules = [rule().saddr("10.0.0.0/8").drop(), rule().mystery().reject(), rule().drop()];
    assert_eq!(word(&input("accept", rules), &to(WEB)), "dropped");
    let rules = [rule().dport(80).mystery().dnat("10.42.1.7:80"), rule().dport(80).dnat("10.42.1.8:80")];
    let answer = told(&nat(rules), &to(WEB));
    assert!(answer.starts_with("to 10.42.1.7:80 or 10.42.1.8:80: "), "{answer}");
}

#[test]
fn an_answer_names_table_chain_and_handle() {
    use gwready_core::facts::steering::NetfilterPath;
    use gwready_core::netfilter::follow::follow;
    let rules = nat([rule().dport(81).accept(), rule().daddr("10.0.0.11").dport(80).dnat("10.42.1.7:8080")]);
    let place = "ip daddr 10.0.0.11 tcp dport 80 dnat to 10.42.1.7:8080 (table ip nat, chain PREROUTING, handle 2)";
    let expected = NetfilterPath::Redirected { to: "10.42.1.7:8080".into(), rule: place.into() };
    assert_eq!(follow(&rules, &to(WEB)), expected);
    let policy = NetfilterPath::Dropped { rule: "policy drop (table inet filter, chain input)".into() };
    assert_eq!(follow(&input("drop", []), &to(WEB)), policy);
    let legacy = ruleset([table("ip nat").legacy().base("PREROUTING", "nat prerouting -100", [rule().redirect(Some(8080))])]);
    let answer = format!("{:?}", follow(&legacy, &to(WEB)));
    assert!(answer.contains("(table ip nat of iptables-legacy, chain PREROUTING, rule 1)"), "{answer}");
}
