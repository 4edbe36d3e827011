//! The command line beside a real Envoy and a real daemon: exit codes, what a person reads, drains, snapshots, metrics.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use gwready_tests::node::node_v4;
use gwready_tests::{Agent, Envoy, Node, Thief, paths};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(15);
const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn run(agent: &Agent, arguments: &[&str]) -> (i32, String, String) {
    told(&agent.command(arguments).unwrap().output().unwrap())
}

/// `gwready check`, which needs no daemon.
fn check(node: &Node, arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<&str> = ["check"].iter().chain(arguments).copied().collect();
    told(&Agent::builder(node).command(&arguments).unwrap().output().unwrap())
}

#[test]
fn check_is_a_table_for_people_and_json_for_programs() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let (code, table, err) = check(&node, &[]);
    assert_eq!(code, 0, "{table}{err}");
    assert!(table.contains("worker-1") && table.to_lowercase().contains("up"), "{table}");
    for name in ["Listening", "OwnedByEnvoy", "Responding", "EnvoyLive"] {
        assert!(table.contains(name), "{name} is not in\n{table}");
    }
    let (code, json, _) = check(&node, &["--json"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &document["state"]), (0, &Value::from("up")), "{json}");
    assert_eq!(document["expected_ports"], serde_json::json!([80, 443]));

    let thief = Thief::at(&node, node_v4(1).into(), 80).reuseport().start().unwrap();
    let (_, table, _) = check(&node, &[]);
    assert!(table.contains("ShadowedAddress") && table.contains(&format!("thief[{}]", thief.pid())), "{table}");
    drop(thief);
    envoy.kill().unwrap();
    let (code, table, _) = check(&node, &[]);
    assert_eq!(code, 1, "{table}");
    assert!(table.contains("EnvoyNotRunning"), "{table}");
}

#[test]
fn a_check_that_lacks_a_privilege_is_77_where_that_is_asked_and_tells_what_it_sees_otherwise() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let bare = Agent::builder(&node).under(&["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
    let (code, out, err) = told(&bare.command(&["check", "--require"]).unwrap().output().unwrap());
    assert_eq!(code, 77, "{out}{err}");
    assert!(format!("{out}{err}").contains("CAP_NET_ADMIN"), "{out}{err}");
    let (code, out, err) = told(&bare.command(&["check"]).unwrap().output().unwrap());
    assert!(code != 77 && out.contains("Listening"), "{code} {out}{err}");
}

#[test]
fn a_health_port_in_use_is_69_and_names_who_has_it() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let stranger = Thief::at(&node, ANY_V4, 9680).start().unwrap();
    let mut agent = Agent::quick(&node).set("health.listen", "0.0.0.0:9680").start().unwrap();
    let status = agent.process().wait_exit(SOON).unwrap();
    assert_eq!(status.code(), Some(69), "{}", agent.log());
    assert!(agent.log().contains(&format!("thief[{}]", stranger.pid())) || agent.log_contains("thief"), "{}", agent.log());
    assert!(agent.log_contains("9680"), "{}", agent.log());
}

#[test]
fn drain_says_who_why_and_until_when_and_undrain_ends_it() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let (code, out, err) = run(&agent, &["drain", "--for", "10m", "--reason", "kernel update state=up"]);
    assert_eq!(code, 0, "{out}{err}");
    agent.wait_state("state=drain reason=DrainRequested", SOON).unwrap();
    let reply = String::from_utf8(agent.health_from_outside(node_v4(2).into()).unwrap()).unwrap();
    assert!(reply.starts_with("HTTP/1.1 503 ") && reply.contains("\r\n\r\nstate=drain "), "{reply}");
    assert!(!reply.contains("state=up"), "the reason must not look like a state: {reply}");
    let line = agent.wait_log("node DRAIN reason=DrainRequested", SOON).unwrap();
    assert!(line.contains("asked_by=\"uid 0") && line.contains("why=\"kernel update state:up\"") && line.contains("until=2"), "{line}");
    let (code, status, _) = run(&agent, &["status"]);
    assert!(code == 1 && status.contains("DrainRequested") && status.contains("kernel update"), "{code} {status}");
    let (code, out, _) = run(&agent, &["undrain"]);
    assert!(code == 0 && out.contains("no longer draining"), "{out}");
    agent.wait_state("state=up", SOON).unwrap();
    let (code, json, _) = run(&agent, &["status", "--json"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &document["state"], &document["drain"]), (0, &Value::from("up"), &Value::Null));
    let history = document["history"].as_array().unwrap();
    assert!(history.iter().any(|one| one["reason"] == "DrainRequested"), "{history:?}");
}

