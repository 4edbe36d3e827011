//! The grammar of the state line, whom an answer is for, staleness, and that nothing can forge a token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::condition::{ConditionType, Evidence};
use crate::net::{Endpoint, Family, Front};
use crate::time::Now;
use crate::verdict::{AddressOutcome, EndpointOutcome};

const SECOND: u64 = 1_000_000_000;
const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11));
const B: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x11));

fn settings() -> AnswerSettings {
    AnswerSettings {
        node_name: "worker-1".to_owned(),
        stale_after: Duration::from_secs(5),
        scope: Scope::Address,
        detail: true,
        starting_ports: vec![80, 443],
    }
}

fn down(reason: Reason, ports: &[u16]) -> Outcome {
    Outcome { state: State::Down, reason: Some(reason), ports: ports.to_vec() }
}

fn drain() -> Outcome {
    Outcome { state: State::Drain, reason: Some(Reason::DrainRequested), ports: Vec::new() }
}

/// Judged and observed at 10 s. Each address is given as its outcomes on 80 and 443.
fn verdict(node: Outcome, partial: usize, addresses: &[(IpAddr, Outcome, [Outcome; 2])]) -> Verdict {
    Verdict {
        judged_at: Now { mono: Mono(10 * SECOND), unix_ms: 0 },
        observed_at: Mono(10 * SECOND),
        node,
        partial,
        ports: vec![80, 443],
        families: vec![Family::Ipv4, Family::Ipv6],
        addresses: addresses.iter().map(|(address, outcome, _)| AddressOutcome { address: *address, outcome: outcome.clone() }).collect(),
        endpoints: addresses
            .iter()
            .flat_map(|(address, _, ports)| {
                [80, 443]
                    .into_iter()
                    .zip(ports.clone())
                    .map(|(port, outcome)| EndpointOutcome { endpoint: Endpoint { address: *address, port }, outcome })
            })
            .collect(),
        conditions: Vec::new(),
        blind: Vec::new(),
        node_since: Now::default(),
    }
}

fn all_up() -> Verdict {
    verdict(Outcome::UP, 0, &[(A, Outcome::UP, [Outcome::UP, Outcome::UP]), (B, Outcome::UP, [Outcome::UP, Outcome::UP])])
}

/// 10.0.0.11 loses port 80 to a HostPort, fd00::11 is fine.
fn hostport_on_a() -> Verdict {
    let lost = down(Reason::HostPort, &[80]);
    verdict(Outcome::UP, 1, &[(A, lost.clone(), [lost, Outcome::UP]), (B, Outcome::UP, [Outcome::UP, Outcome::UP])])
}

fn line_at(verdict: Option<&Verdict>, settings: &AnswerSettings, local: Option<IpAddr>, port: Option<u16>, now: u64) -> String {
    answer(verdict, settings, local, port, Mono(now)).map_or_else(|| "404".to_owned(), |answer| render_state_line(&answer, settings))
}

fn line(verdict: &Verdict, local: Option<IpAddr>, port: Option<u16>) -> String {
    line_at(Some(verdict), &settings(), local, port, 11 * SECOND)
}

#[test]
fn the_four_lines_of_the_contract() {
    assert_eq!(line(&all_up(), Some(A), None), "state=up node=worker-1 address=10.0.0.11 ports=80,443");
    assert_eq!(line(&hostport_on_a(), None, None), "state=up node=worker-1 address=all partial=1 ports=80,443");
    assert_eq!(line(&hostport_on_a(), Some(A), None), "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443");
    let draining = verdict(drain(), 0, &[(A, drain(), [drain(), drain()])]);
    assert_eq!(line(&draining, Some(A), None), "state=drain node=worker-1 address=10.0.0.11 reason=DrainRequested ports=80,443");
}

