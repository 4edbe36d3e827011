//! The dashboard's JSON, strictly: panel types, and for each the keys and words that Grafana knows. A key that Grafana
//! does not know it ignores without a word. And the first row's answers, computed by Prometheus from made-up nodes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::dashboard::{dashboard, expand};
use crate::tools::{deploy, fail, succeed};

const PANEL: [&str; 9] = ["datasource", "description", "fieldConfig", "gridPos", "id", "options", "targets", "title", "type"];
/// Ids of Grafana's units (packages/grafana-data/src/valueFormats/categories.ts) that panels here may have.
const UNITS: [&str; 9] = ["none", "s", "bytes", "percentunit", "reqps", "ops", "cps", "pps", "dateTimeFromNow"];

/// Options of a panel type.
fn options(kind: &str) -> &'static [&'static str] {
    match kind {
        "stat" => &["colorMode", "graphMode", "justifyMode", "orientation", "reduceOptions", "textMode"],
        "table" => &["cellHeight", "footer", "showHeader", "sortBy"],
        "state-timeline" => &["alignValue", "legend", "mergeValues", "rowHeight", "showValue", "tooltip"],
        "timeseries" => &["legend", "tooltip"],
        other => panic!("no panel type {other}"),
    }
}

fn transformation(id: &str) -> &'static [&'static str] {
    match id {
        "joinByField" => &["byField", "mode"],
        "filterFieldsByName" => &["include", "exclude"],
        "filterByValue" => &["filters", "match", "type"],
        "organize" => &["excludeByName", "indexByName", "renameByName"],
        other => panic!("no transformation {other}"),
    }
}

fn only_known(value: &Value, known: &[&str], where_: &str) {
    for key in value.as_object().into_iter().flat_map(|object| object.keys()) {
        assert!(known.contains(&key.as_str()), "{where_}: {key}");
    }
}

fn panels(dashboard: &Value) -> Vec<Value> {
    dashboard["panels"].as_array().unwrap().clone()
}

fn overrides(panel: &Value) -> &[Value] {
    panel["fieldConfig"]["overrides"].as_array().unwrap()
}

#[test]
fn panels_have_only_what_grafana_knows() {
    for panel in panels(&dashboard()) {
        let title = panel["title"].as_str().unwrap();
        assert!(!title.is_empty());
        if panel["type"] == "row" {
            only_known(&panel, &["collapsed", "gridPos", "id", "panels", "title", "type"], title);
            assert_eq!(panel["panels"], json!([]), "{title}: an open row holds none");
            continue;
        }
        let table = panel["type"] == "table";
        let known: Vec<&str> = PANEL.into_iter().chain(table.then_some("transformations")).collect();
        only_known(&panel, &known, title);
        only_known(&panel["options"], options(panel["type"].as_str().unwrap()), title);
        only_known(&panel["fieldConfig"], &["defaults", "overrides"], title);
        let defaults = &panel["fieldConfig"]["defaults"];
        only_known(defaults, &["custom", "mappings", "max", "min", "thresholds", "unit"], title);
        assert!(defaults["unit"].as_str().is_none_or(|unit| UNITS.contains(&unit)), "{title}: {}", defaults["unit"]);
        if panel["type"] == "stat" {
            assert_eq!(panel["options"]["reduceOptions"]["calcs"], json!(["lastNotNull"]), "{title}");
            // The first step is the colour of everything below the others.
            assert!(defaults["thresholds"]["steps"][0]["value"].is_null(), "{title}");
        }
        for property in overrides(&panel).iter().flat_map(|rule| rule["properties"].as_array().unwrap()) {
            match property["id"].as_str().unwrap() {
                "unit" => assert!(UNITS.contains(&property["value"].as_str().unwrap()), "{title}: {property}"),
                known => assert!(["mappings", "custom.cellOptions"].contains(&known), "{title}: {property}"),
            }
        }
        check_targets(&panel, title);
        for step in panel["transformations"].as_array().into_iter().flatten() {
            only_known(step, &["id", "options"], title);
            only_known(&step["options"], transformation(step["id"].as_str().unwrap()), title);
        }
    }
}

/// A table shows one moment, everything else a course; each query of a panel has a letter of its own.
fn check_targets(panel: &Value, title: &str) {
    let mut letters = BTreeSet::new();
    let targets = panel["targets"].as_array().unwrap();
    assert!(!targets.is_empty(), "{title}");
    for target in targets {
        only_known(target, &["datasource", "editorMode", "expr", "format", "instant", "legendFormat", "range", "refId"], title);
        let table = panel["type"] == "table";
        assert_eq!((&target["instant"], &target["range"]), (&json!(table), &json!(!table)), "{title}");
        assert_eq!(target.get("format"), table.then_some(&json!("table")), "{title}");
        assert_eq!(target["datasource"], json!({"type": "prometheus", "uid": "${datasource}"}), "{title}");
        assert!(letters.insert(target["refId"].as_str().unwrap()), "{title}: {letters:?}");
    }
}

#[test]
fn every_variable_in_use_is_defined() {
    let dashboard = dashboard();
    let names = dashboard["templating"]["list"].as_array().unwrap().iter().map(|variable| variable["name"].as_str().unwrap());
    let defined: BTreeSet<&str> = names.chain(["__rate_interval"]).collect();
    let text = dashboard.to_string();
    let used = regex_lite::Regex::new(r"\$\{?([A-Za-z_]+)").unwrap();
    // What Grafana itself puts for a variable's "All".
    let used: BTreeSet<&str> =
        used.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()).filter(|name| *name != "__all").collect();
    assert_eq!(used, defined);
}

