//! What must hold of every rendering, whatever the verdict and whatever foreign text it carries.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::explain::render_explain;
use super::flapping::{BOUND, Flapping, WINDOW};
use super::log_line::{Level, Line, render_json, render_text};
use super::page::render_page;
use super::status::{Input, StatusDocument, status_document};
use super::table::render_table;
use super::testing::snapshot_file;
use super::transition::{Context, Transition, transition};
use crate::condition::{Concern, Condition, ConditionType, Status};
use crate::facts::{DrainRequest, Reading, Snapshot, Unavailable, Why};
use crate::memory::Memory;
use crate::net::{Endpoint, Family, Front};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::replay::SnapshotFile;
use crate::time::{Mono, Now, Window};
use crate::verdict::{AddressOutcome, Blind, EndpointOutcome, Outcome, State, Verdict};

/// Text as an attacker would like it in a log, a page, a terminal or JSON.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        Just("x\nWARN node UP state=up".to_owned()),
        Just("\u{1b}[2J<script>alert('1')</script>\"&".to_owned()),
        Just("state=up ".repeat(50)),
        Just("\u{202e}\u{0}\r\t".to_owned()),
    ]
}

fn reason() -> impl Strategy<Value = Reason> {
    proptest::sample::select(Reason::ALL)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::UP),
        (prop_oneof![Just(State::Down), Just(State::Drain)], reason(), proptest::collection::vec(prop_oneof![Just(80), Just(443)], 0..2))
            .prop_map(|(state, reason, ports)| Outcome { state, reason: Some(reason), ports }),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let kind = proptest::sample::select(&ConditionType::ALL[..]);
    let status = proptest::sample::select(&Status::ALL[..]);
    let evidence = proptest::collection::btree_map(prop_oneof![Just("thief".to_owned()), hostile()], hostile(), 0..4);
    (kind, status, proptest::option::of(reason()), hostile(), evidence, any::<bool>(), any::<u64>()).prop_map(
        |(kind, status, reason, message, evidence, all, since)| Condition {
            kind,
            front: kind.is_per_front().then_some(Front { port: 80, family: Family::Ipv4 }),
            status,
            reason,
            message,
            evidence,
            addresses: if all { Concern::All } else { Concern::Some(vec![IpAddr::from([10, 0, 0, 1])]) },
            since: Mono(since),
        },
    )
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let conditions = proptest::collection::vec(condition(), 0..8);
    (outcome(), proptest::collection::vec(outcome(), 0..4), conditions, any::<u64>(), any::<u64>(), hostile()).prop_map(
        |(node, outcomes, conditions, mono, unix_ms, message)| {
            let addresses: Vec<AddressOutcome> =
                (1_u8..).zip(outcomes).map(|(last, outcome)| AddressOutcome { address: IpAddr::from([10, 0, 0, last]), outcome }).collect();
            let not_up = addresses.iter().filter(|judged| judged.outcome.state != State::Up).count();
            let endpoint = |judged: &AddressOutcome| EndpointOutcome {
                endpoint: Endpoint { address: judged.address, port: 80 },
                outcome: judged.outcome.clone(),
            };
            Verdict {
                judged_at: Now { mono: Mono(mono), unix_ms },
                observed_at: Mono(mono / 2),
                node_since: Now { mono: Mono(mono / 3), unix_ms: unix_ms / 3 },
                partial: if node.state == State::Up { not_up } else { 0 },
                node,
                ports: vec![80, 443],
                families: vec![Family::Ipv4],
                endpoints: addresses.iter().map(endpoint).collect(),
                addresses,
                blind: vec![Blind { kind: ConditionType::OwnedByEnvoy, reason: Some(Reason::Unidentified), message }],
                conditions,
            }
        },
    )
}

fn snapshot(text: &str) -> Snapshot {
    let window = Window { begin: Mono(1), end: Mono(2) };
    Snapshot {
        owners: Reading::Unavailable(Unavailable { why: Why::Permission, detail: text.to_owned(), window }),
        drain: Some(DrainRequest { by: text.to_owned(), reason: text.to_owned(), asked_unix_ms: 0, until_unix_ms: Some(u64::MAX) }),
        ..Snapshot::default()
    }
}

fn document(verdict: &Verdict, text: &str, history: &[Transition]) -> StatusDocument {
    status_document(Input {
        node: text,
        agent: "0.1.0",
        verdict,
        snapshot: &snapshot(text),
        policy: &Policy::default(),
        config: &serde_json::json!({"mode": "host-network"}),
        history,
        not_visible: &[],
        now: verdict.judged_at,
    })
}