#[test]
fn the_local_address_decides_whom_the_answer_is_for() {
    let verdict = hostport_on_a();
    let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 11).to_ipv6_mapped());
    assert!(line(&verdict, Some(mapped), None).starts_with("state=down node=worker-1 address=10.0.0.11 "), "v4 client on a v6 socket");
    assert!(line(&verdict, Some(B), None).starts_with("state=up node=worker-1 address=fd00::11 "));
    for node_wide in [None, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), Some(IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1)))] {
        assert!(line(&verdict, node_wide, None).starts_with("state=up node=worker-1 address=all partial=1 "), "{node_wide:?}");
    }
    let by_node = AnswerSettings { scope: Scope::Node, ..settings() };
    assert!(line_at(Some(&verdict), &by_node, Some(A), None, 11 * SECOND).starts_with("state=up node=worker-1 address=all partial=1 "));
}

#[test]
fn a_port_is_answered_for_itself() {
    let verdict = hostport_on_a();
    assert_eq!(line(&verdict, Some(A), Some(443)), "state=up node=worker-1 address=10.0.0.11 ports=443");
    assert_eq!(line(&verdict, Some(A), Some(80)), "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80");
    assert_eq!(line(&verdict, None, Some(80)), "state=up node=worker-1 address=all partial=1 ports=80");
    assert_eq!(line(&verdict, None, Some(443)), "state=up node=worker-1 address=all ports=443");
    assert_eq!(line(&verdict, None, Some(8080)), "404", "not an expected port");
}

#[test]
fn a_port_of_the_node_follows_the_rule_of_the_node() {
    let refused = down(Reason::ProbeRefused, &[80]);
    let hostport = down(Reason::HostPort, &[80]);
    let both_down = verdict(
        hostport.clone(),
        0,
        &[(A, refused.clone(), [refused.clone(), Outcome::UP]), (B, hostport.clone(), [hostport, Outcome::UP])],
    );
    assert_eq!(
        line(&both_down, None, Some(80)),
        "state=down node=worker-1 address=all reason=HostPort port=80 ports=80",
        "most causal reason"
    );
    let one_drains = verdict(drain(), 0, &[(A, refused.clone(), [refused, Outcome::UP]), (B, drain(), [drain(), drain()])]);
    assert_eq!(line(&one_drains, None, Some(80)), "state=drain node=worker-1 address=all reason=DrainRequested ports=80");
    let nothing_judged = verdict(down(Reason::EnvoyNotRunning, &[]), 0, &[]);
    assert_eq!(line(&nothing_judged, None, Some(80)), "state=down node=worker-1 address=all reason=EnvoyNotRunning ports=80");
}

#[test]
fn before_the_first_verdict_every_question_is_answered_down_starting() {
    assert_eq!(line_at(None, &settings(), Some(A), None, SECOND), "state=down node=worker-1 address=all reason=Starting ports=80,443");
    assert_eq!(line_at(None, &settings(), Some(A), Some(8443), SECOND), "state=down node=worker-1 address=all reason=Starting ports=8443");
}

#[test]
fn a_judge_that_says_starting_is_not_called_stale() {
    let starting = Verdict { observed_at: Mono(0), ..verdict(down(Reason::Starting, &[]), 0, &[]) };
    assert_eq!(
        line_at(Some(&starting), &settings(), None, None, 60 * SECOND),
        "state=down node=worker-1 address=all reason=Starting ports=80,443"
    );
    let portless = Verdict { ports: Vec::new(), ..starting };
    assert_eq!(
        line_at(Some(&portless), &settings(), None, None, 60 * SECOND),
        "state=down node=worker-1 address=all reason=Starting ports=80,443"
    );
}

#[test]
fn staleness_is_judged_when_answering() {
    let verdict = all_up();
    assert!(line_at(Some(&verdict), &settings(), Some(A), None, 15 * SECOND).starts_with("state=up "), "exactly stale_after old");
    let stale = "state=down node=worker-1 address=all reason=Stale ports=80,443";
    assert_eq!(line_at(Some(&verdict), &settings(), Some(A), None, 15 * SECOND + 1), stale);
    assert_eq!(line_at(Some(&verdict), &settings(), None, Some(443), 16 * SECOND), stale.replace("80,443", "443"));
    let draining = Verdict { node: drain(), ..all_up() };
    assert_eq!(line_at(Some(&draining), &settings(), None, None, 16 * SECOND), stale, "down beats drain");
}

