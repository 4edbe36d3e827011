//! How findings of endpoints become conditions of fronts: status, whom they concern, which finding speaks, since when.

use std::collections::BTreeMap;

use super::super::testing::endpoint;
use super::*;
use crate::plan::JudgedAddress;

const KIND: ConditionType = ConditionType::NotIntercepted;
const A: &str = "10.0.0.11";
const B: &str = "10.0.0.12";
const C: &str = "10.0.0.13";
const SIX: &str = "fd00::11";

fn truth() -> Finding {
    Finding::holds(KIND)
}

fn remark() -> Finding {
    Finding { reason: Some(Reason::Overloaded), ..truth() }
}

fn falsehood(reason: Reason) -> Finding {
    Finding::fails(KIND, reason, reason.summary()).with("of", reason)
}

fn unknown(reason: Reason) -> Finding {
    Finding::unknown(KIND, reason, reason.summary())
}

/// Findings about port 80 of these addresses.
fn on(findings: &[(&str, Finding)]) -> Findings {
    let at = |ip: &str| if ip.contains(':') { endpoint(&format!("[{ip}]:80")) } else { endpoint(&format!("{ip}:80")) };
    Findings { node: Vec::new(), endpoints: findings.iter().map(|(ip, finding)| (at(ip), vec![finding.clone()])).collect() }
}

fn plan(findings: &Findings) -> ReadPlan {
    let mut plan = ReadPlan { ports: vec![80, 443], ..ReadPlan::default() };
    for (endpoint, _) in &findings.endpoints {
        plan.addresses.push(JudgedAddress { ip: endpoint.address, ingress_if: 2 });
        if !plan.families.contains(&endpoint.front().family) {
            plan.families.push(endpoint.front().family);
        }
    }
    plan
}

fn joined(findings: &[(&str, Finding)]) -> Vec<Condition> {
    let findings = on(findings);
    aggregate(&findings, &plan(&findings), &mut Memory::default(), Mono(5))
}

/// The one condition of the only front that has findings.
fn one(findings: &[(&str, Finding)]) -> Condition {
    let mut conditions = joined(findings);
    assert_eq!(conditions.len(), 1, "{conditions:?}");
    conditions.remove(0)
}

fn some(ips: &[&str]) -> Concern {
    Concern::Some(ips.iter().map(|ip| ip.parse().unwrap()).collect())
}

#[test]
fn false_over_unknown_over_true_in_every_order() {
    let (f, u, t) = (falsehood(Reason::HostPort), unknown(Reason::MapsUnreadable), truth());
    let table = [
        ([&t, &t, &t], Status::True, Concern::All),
        ([&u, &u, &u], Status::Unknown, Concern::All),
        ([&f, &f, &f], Status::False, Concern::All),
        ([&t, &u, &t], Status::Unknown, some(&[B])),
        ([&u, &t, &u], Status::Unknown, some(&[A, C])),
        ([&f, &t, &t], Status::False, some(&[A])),
        ([&t, &u, &f], Status::False, some(&[C])),
        ([&f, &u, &f], Status::False, some(&[A, C])),
        ([&u, &f, &t], Status::False, some(&[B])),
    ];
    for (findings, status, concern) in table {
        let condition = one(&[(A, findings[0].clone()), (B, findings[1].clone()), (C, findings[2].clone())]);
        assert_eq!((condition.status, &condition.addresses), (status, &concern), "{findings:?}");
        assert_eq!(condition.reason.is_some(), status != Status::True);
    }
}

#[test]
fn the_most_causal_finding_of_the_status_speaks_with_its_own_message_and_evidence() {
    let condition = one(&[(A, falsehood(Reason::NetfilterDrop)), (B, falsehood(Reason::HostPort)), (C, unknown(Reason::MapsUnreadable))]);
    assert_eq!(condition.reason, Some(Reason::HostPort));
    assert_eq!(condition.message, Reason::HostPort.summary());
    assert_eq!(condition.evidence["of"], "HostPort");
    assert_eq!(condition.addresses, some(&[A, B]), "both are false, whatever the reason");
}

