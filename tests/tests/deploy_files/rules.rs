//! Alert rules: promtool takes them, each has a unit test that sees it fire, and they use what the agent has.

use std::process::Command;

use serde_json::Value;

use crate::metric_names::unknown_names;
use crate::tools::{deploy, fail, objects, read, repository, succeed};

const RULES: &str = "helm/gwready/files/rules.yaml";

fn rules() -> Vec<Value> {
    let file = &objects(&read(&deploy(RULES)))[0];
    file["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn names(kind: &str) -> Vec<String> {
    rules().iter().filter_map(|rule| rule[kind].as_str()).map(str::to_owned).collect()
}

/// Names of recording rules.
pub(crate) fn recorded() -> Vec<String> {
    names("record")
}

#[test]
fn promtool_takes_the_rules_and_their_unit_tests_pass() {
    succeed(Command::new("promtool").args(["check", "rules"]).arg(deploy(RULES)));
    succeed(Command::new("promtool").args(["test", "rules"]).arg(deploy("prometheus/tests.yaml")));
}

#[test]
fn the_unit_tests_notice_a_rule_that_never_fires() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("helm/gwready/files")).unwrap();
    std::fs::create_dir_all(folder.path().join("prometheus")).unwrap();
    std::fs::copy(deploy("prometheus/tests.yaml"), folder.path().join("prometheus/tests.yaml")).unwrap();
    let broken = read(&deploy(RULES)).replace("state=\"down\"", "state=\"dwon\"");
    std::fs::write(folder.path().join(RULES), broken).unwrap();
    let said = fail(Command::new("promtool").args(["test", "rules"]).arg(folder.path().join("prometheus/tests.yaml")));
    assert!(said.contains("GwreadyNodeDown"), "{said}");
}

#[test]
fn every_alert_fires_in_a_unit_test() {
    let tests = &objects(&read(&deploy("prometheus/tests.yaml")))[0];
    let cases = tests["tests"].as_array().unwrap().iter().filter_map(|test| test["alert_rule_test"].as_array()).flatten();
    let fired: Vec<&str> = cases
        .filter(|case| case["exp_alerts"].as_array().is_some_and(|list| !list.is_empty()))
        .filter_map(|case| case["alertname"].as_str())
        .collect();
    let alerts = names("alert");
    assert!(alerts.len() > 10);
    for alert in alerts {
        assert!(fired.contains(&alert.as_str()), "{alert} is never seen to fire");
    }
}

#[test]
fn every_metric_label_and_value_is_one_of_the_agents() {
    for rule in rules() {
        assert_eq!(unknown_names(rule["expr"].as_str().unwrap(), &recorded()), Vec::<String>::new(), "{rule}");
    }
}

#[test]
fn every_alert_says_what_happened_and_what_to_do() {
    for rule in rules().iter().filter(|rule| rule["alert"].is_string()) {
        assert!(["info", "warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{rule}");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| text.len() > 20), "{rule}");
        }
    }
    assert!(repository().join("docs/conditions/HostPort.md").is_file(), "the folder that the alerts point to");
}
