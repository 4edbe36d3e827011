//! All committed snapshot files: what `gwready snapshot` wrote once must replay for ever; and files of other versions.

use std::collections::BTreeSet;
use std::path::Path;

use gwready_core::condition::ConditionType;
use gwready_core::judge::Judgement;
use gwready_core::memory::Memory;
use gwready_core::policy::Policy;
use gwready_core::render::explain::render_explain;
use gwready_core::replay::{ReplayError, VERSION, parse_snapshot_file};
use serde_json::{Value, json};

use super::explained::{built, scenarios};
use super::faults;
use super::kept::{HOW, all, committed, folder, judged, lay_out, may_write, read, render_expected};
use super::node::Node;
use super::watch::{Watch, file, outcome};

/// The files of real nodes too: they need no test of their own.
#[test]
fn every_committed_file_is_judged_and_explained_as_it_says_beside_it() {
    let files = all("json");
    assert!(files.len() > 100 || may_write(), "{} files", files.len());
    for path in files {
        let mut text = read(&path);
        if may_write() && path.starts_with(folder().join("nodes")) {
            let tree: Value = serde_json::from_str(&text).unwrap();
            text = committed(&path, &lay_out(&tree.to_string()));
        }
        assert!(text.lines().count() < 1000, "{} is too long to read", path.display());
        let file = parse_snapshot_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let said = render_expected(&file);
        assert_eq!(said, committed(&path.with_extension("txt"), &said), "{}: {HOW}", path.display());
        let judgement = judged(&file);
        let explained = render_explain(&file, &judgement.verdict, &judgement.memory);
        let node = &judgement.verdict.node;
        let reason = node.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        let last = format!("\n   node  {}{reason}", node.state.to_string().to_uppercase());
        assert!(explained.contains(&last), "{}: {last:?} is not in\n{explained}", path.display());
    }
}

/// A test that is renamed or gone leaves no file behind. Files of nodes, in `nodes`, have no test.
#[test]
fn every_committed_file_has_its_test_and_every_expectation_its_file() {
    let mut tests = BTreeSet::new();
    for path in all("json") {
        let inside = path.strip_prefix(folder()).unwrap().to_str().unwrap();
        let Some((module, name)) = inside.split_once('/') else { panic!("{inside} is in no folder") };
        if module == "nodes" {
            continue;
        }
        let test = name.split('.').next().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(format!("{module}.rs"));
        assert!(read(&source).contains(&format!("#[test]\nfn {test}() {{")), "{inside} has no test in {module}.rs");
        tests.insert((module.to_owned(), test.to_owned()));
    }
    assert!(tests.len() > 80 || may_write(), "{} tests", tests.len());
    for path in all("txt") {
        let name = path.to_str().unwrap();
        let of = name.strip_suffix(".explain.txt").or_else(|| name.strip_suffix(".txt")).unwrap();
        assert!(may_write() || Path::new(&format!("{of}.json")).exists(), "{name} is beside no file");
    }
}

fn drop_nulls(tree: &mut Value) {
    match tree {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(members) => members.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[test]
fn a_file_laid_out_for_people_is_the_same_json() {
    let odd = json!({"text": "a \" b \\ {[,:]}".repeat(20), "list": [1, [2, {"three": []}], "x".repeat(200)], "empty": {}, "null": null});
    for mut tree in [tree(&faults::shared()), odd] {
        let text = lay_out(&tree.to_string());
        drop_nulls(&mut tree);
        assert!(serde_json::from_str::<Value>(&text).unwrap() == tree, "{text}");
        assert!(text.lines().count() > 3, "{text}");
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
    assert!(matches!(parse_snapshot_file(""), Err(ReplayError::Empty)));
    for end in [1, 100, text.len() / 2, text.len() - 1] {
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
