//! The health answer byte by byte: every produced line is read back by a parser of the grammar, which a balancer's author could write.

use std::net::IpAddr;

use gwready_core::reason::Reason;
use gwready_core::render::health::{AnswerSettings, Scope, answer, render_agent_check, render_body, render_state_line};
use gwready_core::time::{Mono, Now};
use gwready_core::verdict::{AddressOutcome, EndpointOutcome, Outcome, State, Verdict};
use proptest::prelude::*;

use super::faults;
use super::node::{A, B, Node, SIX, endpoint};
use super::watch::Watch;

/// `state=S node=N address=<ip|all>[ partial=K][ reason=R[ port=P[,P…]]] ports=P[,P…]`, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    state: State,
    node: String,
    address: Option<IpAddr>,
    partial: Option<usize>,
    reason: Option<Reason>,
    port: Vec<u16>,
    ports: Vec<u16>,
}

/// Takes `key=value` from the front of the fields, if the first of them has this key.
fn take<'a>(fields: &mut &[&'a str], key: &str) -> Option<&'a str> {
    let (first, rest) = fields.split_first()?;
    let value = first.strip_prefix(key)?.strip_prefix('=')?;
    *fields = rest;
    Some(value)
}

fn list(text: &str) -> Option<Vec<u16>> {
    text.split(',').map(|port| port.parse().ok().filter(|port| *port != 0)).collect()
}

/// Reads a state line; none if it breaks the grammar in any way.
fn parse(line: &str) -> Option<Parsed> {
    let fields: Vec<&str> = line.split(' ').collect();
    let mut rest = fields.as_slice();
    let state = take(&mut rest, "state")?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state)?;
    let node = take(&mut rest, "node").filter(|node| !node.is_empty() && !node.contains('='))?.to_owned();
    let address = match take(&mut rest, "address")? {
        "all" => None,
        ip => Some(ip.parse().ok()?),
    };
    let partial = match take(&mut rest, "partial") {
        Some(count) => Some(count.parse().ok().filter(|count| *count > 0)?),
        None => None,
    };
    let reason = match take(&mut rest, "reason") {
        Some(word) => Some(Reason::from_word(word)?),
        None => None,
    };
    let port = match take(&mut rest, "port") {
        Some(ports) if reason.is_some() => list(ports)?,
        Some(_) => return None,
        None => Vec::new(),
    };
    let ports = list(take(&mut rest, "ports")?)?;
    let is_whole = rest.is_empty() && reason.is_none() == (state == State::Up) && (partial.is_none() || state == State::Up);
    is_whole.then_some(Parsed { state, node, address, partial, reason, port, ports })
}

#[test]
fn the_lines_of_the_design_are_the_grammar() {
    let lines = [
        ("state=up node=worker-1 address=10.0.0.11 ports=80,443", State::Up, None, None, &[][..]),
        ("state=up node=worker-1 address=all partial=1 ports=80,443", State::Up, Some(1), None, &[]),
        (
            "state=drain node=worker-1 address=10.0.0.11 reason=DrainRequested ports=80,443",
            State::Drain,
            None,
            Some(Reason::DrainRequested),
            &[],
        ),
        (
            "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443",
            State::Down,
            None,
            Some(Reason::HostPort),
            &[80],
        ),
    ];
    for (line, state, partial, reason, port) in lines {
        let parsed = parse(line).expect(line);
        assert_eq!((parsed.state, parsed.partial, parsed.reason, parsed.port.as_slice()), (state, partial, reason, port), "{line}");
        assert_eq!((parsed.node.as_str(), parsed.ports.as_slice()), ("worker-1", &[80, 443][..]));
    }
}

#[test]
fn the_parser_refuses_what_is_not_the_grammar() {
    for line in [
        "",
        "state=up",
        "state=UP node=n address=all ports=80",
        "node=n state=up address=all ports=80",
        "state=up node= address=all ports=80",
        "state=up node=n address=all ports=",
        "state=up node=n address=all ports=80 ",
        "state=up node=n address=all ports=80 reason=HostPort",
        "state=up node=n address=all reason=HostPort ports=80",
        "state=down node=n address=all ports=80",
        "state=down node=n address=all reason=hostport ports=80",
        "state=down node=n address=all port=80 ports=80",
        "state=down node=n address=all partial=1 reason=HostPort ports=80",
        "state=up node=n address=all partial=0 ports=80",
        "state=up node=n address=10.0.0 ports=80",
        "state=up node=n  address=all ports=80",
    ] {
        assert_eq!(parse(line), None, "{line:?}");
    }
}

