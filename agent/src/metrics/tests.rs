//! A whole exposition in both formats, held against the catalogue and against the rules of the formats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use gwready_core::facts::processes::{Holders, Owners};
use gwready_core::facts::sockets::{Listener, SocketId, SocketTable};
use gwready_core::facts::{Reading, Snapshot, Unavailable, Why};
use gwready_core::net::Family;
use gwready_core::reason::Reason;
use gwready_core::time::{Mono, Window};
use gwready_core::verdict::{AddressOutcome, Outcome, State, Verdict};

use super::catalog::{Kind, METRICS};
use super::*;

static NOW: AtomicU64 = AtomicU64::new(0);

fn metrics() -> std::sync::Arc<Metrics> {
    Metrics::with_clock(Box::new(|| vec![("1.1", "up", 7), ("0.9", "down", 0)]), || Mono(NOW.load(Ordering::SeqCst)))
}

fn listener(cookie: u64, length: u32, limit: u32, drops: u32) -> Listener {
    Listener {
        queue_length: length,
        queue_limit: limit,
        drops: Some(drops),
        ..Listener::bound_to(SocketId { inode: cookie, cookie }, "0.0.0.0:80".parse().expect("address"))
    }
}

fn published(state: State, reason: Option<Reason>, listeners: Vec<Listener>) -> Published {
    let outcome = Outcome { state, reason, ports: Vec::new() };
    let window = Window { begin: Mono(0), end: Mono(1_000_000_000) };
    let holders = listeners
        .iter()
        .map(|l| (l.id.inode, Holders::Known { pids: vec![u32::try_from(l.id.inode).expect("small")], complete: l.id.inode != 3 }))
        .collect();
    let snapshot = Snapshot {
        sockets: Reading::Observed { value: SocketTable { lookups: Vec::new(), listeners }, window },
        owners: Reading::Observed { value: Owners { holders, envoys: vec![1], ..Owners::default() }, window },
        envoy: Reading::Unavailable(Unavailable { why: Why::Absent, detail: "gone".to_owned(), window }),
        ..Snapshot::default()
    };
    let addresses = (0..40_u8).map(|n| AddressOutcome { address: [10, 0, 0, n].into(), outcome: outcome.clone() }).collect();
    let verdict = Verdict {
        judged_at: Default::default(),
        observed_at: Mono(0),
        node_since: Default::default(),
        node: outcome,
        partial: 0,
        ports: vec![80, 443],
        families: vec![Family::Ipv4],
        addresses,
        endpoints: Vec::new(),
        blind: Vec::new(),
        conditions: serde_json::from_value(serde_json::json!([{
            "type": "Listening", "front": {"port": 80, "family": "ipv4"}, "status": "false", "reason": "NoListener", "message": "", "evidence": {},
            "addresses": "all", "since": 0
        }]))
        .expect("conditions"),
    };
    Published { verdict: verdict.into(), snapshot: snapshot.into() }
}

fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).map(|number| number.parse().expect("number"))
}

fn full() -> std::sync::Arc<Metrics> {
    let metrics = metrics();
    metrics.publish(published(
        State::Down,
        Some(Reason::NoListener),
        vec![listener(1, 1, 10, 5), listener(2, 5, 20, 0), listener(3, 0, 5, 0)],
    ));
    metrics.count_pass("tick", std::time::Duration::from_micros(300));
    metrics.observe_event_to_verdict(std::time::Duration::from_micros(180));
    metrics.count_transition(State::Up, State::Down, Some(Reason::NoListener));
    metrics.set_attached([("signal_generate", true)]);
    metrics.set_connections(Some(BTreeMap::from([(80, 3)])));
    metrics.set_datapath_drops(BTreeMap::from([("policy".to_owned(), 2)]));
    metrics
}

#[test]
fn states_conditions_owners_and_queues_are_told() {
    let text = full().render(Exposition::Text);
    for (series, number) in [
        ("gwready_node_state{state=\"up\"}", 0.0),
        ("gwready_node_state{state=\"down\"}", 1.0),
        ("gwready_port_state{port=\"443\",state=\"down\"}", 1.0),
        ("gwready_address_state{address=\"10.0.0.31\",state=\"down\"}", 1.0),
        ("gwready_address_state{address=\"other\",state=\"down\"}", 1.0),
        ("gwready_condition_status{type=\"Listening\",port=\"80\",family=\"ipv4\",status=\"false\"}", 1.0),
        ("gwready_condition_status{type=\"Listening\",port=\"80\",family=\"ipv4\",status=\"unknown\"}", 0.0),
        ("gwready_condition_reason{type=\"Listening\",port=\"80\",family=\"ipv4\",reason=\"NoListener\"}", 1.0),
        ("gwready_transitions_total{from=\"up\",to=\"down\",reason=\"NoListener\"}", 1.0),
        ("gwready_transitions_total{from=\"down\",to=\"up\",reason=\"\"}", 0.0),
        ("gwready_listener_sockets{port=\"80\",family=\"ipv4\",owner=\"envoy\"}", 1.0),
        ("gwready_listener_sockets{port=\"80\",family=\"ipv4\",owner=\"foreign\"}", 1.0),
        ("gwready_listener_sockets{port=\"80\",family=\"ipv4\",owner=\"unknown\"}", 1.0),
        ("gwready_listener_sockets{port=\"443\",family=\"ipv6\",owner=\"foreign\"}", 0.0),
        ("gwready_accept_queue_length{port=\"80\",family=\"ipv4\"}", 5.0),
        ("gwready_accept_queue_limit{port=\"80\",family=\"ipv4\"}", 20.0),
        ("gwready_accept_queue_drops_total{port=\"80\",family=\"ipv4\"}", 0.0),
        ("gwready_connections_established_total{port=\"80\"}", 3.0),
        ("gwready_passes_total{trigger=\"tick\"}", 1.0),
        ("gwready_passes_total{trigger=\"drain\"}", 0.0),
        ("gwready_pass_duration_seconds_count", 1.0),
        ("gwready_event_to_verdict_seconds_bucket{le=\"0.0002\"}", 1.0),
        ("gwready_observation_failures_total{source=\"envoy\",reason=\"absent\"}", 1.0),
        ("gwready_observation_failures_total{source=\"lb_v4\",reason=\"permission\"}", 0.0),
        ("gwready_health_requests_total{protocol=\"1.1\",state=\"up\"}", 7.0),
        ("gwready_ebpf_attached{program=\"signal_generate\"}", 1.0),
        ("gwready_datapath_drops_total{reason=\"policy\"}", 2.0),
    ] {
        assert_eq!(value(&text, series), Some(number), "{series} in\n{text}");
    }
    assert!(!text.contains("address=\"10.0.0.32\"") && !text.contains("gwready_observation_age_seconds{source=\"envoy\"}"));
}

