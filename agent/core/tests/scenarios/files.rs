//! Snapshot files in the tree: what `gwready snapshot` wrote once must replay for ever, and `explain` tells it in these very words.
//!
//! `XTASK_WRITE_SCENARIOS=1 cargo test -p gwready-core --test scenarios files` writes them anew; the difference is then for a person to read.

use std::path::PathBuf;

use gwready_core::condition::ConditionType;
use gwready_core::facts::Why;
use gwready_core::judge::{Judgement, judge};
use gwready_core::memory::Memory;
use gwready_core::policy::Policy;
use gwready_core::render::explain::render_explain;
use gwready_core::replay::{ReplayError, SnapshotFile, VERSION, parse_snapshot_file};
use serde_json::{Value, json};

use super::faults;
use super::node::{A, Node, SIX, lost};
use super::watch::{Watch, file, outcome};

/// Name, what the file holds (with the memory of a healthy past), and the node's outcome.
fn scenarios() -> [(&'static str, Node, &'static str); 5] {
    let mut blind = Node::healthy();
    blind.snapshot.lb.v4 = lost(Why::Permission, "bpf(BPF_OBJ_GET): Operation not permitted");
    blind.snapshot.netfilter = lost(Why::Permission, "nfnetlink: Operation not permitted");
    [
        ("healthy-dual-stack", Node::with(&[A, SIX]), "up"),
        ("12-host-port", faults::host_port(), "down HostPort 80"),
        ("23-one-port-missing", Node::healthy().closed(443), "down NoListener 443"),
        ("38-drain", faults::drained(Some(1_800_003_600_000)), "drain DrainRequested"),
        ("maps-unreadable", blind, "up"),
    ]
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/files").join(name)
}

/// The committed text, after writing it anew where that was asked for.
fn committed(name: &str, now: &str) -> String {
    let path = path(name);
    if std::env::var_os("XTASK_WRITE_SCENARIOS").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The scenario's file as the builder makes it: the node as seen at 20 s by an agent that saw its healthy self at 10 s.
fn built(node: &Node) -> SnapshotFile {
    let before = if node.snapshot.lb.v6.value().is_some() { Node::with(&[A, SIX]) } else { Node::healthy() };
    let watch = Watch::of(&before);
    file(&watch.policy, &watch.memory, node, 20.0)
}

fn judged(file: &SnapshotFile) -> Judgement {
    judge(&file.policy, &file.snapshot, &file.memory, file.now)
}

#[test]
fn every_committed_file_replays_to_its_verdict() {
    for (name, node, expected) in scenarios() {
        let text = serde_json::to_string(&built(&node)).unwrap() + "\n";
        let committed = committed(&format!("{name}.json"), &text);
        let file = parse_snapshot_file(&committed).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome(&judged(&file).verdict.node), expected, "{name}");
        assert_eq!(file, built(&node), "{name} is what the builder makes");
    }
}

#[test]
fn explain_tells_a_fault_and_a_blind_agent_in_these_words() {
    for name in ["12-host-port", "maps-unreadable"] {
        let (_, node, _) = scenarios().into_iter().find(|(own, _, _)| *own == name).unwrap();
        let file = built(&node);
        let judgement = judged(&file);
        let text = render_explain(&file, &judgement.verdict, &judgement.memory);
        assert_eq!(text, committed(&format!("{name}.explain.txt"), &text), "{name}");
    }
}

#[test]
fn explain_shows_each_condition_once_with_rule_sources_and_policy() {
    for (name, node, expected) in scenarios() {
        let file = built(&node);
        let judgement = judged(&file);
        let text = render_explain(&file, &judgement.verdict, &judgement.memory);
        let count = |part: &str| text.lines().filter(|line| line.starts_with(part)).count();
        // Conditions that say the same of several fronts share a paragraph: `Listening 80/ipv4, 443/ipv4: TRUE`.
        let heads: Vec<&str> =
            text.lines().filter(|line| ConditionType::ALL.iter().any(|kind| line.starts_with(&format!("   {kind} ")))).collect();
        let told: usize = heads.iter().map(|head| head.split(": ").next().unwrap_or_default().split(", ").count()).sum();
        assert_eq!(told, judgement.verdict.conditions.len(), "{name}: {heads:?}");
        for part in ["     rule      ", "     sources   ", "     policy    "] {
            assert_eq!(count(part), heads.len(), "{name}: {part}");
        }
        for kind in ConditionType::ALL {
            assert!(count(&format!("   {kind} ")) >= 1, "{name}: {kind}");
        }
        let word = expected.split(' ').next().unwrap().to_uppercase();
        assert_eq!(count(&format!("   node  {word}")), 1, "{name}\n{text}");
        assert!(text.is_ascii() && text.lines().all(|line| line.len() < 400), "{name}");
    }
}