fn settings(scope: Scope) -> AnswerSettings {
    AnswerSettings {
        node_name: "worker-1".into(),
        stale_after: std::time::Duration::from_secs(5),
        scope,
        detail: true,
        starting_ports: vec![80, 443],
    }
}

/// Every state of a port that matters to a line.
fn outcomes(port: u16) -> [Outcome; 6] {
    let outcome = |state, reason, ports: &[u16]| Outcome { state, reason: Some(reason), ports: ports.to_vec() };
    [
        Outcome::UP,
        outcome(State::Drain, Reason::DrainRequested, &[]),
        outcome(State::Drain, Reason::EnvoyTerminating, &[]),
        outcome(State::Down, Reason::HostPort, &[port]),
        outcome(State::Down, Reason::NoListener, &[port]),
        outcome(State::Down, Reason::EnvoyNotRunning, &[]),
    ]
}

/// The verdict over these outcomes of 10.0.0.11:80, :443 and 10.0.0.12:80, :443, joined as the judge joins them.
fn verdict(of: [&Outcome; 4]) -> Verdict {
    use gwready_core::judge::combine::{address_outcomes, node_outcome};
    let at = ["10.0.0.11:80", "10.0.0.11:443", "10.0.0.12:80", "10.0.0.12:443"];
    let endpoints: Vec<EndpointOutcome> =
        at.iter().zip(of).map(|(at, outcome)| EndpointOutcome { endpoint: endpoint(at), outcome: outcome.clone() }).collect();
    let addresses: Vec<AddressOutcome> = address_outcomes([A, B].map(|ip| ip.parse().unwrap()), &endpoints);
    let node = node_outcome(&addresses);
    let partial = if node.state == State::Up { addresses.iter().filter(|a| a.outcome.state != State::Up).count() } else { 0 };
    Verdict {
        judged_at: Now { mono: Mono(1), unix_ms: 1 },
        observed_at: Mono(1),
        node_since: Now { mono: Mono(1), unix_ms: 1 },
        node,
        partial,
        ports: vec![80, 443],
        families: vec![gwready_core::net::Family::Ipv4],
        addresses,
        endpoints,
        blind: Vec::new(),
        conditions: Vec::new(),
    }
}

/// 1,296 nodes, eight questions each: every line is of the grammar and says what the outcomes asked about say.
#[test]
fn every_combination_of_states_scopes_and_ports_gives_a_line_of_the_grammar_that_is_true() {
    let (http, https) = (outcomes(80), outcomes(443));
    for combination in 0..6_usize.pow(4) {
        let pick = |digit: u32| combination / 6_usize.pow(digit) % 6;
        let of = [&http[pick(0)], &https[pick(1)], &http[pick(2)], &https[pick(3)]];
        let verdict = verdict(of);
        for local in [Some(A), Some(B), None] {
            for port in [None, Some(80), Some(443)] {
                let settings = settings(Scope::Address);
                let given = answer(Some(&verdict), &settings, local.map(|ip| ip.parse().unwrap()), port, Mono(1)).unwrap();
                let line = render_state_line(&given, &settings);
                let parsed = parse(&line).unwrap_or_else(|| panic!("{line}"));
                assert_eq!(parsed.address, local.map(|ip| ip.parse().unwrap()), "{line}");
                assert_eq!(parsed.ports, port.map_or(vec![80, 443], |port| vec![port]), "{line}");
                // The ports asked about, address by address: the worst of an address, the best of the addresses.
                let asked = |first: usize| match port {
                    None => of[first].state.max(of[first + 1].state),
                    Some(80) => of[first].state,
                    Some(_) => of[first + 1].state,
                };
                let expected = match local {
                    Some(A) => asked(0),
                    Some(_) => asked(2),
                    None => asked(0).min(asked(2)),
                };
                assert_eq!(parsed.state, expected, "{line}");
                let not_up = [asked(0), asked(2)].iter().filter(|state| **state != State::Up).count();
                let partial = (local.is_none() && parsed.state == State::Up && not_up > 0).then_some(not_up);
                assert_eq!(parsed.partial, partial, "{line}");
                assert!(parsed.port.iter().all(|port| parsed.ports.contains(port)), "{line}");
                let about_ports = matches!(parsed.reason, Some(Reason::HostPort | Reason::NoListener));
                assert_eq!(!parsed.port.is_empty(), about_ports, "a reason of the node names no port: {line}");
            }
        }
    }
}