#[test]
fn time_not_up_drops_and_failures_are_counted_once() {
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    let metrics = Metrics::with_clock(Box::new(Vec::new), || Mono(CLOCK.load(Ordering::SeqCst)));
    let second = |n: u64| CLOCK.store(n * 1_000_000_000, Ordering::SeqCst);
    let down = |listeners| published(State::Down, Some(Reason::NoListener), listeners);
    second(10);
    metrics.publish(down(vec![listener(1, 0, 1, 100)]));
    second(13);
    metrics.publish(down(vec![listener(1, 0, 1, 103), listener(2, 0, 1, 4)]));
    second(14);
    metrics.publish(published(State::Up, None, vec![listener(2, 0, 1, 5)]));
    second(99);
    let text = metrics.render(Exposition::Text);
    assert_eq!(value(&text, "gwready_not_up_seconds_total{reason=\"NoListener\"}"), Some(4.0));
    assert_eq!(value(&text, "gwready_not_up_seconds_total{reason=\"HostPort\"}"), Some(0.0));
    assert_eq!(
        value(&text, "gwready_accept_queue_drops_total{port=\"80\",family=\"ipv4\"}"),
        Some(8.0),
        "3 of the first, 4 and 1 of the second"
    );
    assert_eq!(value(&text, "gwready_observation_failures_total{source=\"envoy\",reason=\"absent\"}"), Some(1.0), "the same read");
    assert_eq!(value(&text, "gwready_observation_age_seconds{source=\"sockets\"}"), Some(98.0));
}

/// Families declared in a text: name → type.
fn declared(text: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("type");
        assert_eq!(names.insert(name.to_owned(), kind.to_owned()), None, "{name} is declared twice");
    }
    names
}

#[test]
fn the_output_is_the_catalogue_in_both_formats() {
    let metrics = full();
    let (open, text) = (declared(&metrics.render(Exposition::OpenMetrics)), declared(&metrics.render(Exposition::Text)));
    // No certificate was seen here: the family is absent, not empty.
    let expected = METRICS.iter().filter(|metric| metric.family != "gwready_tls_certificate_not_after_seconds");
    let kind = |metric: &catalog::Metric, info: &str| match metric.kind {
        Kind::Counter => "counter".to_owned(),
        Kind::Gauge => "gauge".to_owned(),
        Kind::Histogram => "histogram".to_owned(),
        Kind::Info => info.to_owned(),
    };
    assert_eq!(open, expected.clone().map(|metric| (metric.family.to_owned(), kind(metric, "info"))).collect());
    assert_eq!(text, expected.map(|metric| (metric.name(), kind(metric, "gauge"))).collect());
}

#[test]
fn both_formats_keep_their_rules() {
    let metrics = full();
    let (open, text) = (metrics.render(Exposition::OpenMetrics), metrics.render(Exposition::Text));
    assert!(open.ends_with("\n# EOF\n") && open.matches("# EOF").count() == 1);
    assert!(!text.contains("# EOF") && !text.contains("_created") && text.ends_with('\n'));
    let mut seen = BTreeSet::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().expect("name").to_owned();
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, number) = line.rsplit_once(' ').expect("sample");
        assert!(series.starts_with(&family), "{series} stands under {family}");
        assert!(seen.insert(series.to_owned()), "{series} stands twice");
        assert!(number.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn without_a_verdict_only_what_is_known_is_there() {
    let text = metrics().render(Exposition::Text);
    assert!(!text.contains("gwready_node_state") && text.contains("gwready_build_info{version=\""));
    assert!(value(&text, "process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6), "{text}");
    assert!(value(&text, "process_start_time_seconds").is_some_and(|at| at > 1.6e9), "{text}");
}

#[test]
fn the_committed_page_is_the_generated_one() {
    let committed = include_str!("../../../docs/metrics.md");
    assert!(committed == docs::render(), "docs/metrics.md is old: write it again with `gwready docs metrics`");
}
