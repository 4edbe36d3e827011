//! The rule against Cilium's real datapath: every answer of every golden case.

#[path = "support/golden.rs"]
mod golden;

use std::collections::BTreeSet;

use golden::{Case, render, settings};
use serde_json::Value;

/// Versions whose answer equals the case's own where the case does not list them.
const VERSIONS: [&str; 5] = ["1.17.1", "1.18bp", "1.19dev", "1.20bp", "main"];

/// What two answers must have in common: kind, target, drop code, whether ICMP answers, the mark, and the members of a share.
fn essence(answer: &Value) -> Value {
    let members: BTreeSet<String> =
        answer["any"].as_array().map(|any| any.iter().map(|one| essence(one).to_string()).collect()).unwrap_or_default();
    let code = answer["reason"].as_str().filter(|_| answer["kind"] == "drop").and_then(|reason| reason.split(' ').next());
    let to = if members.is_empty() { answer["to"].clone() } else { Value::Null };
    let kind = if members.is_empty() { answer["kind"].clone() } else { Value::from("random") };
    serde_json::json!({"kind": kind, "to": to, "code": code, "answer": answer["answer"], "mark": answer["mark"], "members": members})
}

/// Compares every answer of every line; returns how many lines and answers there were.
fn compare(text: &str) -> Result<(usize, usize, Vec<String>), String> {
    let (mut lines, mut answers, mut wrong) = (0, 0, Vec::new());
    for line in text.lines() {
        let case = Case::parse(line)?;
        lines += 1;
        let mut hold = |label: &str, proto0: bool, expected: &Value| -> Result<(), String> {
            answers += 1;
            let ours = render(&case.json["packet"], &case.decide(&settings(label)?, proto0)?.outcome);
            // Of a share, the older versions' runs recorded one draw each.
            let drawn = case.json["outcome"]["any"].is_array() && expected["any"].is_null();
            let members = ours["any"].as_array().filter(|_| drawn);
            if essence(&ours) != essence(expected) && !members.is_some_and(|any| any.iter().any(|one| essence(one) == essence(expected))) {
                wrong.push(format!("{} [{label}{}]: {ours} instead of {expected}", case.name, if proto0 { ", proto 0" } else { "" }));
            }
            Ok(())
        };
        hold("1.19dev", false, &case.json["outcome"])?;
        let empty = serde_json::Map::new();
        let other = case.json["other_versions"].as_object().unwrap_or(&empty);
        for (label, expected) in other {
            hold(label, false, expected)?;
        }
        for version in VERSIONS.into_iter().filter(|version| !other.keys().any(|label| label.starts_with(version))) {
            hold(version, false, &case.json["outcome"])?;
        }
        if !other.keys().any(|label| label.starts_with("1.16")) {
            hold("1.16.4", false, &case.json["outcome"])?;
        }
        for (label, expected) in case.json["proto0_form"]["outcomes"].as_object().unwrap_or(&empty) {
            hold(label, true, expected)?;
        }
    }
    Ok((lines, answers, wrong))
}

fn holds(text: &str, lines: usize, at_least: usize) {
    let (seen, answers, wrong) = compare(text).unwrap_or_else(|error| (0, 0, vec![error]));
    assert!(wrong.is_empty(), "{} of {answers} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(seen, lines);
    assert!(answers >= at_least, "{answers} answers compared");
}

#[test]
fn the_rule_answers_every_named_case_as_the_real_datapath_did() {
    holds(include_str!("golden/datapath-outcomes.jsonl"), 162, 162 * 6 + 140 * 5);
}

#[test]
fn the_rule_answers_every_random_case_as_the_real_datapath_did() {
    holds(include_str!("golden/datapath-outcomes-random.jsonl"), 381, 381 * 6);
}

#[test]
fn an_unknown_map_or_version_is_an_error() {
    let line = r#"{"name":"x","maps":{"cilium_new":[["00","00"]]},"packet":{"family":4,"src":"192.0.2.1","dst":"10.0.0.1","dport":80,"proto":"tcp","flags":"S"},"outcome":{"kind":"pass"}}"#;
    assert!(Case::parse(line).unwrap().answers().unwrap_err().contains("cilium_new"));
    assert!(settings("1.15").is_err());
    assert!(settings("1.19dev shiny=yes").is_err());
}