#[test]
fn a_replayed_series_is_the_series_itself() {
    let mut watch = Watch::of(&Node::healthy());
    for (second, node) in [(20.0, faults::host_port()), (21.0, Node::healthy()), (22.0, Node::healthy()), (23.0, Node::healthy())] {
        let written = file(&watch.policy, &watch.memory, &node, second);
        let read = parse_snapshot_file(&serde_json::to_string_pretty(&written).unwrap()).unwrap();
        watch.sees(second, &node);
        assert_eq!(&judged(&read).verdict, watch.verdict(), "at {second}: fall, min_up and hold are in the file");
    }
    assert_eq!(watch.node(), "up");
}

#[test]
fn a_judgement_written_and_read_is_the_same_judgement() {
    for (name, node, _) in scenarios() {
        let judgement = judged(&built(&node));
        let read: Judgement = serde_json::from_str(&serde_json::to_string(&judgement).unwrap()).unwrap();
        assert_eq!(read, judgement, "{name}");
    }
}

fn tree(node: &Node) -> Value {
    serde_json::to_value(built(node)).unwrap()
}

fn replayed(tree: &Value) -> String {
    outcome(&judged(&parse_snapshot_file(&tree.to_string()).unwrap()).verdict.node)
}

#[test]
fn an_older_file_without_what_came_later_still_replays() {
    let mut older = tree(&faults::host_port());
    for key in ["agent", "node", "config"] {
        older.as_object_mut().unwrap().remove(key).unwrap();
    }
    for source in ["queues", "steering", "tproxy", "netfilter", "terminating", "drain"] {
        older["snapshot"].as_object_mut().unwrap().remove(source).unwrap();
    }
    for memory in ["queues", "was_down", "standing"] {
        older["memory"].as_object_mut().unwrap().remove(memory).unwrap();
    }
    assert_eq!(replayed(&older), "down HostPort 80");
    older.as_object_mut().unwrap().remove("memory").unwrap();
    assert_eq!(replayed(&older), "down HostPort 80", "without any memory it is a first judgement");
}

#[test]
fn a_file_of_the_same_version_with_more_in_it_still_replays() {
    let mut newer = tree(&faults::host_port());
    newer["weather"] = json!("fine");
    newer["snapshot"]["weather"] = json!({"rain": []});
    newer["memory"]["weather"] = json!(null);
    assert_eq!(replayed(&newer), "down HostPort 80");
}

#[test]
fn a_file_of_a_newer_version_is_refused_before_its_shape_is_looked_at() {
    for version in [u64::from(VERSION) + 1, 7, u64::MAX] {
        let text = json!({"version": version, "everything": "else"}).to_string();
        let error = parse_snapshot_file(&text).unwrap_err();
        assert!(matches!(error, ReplayError::Newer(found) if found == version), "{error}");
        assert_eq!(error.to_string(), format!("snapshot file version {version} is newer than this gwready knows (1); use a newer one"));
    }
}

#[test]
fn a_file_that_is_cut_or_of_another_kind_is_refused_and_never_judged() {
    let text = tree(&faults::host_port()).to_string();
    for end in [0, 1, 100, text.len() / 2, text.len() - 1] {
        assert!(matches!(parse_snapshot_file(&text[..end]), Err(ReplayError::Shape(_))), "cut at {end}");
    }
    let mut wrong = tree(&faults::host_port());
    wrong["snapshot"]["sockets"]["observed"]["value"]["listeners"][0]["port"] = json!(70_000);
    assert!(matches!(parse_snapshot_file(&wrong.to_string()), Err(ReplayError::Shape(_))), "a port out of range");
    for version in [json!("1"), json!(-1), json!(1.5), Value::Null] {
        let mut odd = tree(&faults::host_port());
        odd["version"] = version.clone();
        assert!(parse_snapshot_file(&odd.to_string()).is_err(), "version {version}");
    }
}

#[test]
fn another_policy_can_be_tried_on_an_old_file() {
    let mut file = built(&faults::host_port());
    file.policy = Policy { require: [(ConditionType::NotIntercepted, gwready_core::policy::Requirement::Advisory)].into(), ..file.policy };
    assert_eq!(outcome(&judged(&file).verdict.node), "up");
    file.memory = Memory::default();
    file.policy.probe_enabled = false;
    assert_eq!(outcome(&judged(&file).verdict.node), "up", "also as a first judgement");
}
