//! The configuration as a whole: sources in, effective values or every fault out.

use std::time::Duration;

use gwready_core::condition::ConditionType;
use gwready_core::policy::{Choice, Policy, Requirement};

use super::*;

fn sources(file: &str) -> (Sources, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("gwready.yaml");
    std::fs::write(&path, file).expect("file");
    (
        Sources { file: Some(path), names: HostNames { node_name_variable: None, host_name: "Worker-1".to_owned() }, ..Sources::default() },
        dir,
    )
}

fn load_text(file: &str) -> Result<Config, Faults> {
    let (sources, _dir) = sources(file);
    load(&sources)
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = load_text("").expect("valid");
    assert_eq!(config.policy(), Policy::default());
    assert_eq!(config.node_name, "worker-1");
    assert_eq!(config.health.listen.to_string(), "[::]:9680");
    assert_eq!(config.admin.listen.to_string(), "[::]:9681");
    assert_eq!(config.agent_check.listen, None);
    assert_eq!(config.timing.lb_poll, Duration::from_millis(250));
    assert_eq!(load(&Sources { file: None, ..sources("").0 }).expect("valid"), config);
}

#[test]
fn what_is_shown_can_be_fed_back() {
    let text = "ports: [443, 80]\nfamilies: [ipv4]\naddresses: {include: [10.0.0.7, eth0], exclude: [\"fd00::/8\"]}\nagent_check: {listen: \"127.0.0.1:9682\"}\n\
        probes: [{port: 443, host: a.example, sni: a.example, expect_status: [200, 404]}]\npolicy: {require: {TproxyPath: required}, unknown: {Responding: closed}}\n\
        timing: {min_up: 1m30s}\nadmin: {allow: [10.0.0.0/8]}\nmode: load-balancer\nprobe: {sni: gw.example}\n";
    let config = load_text(text).expect("valid");
    assert_eq!(config.ports, Choice::Only(vec![80, 443]));
    assert_eq!(load_text(&config.to_yaml()).map_err(|faults| faults.to_string()), Ok(config.clone()), "{}", config.to_yaml());
    let json = serde_json::to_string(&config.to_json()).expect("json");
    assert_eq!(load_text(&json), Ok(config));
}

#[test]
fn set_beats_variable_beats_file() {
    let (mut sources, _dir) = sources("timing: {resync: 100ms, hold: 1s, min_up: 3s}\nnode_name: a\n");
    sources.variables = vec![("GWREADY_TIMING_HOLD".to_owned(), "5s".to_owned()), ("GWREADY_TIMING_MIN_UP".to_owned(), "4s".to_owned())];
    sources.settings = vec!["timing.min_up=6s".to_owned(), "policy.require.Responding=advisory".to_owned()];
    sources.names.node_name_variable = Some("b".to_owned());
    let config = load(&sources).expect("valid");
    let timing = [config.timing.resync, config.timing.hold, config.timing.min_up].map(|duration| duration.as_millis());
    assert_eq!(timing, [100, 5000, 6000]);
    assert_eq!(config.policy().requirement(ConditionType::Responding), Requirement::Advisory);
    assert_eq!(config.node_name, "a");
    let (mut unnamed, _dir) = self::sources("");
    unnamed.names.node_name_variable = Some("b".to_owned());
    assert_eq!(load(&unnamed).expect("valid").node_name, "b");
}

