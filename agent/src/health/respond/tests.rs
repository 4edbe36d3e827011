//! The exact bytes of a reply, and that no reply holds the token of another state.

use std::time::Duration;

use gwready_core::condition::{Concern, Condition, ConditionType, Evidence, Status};
use gwready_core::net::Family;
use gwready_core::reason::Reason;
use gwready_core::render::health::Scope;
use gwready_core::time::Now;
use gwready_core::verdict::Outcome;
use proptest::prelude::*;

use super::*;

fn settings(node_name: &str) -> AnswerSettings {
    AnswerSettings {
        node_name: node_name.to_owned(),
        stale_after: Duration::from_secs(5),
        scope: Scope::Address,
        detail: true,
        starting_ports: vec![80, 443],
    }
}

fn verdict(state: State) -> Verdict {
    let reason = match state {
        State::Up => None,
        State::Drain => Some(Reason::DrainRequested),
        State::Down => Some(Reason::HostPort),
    };
    Verdict {
        judged_at: Now::default(),
        observed_at: Mono(0),
        node: Outcome { state, reason, ports: if state == State::Down { vec![80] } else { Vec::new() } },
        partial: 0,
        ports: vec![80, 443],
        families: vec![Family::Ipv4],
        addresses: Vec::new(),
        endpoints: Vec::new(),
        conditions: Vec::new(),
        blind: Vec::new(),
        node_since: Now::default(),
    }
}

fn get(protocol: Protocol) -> Request {
    Request { method: Method::Get, protocol, target: Target::Health(None) }
}

fn reply_to(question: Result<Request, Fault>, verdict: &Verdict, answers: &AnswerSettings, unready: Unready) -> (String, Replied) {
    let mut reply = b"left over".to_vec();
    let sources = Sources { verdict: Some(verdict), answers, unready, local: None, now: Mono(1) };
    let replied = render_reply(&mut reply, question, &sources);
    (String::from_utf8(reply).expect("ascii"), replied)
}

#[test]
fn up_and_down_byte_by_byte() {
    let answers = settings("worker-1");
    assert_eq!(
        reply_to(Ok(get(Protocol::V11)), &verdict(State::Up), &answers, Unready::Status).0,
        "HTTP/1.1 200 OK\r\nx-gwready: state=up\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: 48\r\n\r\n\
         state=up node=worker-1 address=all ports=80,443\n"
    );
    let (reply, replied) = reply_to(Ok(get(Protocol::V10)), &verdict(State::Down), &answers, Unready::Status);
    assert_eq!(
        reply,
        "HTTP/1.0 503 Service Unavailable\r\nx-gwready: state=down\r\nx-envoy-immediate-health-check-fail: true\r\n\
         Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 74\r\n\r\n\
         state=down node=worker-1 address=all reason=HostPort port=80 ports=80,443\n"
    );
    assert_eq!(replied, Replied { protocol: Protocol::V10, state: Some(State::Down) });
    assert!(reply.len() < 300);
}

#[test]
fn versionless_gets_the_body_alone_and_head_the_head_alone() {
    let answers = settings("worker-1");
    let up = verdict(State::Up);
    assert_eq!(reply_to(Ok(get(Protocol::V09)), &up, &answers, Unready::Status).0, "state=up node=worker-1 address=all ports=80,443\n");
    let head = reply_to(Ok(Request { method: Method::Head, ..get(Protocol::V11) }), &up, &answers, Unready::Status).0;
    assert!(head.ends_with("Content-Length: 48\r\n\r\n"), "{head}");
    assert!(head.contains("\r\nx-gwready: state=up\r\n"));
}

#[test]
fn what_has_no_state_has_no_token() {
    let answers = settings("worker-1");
    let up = verdict(State::Up);
    for (question, start) in [
        (Ok(Request { target: Target::Unknown, ..get(Protocol::V11) }), "HTTP/1.1 404 "),
        (Ok(Request { target: Target::Health(Some(8080)), ..get(Protocol::V10) }), "HTTP/1.0 404 "),
        (Ok(Request { method: Method::Other, ..get(Protocol::V11) }), "HTTP/1.1 404 "),
        (Err(Fault::Malformed), "HTTP/1.1 400 "),
        (Err(Fault::TooLarge), "HTTP/1.1 431 "),
        (Ok(Request { target: Target::Unknown, ..get(Protocol::V09) }), "not found\n"),
    ] {
        let (reply, replied) = reply_to(question, &up, &answers, Unready::Status);
        assert!(reply.starts_with(start), "{reply}");
        assert!(!reply.contains("state="), "{reply}");
        assert_eq!(replied.state, None);
    }
}

#[test]
fn close_mode_is_silent_to_everything_unless_up() {
    let answers = settings("worker-1");
    let questions = [
        Ok(get(Protocol::V09)),
        Ok(get(Protocol::V11)),
        Ok(Request { method: Method::Other, ..get(Protocol::V11) }),
        Ok(Request { target: Target::Unknown, ..get(Protocol::V11) }),
        Err(Fault::Malformed),
    ];
    for question in questions {
        for state in [State::Drain, State::Down] {
            let (reply, replied) = reply_to(question, &verdict(state), &answers, Unready::Close);
            assert_eq!((reply.as_str(), replied.state), ("", Some(state)), "{question:?}");
        }
        assert_ne!(reply_to(question, &verdict(State::Up), &answers, Unready::Close).0, "");
    }
}

proptest! {
    #[test]
    fn one_state_early_and_no_other_anywhere(
        node_name in prop_oneof!["[a-z0-9.-]{1,63}", "(state=(up|drain|down)[ \r\n]?){1,30}", ".{0,99}"],
        message in prop_oneof!["(state=(up|drain|down)[ \r\n]?){1,30}", ".{0,300}"],
        conditions in 0_usize..60,
        ports in prop::collection::vec(1_u16.., 1..300),
        state in 0_usize..3,
        question in 0_usize..6,
    ) {
        let state = State::ALL[state];
        let mut verdict = verdict(state);
        verdict.node.ports = if state == State::Down { ports.clone() } else { Vec::new() };
        verdict.ports = ports;
        verdict.conditions = (0..conditions).map(|_| Condition {
            kind: ConditionType::ConfigCurrent,
            front: None,
            status: Status::False,
            reason: Some(Reason::UpdateRejected),
            message: message.clone(),
            evidence: Evidence::new(),
            addresses: Concern::All,
            since: Mono(0),
        }).collect();
        let question = [
            Ok(get(Protocol::V09)),
            Ok(get(Protocol::V10)),
            Ok(get(Protocol::V11)),
            Ok(Request { method: Method::Head, ..get(Protocol::V11) }),
            Ok(Request { target: Target::Unknown, ..get(Protocol::V11) }),
            Err(Fault::Malformed),
        ][question];
        let (reply, replied) = reply_to(question, &verdict, &settings(&node_name), Unready::Status);
        prop_assert!(reply.len() < MAX_REPLY, "{} bytes", reply.len());
        let token = format!("state={state}");
        for other in State::ALL.into_iter().filter(|other| *other != state) {
            let forged = format!("state={other}");
            prop_assert!(!reply.contains(&forged));
        }
        match replied.state {
            None => prop_assert!(!reply.contains("state=")),
            Some(answered) => {
                prop_assert_eq!(answered, state);
                let last = reply.rfind(&token).unwrap_or(usize::MAX);
                prop_assert!(last.saturating_add(token.len()) <= 300, "header and body token within 300 bytes");
            }
        }
    }
}