#[test]
fn a_drain_ends_by_itself() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let (code, ..) = run(&agent, &["drain", "--for", "1s"]);
    assert_eq!(code, 0);
    agent.wait_state("state=drain reason=DrainRequested", SOON).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_drain_survives_the_agent_and_its_end_drains_nothing() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    agent.stop().unwrap();
    assert!(!agent.log_contains("node DRAIN") && !agent.log_contains("node DOWN reason=Drain"), "{}", agent.log());
    let mut agent = Agent::start_quick(&node).unwrap();
    let (code, ..) = run(&agent, &["drain", "--reason", "disk"]);
    assert_eq!(code, 0);
    agent.wait_state("state=drain reason=DrainRequested", SOON).unwrap();
    agent.kill().unwrap();
    let (code, out, _) = run(&agent, &["check"]);
    assert!(code == 1 && out.contains("DrainRequested") && out.contains("disk"), "a look without a daemon knows: {code} {out}");
    let mut agent = Agent::quick(&node).start().unwrap();
    agent.wait_state("state=drain reason=DrainRequested", SOON).unwrap();
    assert!(!agent.log_contains("node UP"), "not for a moment:\n{}", agent.log());
    let (code, ..) = run(&agent, &["undrain"]);
    assert_eq!(code, 0);
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_snapshot_of_the_daemon_is_explained_to_the_same_verdict() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let explain = |file: &str| {
        let mut command = Command::new(paths::gwready().unwrap());
        let mut child = command.args(["explain", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(file.as_bytes()).unwrap();
        told(&child.wait_with_output().unwrap())
    };
    let (code, up, _) = run(&agent, &["snapshot"]);
    assert_eq!(code, 0);
    let (code, words, err) = explain(&up);
    assert_eq!(code, 0, "{words}{err}");
    let _thieves = [1, 2].map(|n| Thief::at(&node, node_v4(n).into(), 443).reuseport().start().unwrap());
    let _others = node
        .addresses()
        .into_iter()
        .filter(IpAddr::is_ipv6)
        .map(|a| Thief::at(&node, a, 443).reuseport().start().unwrap())
        .collect::<Vec<_>>();
    agent.wait_state("state=down reason=ShadowedAddress port=443", SOON).unwrap();
    let (_, down, _) = run(&agent, &["snapshot"]);
    let (code, words, _) = explain(&down);
    assert_eq!(code, 1, "{words}");
    assert!(words.contains("ShadowedAddress") && words.contains("thief["), "{words}");
}

#[test]
fn live_does_not_depend_on_the_verdict() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let temporary = node.dir().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut agent = Agent::quick(&node).env("TMPDIR", temporary.to_str().unwrap()).start().unwrap();
    agent.wait_state("state=down reason=EnvoyNotRunning", SOON).unwrap();
    let mut command = Command::new(paths::gwready().unwrap());
    let (code, out, err) = told(&command.arg("live").env("TMPDIR", &temporary).output().unwrap());
    assert_eq!((code, out.as_str()), (0, "ok\n"), "{err}");
    assert_eq!(agent.admin("/livez").unwrap().0, 200);
}

#[test]
fn the_metrics_are_the_promised_ones_and_prometheus_accepts_them() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    agent.wait_log("programs attached", SOON).unwrap();
    let text = agent.metrics().unwrap();
    for name in [
        "node_state",
        "port_state",
        "address_state",
        "condition_status",
        "condition_reason",
        "transitions_total",
        "not_up_seconds_total",
        "listener_sockets",
        "accept_queue_length",
        "accept_queue_limit",
        "accept_queue_drops_total",
        "connections_established_total",
        "pass_duration_seconds_count",
        "event_to_verdict_seconds_count",
        "passes_total",
        "observation_age_seconds",
        "observation_failures_total",
        "health_requests_total",
        "ebpf_attached",
        "tls_certificate_not_after_seconds",
        "build_info",
    ] {
        let name = format!("gwready_{name}");
        let has = text.lines().any(|line| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        assert!(has, "{name} is not in\n{text}");
    }
    for name in ["process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"] {
        assert!(text.contains(&format!("\n{name} ")), "{name} is not in\n{text}");
    }
    let own = |port: &str| agent.metric_value("gwready_listener_sockets", &[("port", port), ("family", "ipv4"), ("owner", "envoy")]);
    assert!((own("80").unwrap() - 2.0).abs() < f64::EPSILON && (own("443").unwrap() - 2.0).abs() < f64::EPSILON, "a socket per worker");
    let mut promtool = Command::new(paths::installed("promtool").unwrap());
    let mut child =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let (code, out, err) = told(&child.wait_with_output().unwrap());
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
}