#[test]
fn all_faults_are_reported_at_once_with_their_path() {
    let faults = load_text(
        "node_name: Worker_1\nmode: hostnetwork\nports: [0, 80, 70000]\nfamilies: [ipv5]\naddresses: {include: [10.0.0.0/33], exclude: [a-much-too-long-name]}\n\
         health: {listen: \":9680\", unready: no, scope: 1, detail: maybe, lisen: x}\nadmin: {listen: \"[::]:0\", allow: [host]}\nagent_check: {listen: 9000}\n\
         control_socket: run/x\nstate_dir: 5\nhost: {proc: \"\"}\nenvoy: {exe: /usr/bin/envoy}\nebpf: 1\n\
         timing: {resync: 1, lb_poll: fast, min_up: 2h, hold: -1s, stale_after: 1s1s}\nprobe: {fall: 0, sni: \"a b\", timeout: 1ms}\n\
         probes: [{host: a}, {port: 99999, host: \"a\\nb\", path: x, expect_status: [], color: red}, 7]\n\
         policy: {require: {Responding: maybe, Observed: advisory, Listenin: required}, unknown: {Listening: half, InService: open}}\n\
         log: {format: xml, level: loud}\nextra: {}\n",
    )
    .expect_err("faulty");
    let named: Vec<&str> = faults.iter().map(|fault| fault.key.as_str()).collect();
    for key in [
        "node_name",
        "mode",
        "ports",
        "families",
        "addresses.include",
        "addresses.exclude",
        "health.listen",
        "health.unready",
        "health.scope",
        "health.detail",
        "health.lisen",
        "admin.listen",
        "admin.allow",
        "agent_check.listen",
        "control_socket",
        "state_dir",
        "host.proc",
        "envoy.exe",
        "ebpf",
        "timing.resync",
        "timing.lb_poll",
        "timing.min_up",
        "timing.hold",
        "timing.stale_after",
        "probe.fall",
        "probe.sni",
        "probe.timeout",
        "probes[0].port",
        "probes[1].port",
        "probes[1].host",
        "probes[1].path",
        "probes[1].expect_status",
        "probes[1].color",
        "probes[2]",
        "policy.require.Responding",
        "policy.require.Observed",
        "policy.require.Listenin",
        "policy.unknown.Listening",
        "policy.unknown.InService",
        "log.format",
        "log.level",
        "extra",
    ] {
        assert!(named.contains(&key), "no fault for {key} in:\n{faults}");
    }
    assert_eq!(named.len(), 42, "{faults}");
    let text = faults.to_string();
    assert!(text.contains("entry 1: must be a port from 1 to 65535, not 0; entry 3: must be a port from 1 to 65535, not 70000"), "{text}");
    assert!(text.contains("gwready.yaml: health.listen: must be address:port, e.g. \"[::]:9680\""), "{text}");
    assert!(text.lines().count() == named.len(), "one line per fault:\n{text}");
}

#[test]
fn relations_between_keys_are_checked() {
    for (file, key, part) in [
        ("timing: {stale_after: 1s, resync: 2s}", "timing.stale_after", "longer than timing.resync"),
        ("timing: {resync: 10s}", "timing.resync", "longer than timing.resync"),
        ("admin: {listen: \"127.0.0.1:9680\"}", "admin.listen", "both use port 9680"),
        ("health: {listen: \"0.0.0.0:9681\"}", "health.listen", "both use port 9681"),
        ("agent_check: {listen: \"0.0.0.0:9681\"}", "agent_check.listen", "both use port 9681"),
        ("ports: [80, 9680]", "ports", "the agent's own (health.listen)"),
        ("ports: [80, 80]", "ports", "names 80 twice"),
        ("ports: []", "ports", "at least one"),
        ("probes: [{port: 80, host: a}, {port: 80, host: a, path: /}]", "probes[1]", "repeats"),
    ] {
        let faults = load_text(file).expect_err(file);
        let fault = faults.iter().next().expect("one");
        assert_eq!((fault.key.as_str(), faults.iter().count()), (key, 1), "{file}: {faults}");
        assert!(fault.sentence.contains(part), "{file}: {faults}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault_beside_the_others() {
    let sources = Sources { file: Some("/nonexistent/gwready.yaml".into()), settings: vec!["ebpf=7".to_owned()], ..sources("").0 };
    let text = load(&sources).expect_err("faulty").to_string();
    assert!(text.contains("/nonexistent/gwready.yaml: can't be read") && text.contains("--set: ebpf"), "{text}");
}

#[test]
fn a_host_name_that_is_no_dns_name_says_what_to_set() {
    let (mut sources, _dir) = sources("");
    sources.names.host_name = "my_host".to_owned();
    assert!(load(&sources).expect_err("faulty").to_string().contains("set node_name"));
}

#[test]
fn every_key_of_the_table_is_in_the_effective_configuration_and_back() {
    let json = load_text("").expect("valid").to_json();
    for key in keys::KEYS {
        let pointer = format!("/{}", key.path.replace('.', "/"));
        assert!(json.pointer(&pointer).is_some(), "{} is not in the effective configuration", key.path);
    }
    fn leaves(path: &str, value: &serde_json::Value) -> Vec<String> {
        match value {
            serde_json::Value::Object(inner) if keys::find(path).is_none() => inner
                .iter()
                .flat_map(|(name, value)| leaves(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value))
                .collect(),
            _ => vec![path.to_owned()],
        }
    }
    for path in leaves("", &json) {
        assert!(keys::find(&path).is_some(), "{path} has no entry in the table of keys");
    }
}

#[test]
fn the_committed_page_is_the_generated_one() {
    let committed = include_str!("../../../docs/configuration.md");
    assert!(committed == docs::render(), "docs/configuration.md is old: write it again with `gwready docs configuration`");
    assert!(docs::render().contains("--config FILE"));
}

#[test]
fn the_example_in_the_page_is_a_valid_file_of_defaults() {
    let page = docs::render();
    let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("example");
    assert_eq!(load_text(yaml).map_err(|faults| faults.to_string()), load_text("").map_err(|faults| faults.to_string()), "{yaml}");
}