/// Names of the columns of a table, left to right.
fn columns(panel: &Value) -> Vec<String> {
    let step = |id: &str| panel["transformations"].as_array().unwrap().iter().find(|step| step["id"] == id).unwrap()["options"].clone();
    let (order, renamed) = (step("organize")["indexByName"].clone(), step("organize")["renameByName"].clone());
    let mut shown: Vec<String> =
        step("filterFieldsByName")["include"]["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    shown.sort_by_key(|name| order[name].as_u64().unwrap());
    shown.into_iter().map(|name| renamed[&name].as_str().map_or(name, str::to_owned)).collect()
}

/// The table that stands in the first row.
fn first_table() -> Value {
    panels(&dashboard()).into_iter().find(|panel| panel["type"] == "table" && panel["gridPos"]["y"] == 0).unwrap()
}

#[test]
fn the_table_of_the_first_row_has_node_state_reason_and_since_when() {
    let table = first_table();
    assert_eq!(columns(&table), ["node", "state", "reason", "last up"]);
    let overridden: Vec<&str> = overrides(&table).iter().map(|rule| rule["matcher"]["options"].as_str().unwrap()).collect();
    assert_eq!(overridden, ["last up", "state"], "the columns as they are called after the renaming");
    let letters: Vec<&str> = table["targets"].as_array().unwrap().iter().map(|target| target["refId"].as_str().unwrap()).collect();
    assert_eq!(letters, ["A", "B", "C"], "Value #B and Value #C");
}

/// Asks Prometheus, by promtool's unit tests, after ten minutes in which `a` was up, and `b` and `c` down for HostPort; `c` is
/// back. Samples come every 15 s, from 0 s on; the last one with `b` up at 285 s.
fn asked(questions: &[(String, Value)], folder: &Path) -> Command {
    let series = |name: &str, values: &str| json!({"series": name, "values": values});
    let state =
        |node: &str, state: &str, values: &str| series(&format!("gwready_node_state{{instance=\"{node}\",state=\"{state}\"}}"), values);
    let input = [
        state("a", "up", "1x60"),
        state("a", "drain", "0x60"),
        state("a", "down", "0x60"),
        state("c", "up", "1x19 0x38 1x2"),
        state("c", "drain", "0x60"),
        state("c", "down", "0x19 1x38 0x2"),
        state("b", "up", "1x19 0x40"),
        state("b", "drain", "0x60"),
        state("b", "down", "0x19 1x40"),
        series("gwready_not_up_seconds_total{instance=\"a\",reason=\"HostPort\"}", "7x60"),
        series("gwready_not_up_seconds_total{instance=\"b\",reason=\"HostPort\"}", "0x19 0+15x40"),
        series("gwready_not_up_seconds_total{instance=\"c\",reason=\"HostPort\"}", "0x19 0+15x38 570x2"),
    ];
    let asked: Vec<Value> =
        questions.iter().map(|(expr, samples)| json!({"expr": expr, "eval_time": "15m", "exp_samples": samples})).collect();
    let tests = json!({
        "rule_files": [deploy("helm/gwready/files/rules.yaml").canonicalize().unwrap()],
        "evaluation_interval": "15s",
        "tests": [{"interval": "15s", "input_series": input, "promql_expr_test": asked}],
    });
    let file = folder.join("tests.yaml");
    std::fs::write(&file, tests.to_string()).unwrap();
    let mut command = Command::new("promtool");
    command.args(["test", "rules"]).arg(file);
    command
}

#[test]
fn the_first_row_says_which_node_since_when_and_why() {
    let table = first_table();
    let query = |number: usize| expand(table["targets"][number]["expr"].as_str().unwrap());
    let stat = |title: &str| {
        let panel = panels(&dashboard()).into_iter().find(|panel| panel["title"] == title).unwrap();
        assert_eq!(panel["gridPos"]["y"], 0, "{title}");
        expand(panel["targets"][0]["expr"].as_str().unwrap())
    };
    let sample = |labels: &str, value: u64| json!({"labels": labels, "value": value});
    let questions = [
        (stat("Nodes up"), json!([sample("gwready:nodes_up", 2)])),
        (stat("Nodes not up"), json!([sample("{}", 1)])),
        (query(0), json!([sample("gwready:not_up_reason{instance=\"b\",reason=\"HostPort\"}", 1)])),
        // Milliseconds, in steps of 30 s.
        (query(1), json!([sample("{instance=\"a\"}", 900_000), sample("{instance=\"b\"}", 270_000), sample("{instance=\"c\"}", 900_000)])),
        (query(2), json!([sample("{instance=\"a\"}", 2), sample("{instance=\"b\"}", 0), sample("{instance=\"c\"}", 2)])),
    ];
    let folder = tempfile::tempdir().unwrap();
    succeed(&mut asked(&questions, folder.path()));
    let wrong = [(query(2).replace("up", "drain"), questions[4].1.clone())];
    assert!(fail(&mut asked(&wrong, folder.path())).contains("FAILED"), "a query that says something else is noticed");
}
