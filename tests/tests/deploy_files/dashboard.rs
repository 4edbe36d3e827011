//! The Grafana dashboard: its expressions are valid and use what the agent has, its panels are well placed.

use std::process::Command;

use serde_json::{Value, json};

use crate::metric_names::unknown_names;
use crate::rules::recorded;
use crate::tools::{deploy, read, succeed};

pub(crate) fn dashboard() -> Value {
    serde_json::from_str(&read(&deploy("helm/gwready/files/dashboard.json"))).unwrap()
}

fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let annotations = dashboard["annotations"]["list"].as_array().unwrap().iter();
    targets.chain(annotations).map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// An expression as Grafana would send it, for all nodes.
pub(crate) fn expand(text: &str) -> String {
    text.replace("$instance", ".*").replace("$__rate_interval", "1m")
}

#[test]
fn every_metric_label_and_value_is_one_of_the_agents() {
    for expression in expressions(&dashboard()) {
        assert_eq!(unknown_names(&expression, &recorded()), Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn promtool_takes_every_expression() {
    let rules: Vec<Value> = expressions(&dashboard())
        .iter()
        .enumerate()
        .map(|(number, text)| json!({"record": format!("panel:{number}"), "expr": expand(text)}))
        .collect();
    assert!(rules.len() > 20);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string()).unwrap();
    succeed(Command::new("promtool").args(["check", "rules"]).arg(file));
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = std::collections::BTreeMap::new();
    for (number, panel) in panels.iter().enumerate() {
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24 && place("h") > 0, "{}", panel["title"]);
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert_eq!(taken.insert((x, y), number), None, "{} lies on another panel", panel["title"]);
            }
        }
        assert!(panels.iter().filter(|other| other["id"] == panel["id"]).count() == 1);
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        }
    }
}

#[test]
fn the_first_screen_says_which_nodes_since_when_and_why() {
    let dashboard = dashboard();
    let first: Vec<&Value> =
        dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["gridPos"]["y"].as_u64().unwrap() < 16).collect();
    let table = first.iter().find(|panel| panel["type"] == "table").unwrap();
    let texts: Vec<&str> = table["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(texts.iter().any(|text| text.contains("gwready:not_up_reason")), "why");
    assert!(texts.iter().any(|text| text.contains("timestamp(gwready_node_state")), "since when");
    assert!(first.iter().any(|panel| panel["type"] == "state-timeline"), "which nodes");
}

#[test]
fn the_copy_for_kustomize_is_the_same() {
    assert_eq!(read(&deploy("kustomize/monitoring/dashboard.json")), read(&deploy("helm/gwready/files/dashboard.json")));
}