fn is_one_printable_line(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

type NotUp = BTreeSet<(IpAddr, State, Option<Reason>)>;

/// What makes a change worth a line: state, reason, and while up the set of addresses that are not.
fn essence(verdict: &Verdict) -> (State, Option<Reason>, NotUp) {
    let not_up = verdict.addresses.iter().filter(|judged| judged.outcome.state != State::Up);
    let set = not_up.map(|judged| (judged.address, judged.outcome.state, judged.outcome.reason)).collect();
    (verdict.node.state, verdict.node.reason, if verdict.node.state == State::Up { set } else { BTreeSet::new() })
}

proptest! {
    #[test]
    fn a_line_exactly_when_something_changed(prev in verdict(), next in verdict(), text in hostile()) {
        let drain = DrainRequest { by: text.clone(), reason: text, asked_unix_ms: 0, until_unix_ms: None };
        let context = Context { detected_in: Some(Duration::from_micros(180)), drain: Some(&drain) };
        let change = transition(Some(&prev), &next, context);
        prop_assert_eq!(change.is_some(), essence(&prev) != essence(&next));
        prop_assert!(transition(Some(&next), &next, context).is_none());
        let Some(change) = change else { return Ok(()) };
        prop_assert_eq!((change.from, change.to, change.reason), (Some(prev.node.state), next.node.state, next.node.reason));
        let line = render_text(&change.line);
        prop_assert!(is_one_printable_line(&line), "{}", line);
        prop_assert!(line.len() < 2500, "{} bytes", line.len());
        let word = next.node.state.as_str().to_ascii_uppercase();
        prop_assert_eq!(&change.line.message, &format!("node {word}"));
        if let Some(reason) = next.node.reason {
            prop_assert_eq!(change.line.get("reason"), Some(reason.as_str()));
            let page = format!("docs/conditions/{}.md", reason.as_str());
            let starts = change.line.get("fix").is_some_and(|fix| fix.starts_with(&page));
            prop_assert!(starts, "no way to {}", page);
        }
    }

    #[test]
    fn a_foreign_value_never_forges_the_state_token(prev in verdict(), next in verdict()) {
        if let Some(change) = transition(Some(&prev), &next, Context::default()) {
            for (name, value) in &change.line.fields {
                prop_assert!(!value.contains("state=") , "{name}={value}");
            }
        }
    }

    #[test]
    fn text_and_json_carry_the_same_values(prev in verdict(), next in verdict(), unix_ms: u64) {
        let Some(change) = transition(Some(&prev), &next, Context::default()) else { return Ok(()) };
        let json: serde_json::Value = serde_json::from_str(&render_json(&change.line, unix_ms)).expect("json");
        prop_assert_eq!(&json["msg"], &change.line.message);
        let names: BTreeSet<&str> = change.line.fields.iter().map(|(name, _)| name.as_str()).collect();
        let text = render_text(&change.line);
        for name in names {
            let shown = format!(" {}=", name);
            prop_assert!(text.contains(&shown), "{} is not in {}", name, text);
        }
    }

    #[test]
    fn the_document_is_harmless_and_reads_back(next in verdict(), text in hostile()) {
        let history: Vec<Transition> = transition(None, &next, Context::default()).into_iter().collect();
        let document = document(&next, &text, &history);
        let json = serde_json::to_string(&document).expect("json");
        prop_assert!(is_one_printable_line(&json), "{}", json);
        prop_assert_eq!(&serde_json::from_str::<StatusDocument>(&json).expect("readable"), &document);
        prop_assert_eq!(document.conditions.len(), next.conditions.len());
        prop_assert!(document.not_visible.iter().any(|hidden| hidden.what == "owners"));
        prop_assert!(document.not_visible.iter().any(|hidden| hidden.what == "OwnedByEnvoy"));
    }

    #[test]
    fn the_table_names_whatever_is_not_true(next in verdict(), text in hostile()) {
        let document = document(&next, &text, &[]);
        let table = render_table(&document, false);
        prop_assert!(table.lines().all(is_one_printable_line), "{}", table);
        for condition in document.conditions.iter().filter(|condition| condition.status != Status::True) {
            let (place, kind) = (condition.place(), format!(" {}", condition.kind));
            let places = table.lines().filter_map(|line| line.split_once(": ")?.0.strip_suffix(&kind));
            let told = places.flat_map(|places| places.split(", ")).any(|told| told == place);
            prop_assert!(told, "{place}{kind} is not in\n{table}");
        }
    }

    #[test]
    fn the_page_has_no_markup_but_its_own(next in verdict(), text in hostile()) {
        let page = render_page(&document(&next, &text, &[]));
        let escape = char::from(0x1b);
        prop_assert!(!page.contains("<script") && !page.contains(escape), "markup or control characters");
        let harmless = render_page(&document(&without_text(&next), "plain", &[]));
        let tags = |page: &str| -> BTreeMap<String, usize> {
            page.split('<').skip(1).filter_map(|rest| rest.split('>').next()).fold(BTreeMap::new(), |mut tags, tag| {
                *tags.entry(tag.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
                tags
            })
        };
        prop_assert_eq!(tags(&page), tags(&harmless));
    }

    #[test]
    fn the_explanation_tells_every_condition(next in verdict(), text in hostile()) {
        let file =
            SnapshotFile { agent: text.clone(), node: text.clone(), ..snapshot_file(snapshot(&text), next.judged_at) };
        let told = render_explain(&file, &next, &Memory::default());
        prop_assert!(told.lines().all(is_one_printable_line), "{}", told);
        let heads = |kind: ConditionType| {
            let of_kind = format!("   {kind} ");
            told.lines().filter_map(move |line| Some(line.strip_prefix(&of_kind)?.split_once(": ")?.0.split(", ").count())).sum::<usize>()
        };
        for kind in ConditionType::ALL {
            prop_assert_eq!(heads(kind), next.conditions.iter().filter(|condition| condition.kind == kind).count(), "{}", told);
        }
        prop_assert_eq!(told.matches("     rule      ").count(), told.matches("     policy    ").count());
    }

    #[test]
    fn no_storm_gets_past_the_bound(steps in proptest::collection::vec(0_u64..5_000, 1..400)) {
        let mut flapping = Flapping::default();
        let (mut now, mut counted, mut newest) = (0_u64, 0_u64, None);
        let mut written: Vec<u64> = Vec::new();
        for (n, millis) in steps.iter().enumerate() {
            now += millis * 1_000_000;
            let change = Line::new(Level::Warn, "node DOWN").field("n", n);
            let own = flapping.offer(Mono(now), State::Down, change);
            let summary = flapping.due(Mono(now));
            // A change's own line tells that change, also where it begins a storm; a summary tells those that had none.
            counted += u64::from(own.is_some());
            counted += summary.as_ref().and_then(|line| line.get("transitions")?.parse::<u64>().ok()).unwrap_or(0);
            for line in own.into_iter().chain(summary) {
                written.push(now);
                newest = line.get("n").map(str::to_owned);
            }
        }
        if let Some(rest) = flapping.flush(Mono(now)) {
            counted += rest.get("transitions").and_then(|count| count.parse::<u64>().ok()).expect("count");
            newest = rest.get("n").map(str::to_owned);
        }
        prop_assert_eq!(counted, steps.len() as u64, "every transition is told or counted");
        prop_assert_eq!(newest, Some((steps.len() - 1).to_string()), "the last line is the last state");
        let window = u64::try_from(WINDOW.as_nanos()).expect("a minute");
        for at in &written {
            let within = written.iter().filter(|other| (*at..*at + window).contains(*other)).count();
            prop_assert!(within <= BOUND, "{within} lines within a minute");
        }
    }
}

/// The same verdict with harmless text of the same presence, so that the same elements are shown: what differed still differs.
fn without_text(verdict: &Verdict) -> Verdict {
    let said = |condition: &Condition| {
        let evidence = condition.evidence.iter().map(|(name, value)| (super::text::sanitise(name), super::text::sanitise(value)));
        (super::text::clean_sentence(&condition.message), evidence.collect::<BTreeMap<_, _>>())
    };
    let all: Vec<_> = verdict.conditions.iter().map(said).collect();
    let mut verdict = verdict.clone();
    for (condition, said) in verdict.conditions.iter_mut().zip(&all) {
        condition.evidence = (0..said.1.len()).map(|n| (format!("n{n}"), "v".to_owned())).collect();
        condition.message = format!("plain {:?}", all.iter().position(|other| other == said));
    }
    verdict
}