#[test]
fn scope_node_asks_about_the_node_wherever_the_connection_came_in() {
    let (up, hostport) = (Outcome::UP, outcomes(80)[3].clone());
    let verdict = verdict([&hostport, &up, &up, &up]);
    let line = |scope, local: &str| {
        let settings = settings(scope);
        render_state_line(&answer(Some(&verdict), &settings, Some(local.parse().unwrap()), None, Mono(1)).unwrap(), &settings)
    };
    assert_eq!(line(Scope::Node, A), "state=up node=worker-1 address=all partial=1 ports=80,443");
    assert_eq!(line(Scope::Address, A), "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443");
    for elsewhere in ["127.0.0.1", "::1", "10.42.0.1", "10.0.0.13"] {
        assert_eq!(line(Scope::Address, elsewhere), line(Scope::Node, A), "{elsewhere} is not judged");
    }
    assert_eq!(line(Scope::Address, "::ffff:10.0.0.12"), "state=up node=worker-1 address=10.0.0.12 ports=80,443");
}

#[test]
fn the_bodies_of_real_faults_hold_one_token_and_fit() {
    let nodes = [
        Node::healthy(),
        faults::host_port(),
        faults::change_rejected("state=up\r\nstate=drain node=x"),
        faults::shared(),
        faults::drained(None),
        faults::draining(),
        faults::no_listeners(),
        faults::steered(),
    ];
    for node in nodes {
        let watch = Watch::turned(&node);
        for local in [Some(A), Some(SIX), None] {
            let body = watch.body(local, None);
            assert!(parse(body.lines().next().unwrap()).is_some(), "{body}");
            assert_eq!(body.matches("state=").count(), 1, "{body}");
            assert!(!body.lines().skip(1).any(|line| line.contains('=')), "no other field anywhere: {body}");
            assert!(body.len() <= 1200 && body.lines().next().unwrap().len() < 200, "{body}");
            assert!(body.ends_with('\n') && !body.contains('\r'), "{body:?}");
        }
    }
}

#[test]
fn receive_strings_of_one_state_are_contained_in_no_answer_of_another() {
    for (index, outcome) in outcomes(80).iter().enumerate() {
        let verdict = verdict([outcome, &Outcome::UP, outcome, &Outcome::UP]);
        let settings = settings(Scope::Address);
        let body = render_body(&answer(Some(&verdict), &settings, None, None, Mono(1)).unwrap(), &settings, 1200);
        let found: Vec<State> = State::ALL.into_iter().filter(|state| body.contains(&format!("state={state}"))).collect();
        assert_eq!(found, [outcome.state], "{index}: {body}");
    }
}

#[test]
fn haproxys_words_for_each_state() {
    let words: Vec<String> = outcomes(80).iter().map(render_agent_check).collect();
    assert_eq!(words, ["ready up\n", "up drain\n", "up drain\n", "down #HostPort\n", "down #NoListener\n", "down #EnvoyNotRunning\n"]);
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let reason = prop::sample::select(Reason::ALL.to_vec());
    (0..3_usize, reason, prop::collection::vec(1_u16.., 0..4)).prop_map(|(state, reason, ports)| match State::ALL[state] {
        State::Up => Outcome::UP,
        state => Outcome { state, reason: Some(reason), ports },
    })
}

proptest! {
    /// Whatever the node is called, whatever is said about it: the first line parses, and nothing else in the body is a token.
    #[test]
    fn every_line_parses_and_nothing_else_holds_a_state(
        name in "[a-z0-9.-]{1,63}|.{1,80}|(state=up ?){1,4}",
        outcomes in prop::collection::vec(any_outcome(), 4),
        message in ".{0,200}|(state=(up|drain|down)\n?){1,9}",
        local in prop::sample::select(vec![Some(A), Some(B), Some(SIX), None]),
    ) {
        let mut verdict = verdict([&outcomes[0], &outcomes[1], &outcomes[2], &outcomes[3]]);
        verdict.conditions = Watch::turned(&faults::host_port()).verdict().conditions.clone();
        verdict.conditions.iter_mut().for_each(|condition| condition.message.clone_from(&message));
        let settings = AnswerSettings { node_name: name, ..settings(Scope::Address) };
        let given = answer(Some(&verdict), &settings, local.map(|ip| ip.parse().unwrap()), None, Mono(1)).unwrap();
        let body = render_body(&given, &settings, 1200);
        let parsed = parse(body.lines().next().unwrap());
        prop_assert!(parsed.is_some(), "{}", body);
        prop_assert_eq!(parsed.map(|parsed| (parsed.state, parsed.reason)), Some((given.outcome.state, given.outcome.reason)));
        prop_assert_eq!(body.matches('=').count(), body.lines().next().unwrap().matches('=').count());
    }
}