#[test]
fn a_remark_on_true_is_told_though_another_address_has_none() {
    let condition = one(&[(A, truth()), (B, remark())]);
    assert_eq!((condition.status, condition.reason), (Status::True, Some(Reason::Overloaded)));
}

#[test]
fn families_are_conditions_of_their_own() {
    let conditions = joined(&[(A, truth()), (SIX, falsehood(Reason::HostPort))]);
    let told: Vec<(Option<Front>, Status)> = conditions.iter().map(|c| (c.front, c.status)).collect();
    let front = |family| Some(Front { port: 80, family });
    assert_eq!(told, [(front(Family::Ipv4), Status::True), (front(Family::Ipv6), Status::False)]);
    assert_eq!(conditions[1].addresses, Concern::All, "all addresses of its family");
}

#[test]
fn a_front_without_any_finding_has_no_condition() {
    assert!(joined(&[(A, truth())]).iter().all(|condition| condition.front.is_some_and(|front| front.port == 80)));
    assert!(joined(&[]).is_empty());
}

#[test]
fn conditions_come_in_the_order_of_the_list_then_by_port_and_family() {
    let mut findings = on(&[(A, truth()), (SIX, truth())]);
    let types = [ConditionType::Responding, ConditionType::Listening];
    for (_, own) in &mut findings.endpoints {
        own.extend(types.map(Finding::holds));
    }
    findings.endpoints.push((endpoint("10.0.0.11:443"), vec![truth()]));
    findings.node = [ConditionType::InService, ConditionType::EnvoyLive, ConditionType::Observed].map(Finding::holds).to_vec();
    let plan = ReadPlan { ports: vec![80, 443], families: Family::ALL.to_vec(), ..ReadPlan::default() };
    let told: Vec<String> = aggregate(&findings, &plan, &mut Memory::default(), Mono(1))
        .iter()
        .map(|c| format!("{}{}", c.kind, c.front.map(|front| format!(" {front}")).unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [
            "Observed",
            "EnvoyLive",
            "Listening 80/ipv4",
            "Listening 80/ipv6",
            "NotIntercepted 80/ipv4",
            "NotIntercepted 80/ipv6",
            "NotIntercepted 443/ipv4",
            "Responding 80/ipv4",
            "Responding 80/ipv6",
            "InService",
        ]
    );
}

/// `since` of the condition at each step, in nanoseconds.
fn since(steps: &[(u64, Finding)]) -> Vec<u64> {
    let mut memory = Memory::default();
    let at = |(now, finding): &(u64, Finding)| {
        let findings = on(&[(A, finding.clone())]);
        let conditions = aggregate(&findings, &plan(&findings), &mut memory, Mono(*now));
        conditions.first().map_or(0, |condition| condition.since.0)
    };
    steps.iter().map(at).collect()
}

#[test]
fn since_stays_while_status_and_reason_do_and_starts_again_when_either_changes() {
    let hostport = || falsehood(Reason::HostPort);
    assert_eq!(since(&[(1, hostport()), (2, hostport()), (3, hostport())]), [1, 1, 1]);
    assert_eq!(since(&[(1, hostport()), (2, falsehood(Reason::NodePort)), (3, hostport())]), [1, 2, 3]);
    assert_eq!(since(&[(1, truth()), (2, unknown(Reason::MapsUnreadable)), (3, unknown(Reason::MapsUnreadable))]), [1, 2, 2]);
    assert_eq!(since(&[(1, truth()), (2, remark()), (3, truth())]), [1, 2, 3], "a remark is a reason");
    let reworded = Finding { message: "other words".into(), ..hostport() };
    assert_eq!(since(&[(1, hostport()), (2, reworded)]), [1, 1], "words are none");
}

#[test]
fn a_front_that_was_not_judged_for_a_while_starts_anew_and_leaves_nothing_behind() {
    let mut memory = Memory::default();
    let judged = on(&[(A, truth())]);
    let _ = aggregate(&judged, &plan(&judged), &mut memory, Mono(1));
    assert_eq!(memory.standing.len(), 1);
    let _ = aggregate(&on(&[]), &ReadPlan::default(), &mut memory, Mono(2));
    assert!(memory.standing.is_empty(), "memory does not grow with ports that came and went");
    assert_eq!(aggregate(&judged, &plan(&judged), &mut memory, Mono(3))[0].since, Mono(3));
}

fn blinds(findings: &[Finding], effect: Effect) -> Vec<(ConditionType, Option<Reason>)> {
    let effects: Vec<(ConditionType, Effect)> = findings.iter().map(|finding| (finding.kind, effect)).collect();
    blind(findings, &effects).into_iter().map(|blind| (blind.kind, blind.reason)).collect()
}

#[test]
fn blindness_is_a_never_known_condition_whose_reason_is_missing_sight() {
    let findings = [unknown(Reason::MapsUnreadable)];
    assert_eq!(blinds(&findings, Effect::Blind), [(KIND, Some(Reason::MapsUnreadable))]);
    for effect in [Effect::Fine, Effect::Kept, Effect::Against { state: crate::verdict::State::Down, reason: Reason::Stale }] {
        assert!(blinds(&findings, effect).is_empty(), "{effect:?}");
    }
    for unanswerable in [Reason::NotJudged, Reason::ProbeTranslated, Reason::NotProbed, Reason::NetfilterUnclear] {
        assert!(blinds(&[unknown(unanswerable)], Effect::Blind).is_empty(), "{unanswerable}: nothing to grant");
    }
}

#[test]
fn where_nothing_listens_there_is_nothing_to_be_blind_to() {
    let unidentified = Finding::unknown(ConditionType::OwnedByEnvoy, Reason::Unidentified, "");
    let listening = |status| Finding { status, ..Finding::holds(ConditionType::Listening) };
    assert!(blinds(&[listening(Status::False), unidentified.clone()], Effect::Blind).is_empty());
    assert_eq!(blinds(&[listening(Status::True), unidentified], Effect::Blind).len(), 1);
}

#[test]
fn the_families_of_a_reason_are_those_of_its_fronts_once_each() {
    let conditions = joined(&[(A, falsehood(Reason::HostPort)), (SIX, falsehood(Reason::HostPort))]);
    let twice: Vec<Condition> = conditions.iter().chain(&conditions).cloned().collect();
    assert_eq!(families_with(&twice, Reason::HostPort), Family::ALL);
    assert_eq!(families_with(&conditions[..1], Reason::HostPort), [Family::Ipv4]);
    assert!(families_with(&conditions, Reason::NodePort).is_empty());
}

/// Whatever the findings: one condition per front and type, and its status is the worst of its addresses'.
#[test]
fn every_mixture_of_three_addresses_is_told_by_its_worst() {
    let choices = [
        truth(),
        remark(),
        unknown(Reason::NetfilterUnclear),
        unknown(Reason::MapsUnreadable),
        falsehood(Reason::SkLookup),
        falsehood(Reason::HostPort),
    ];
    let rank = BTreeMap::from([(Status::True, 0), (Status::Unknown, 1), (Status::False, 2)]);
    for combination in 0..6_usize.pow(3) {
        let pick = |digit: u32| choices[combination / 6_usize.pow(digit) % 6].clone();
        let (a, b, c) = (pick(0), pick(1), pick(2));
        let condition = one(&[(A, a.clone()), (B, b.clone()), (C, c.clone())]);
        let worst = [&a, &b, &c].into_iter().max_by_key(|finding| rank[&finding.status]).unwrap().status;
        assert_eq!(condition.status, worst);
        let of_status: Vec<&Finding> = [&a, &b, &c].into_iter().filter(|finding| finding.status == worst).collect();
        assert_eq!(condition.reason, of_status.iter().filter_map(|finding| finding.reason).min());
        let listed = match &condition.addresses {
            Concern::All => 3,
            Concern::Some(list) => list.len(),
        };
        assert_eq!(listed, of_status.len());
    }
}