fn condition(kind: ConditionType, status: Status, reason: Reason, message: &str) -> Condition {
    let front = kind.is_per_front().then_some(Front { port: 80, family: Family::Ipv4 });
    Condition {
        kind,
        front,
        status,
        reason: Some(reason),
        message: message.to_owned(),
        evidence: Evidence::new(),
        addresses: if front.is_some() { Concern::Some(vec![A]) } else { Concern::All },
        since: Mono(0),
    }
}

#[test]
fn detail_has_one_line_for_each_condition_that_is_not_true() {
    let mut verdict = hostport_on_a();
    verdict.conditions = vec![
        condition(ConditionType::Listening, Status::True, Reason::NotUsed, ""),
        condition(ConditionType::NotIntercepted, Status::False, Reason::HostPort, "pod a/b state=up\r\n(10.42.1.7:80)"),
        condition(ConditionType::ConfigCurrent, Status::Unknown, Reason::AdminUnreachable, ""),
    ];
    let answered = answer(Some(&verdict), &settings(), Some(A), None, Mono(11 * SECOND)).expect("answered");
    assert_eq!(
        render_body(&answered, &settings(), 1200),
        "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443\n\
         NotIntercepted 80/ipv4 False HostPort (10.0.0.11): pod a/b state:up??(10.42.1.7:80)\n\
         ConfigCurrent Unknown AdminUnreachable\n"
    );
    verdict.conditions[1].evidence.insert("thief".to_owned(), "pod a/b (10.42.1.7:80)".to_owned());
    let answered = answer(Some(&verdict), &settings(), Some(A), None, Mono(11 * SECOND)).expect("answered");
    assert!(render_body(&answered, &settings(), 1200).contains("False HostPort by pod a/b (10.42.1.7:80) (10.0.0.11): "));
    let quiet = AnswerSettings { detail: false, ..settings() };
    assert_eq!(render_body(&answered, &quiet, 1200).lines().count(), 1);
    assert_eq!(render_body(&answered, &settings(), 90).lines().count(), 1, "no room for any line");
}

#[test]
fn agent_check_words() {
    assert_eq!(render_agent_check(&Outcome::UP), "ready up\n");
    assert_eq!(render_agent_check(&drain()), "up drain\n");
    assert_eq!(render_agent_check(&down(Reason::HostPort, &[80])), "down #HostPort\n");
}

fn forging() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("state=up".to_owned()),
        Just("x\r\nstate=drain y".to_owned()),
        Just("\u{ff1d}state=down".to_owned()),
        ".{0,300}",
        "(state=(up|drain|down)[ \r\n]?){1,8}",
    ]
}

proptest! {
    #[test]
    fn no_text_can_forge_the_token_of_another_state(
        node_name in forging(),
        messages in proptest::collection::vec(forging(), 0..40),
        state in 0_usize..3,
        ports in proptest::collection::vec(1_u16.., 0..200),
        limit in 0_usize..1400,
    ) {
        let state = State::ALL[state];
        let reason = (state != State::Up).then_some(Reason::HostPort);
        let mut verdict = verdict(Outcome { state, reason, ports: ports.clone() }, 0, &[]);
        verdict.ports = ports;
        verdict.conditions = messages.iter().map(|message| condition(ConditionType::Accepting, Status::False, Reason::QueueStuck, message)).collect();
        let settings = AnswerSettings { node_name, ..settings() };
        let answered = answer(Some(&verdict), &settings, None, None, Mono(11 * SECOND)).expect("answered");
        let body = render_body(&answered, &settings, limit);
        let expected = format!("state={state} node=");
        prop_assert!(body.starts_with(&expected));
        prop_assert_eq!(body.matches("state=").count(), 1);
        prop_assert!(body.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte)));
        let first = body.lines().next().unwrap_or_default();
        prop_assert!(first.len() < 1100);
        prop_assert!(body.len() <= limit.max(first.len() + 1));
        let fields: Vec<&str> = first.split(' ').map(|field| field.split('=').next().unwrap_or_default()).collect();
        let grammar = ["state", "node", "address", "partial", "reason", "port", "ports"];
        prop_assert!(fields.windows(2).all(|pair| grammar.iter().position(|key| *key == pair[0]) < grammar.iter().position(|key| *key == pair[1])));
    }
}
