//! Metrics, labels and label values that PromQL expressions name, compared with the agent's catalogue.

use gwready::metrics::catalog::{Kind, METRICS, Metric};
use gwready_core::condition::ConditionType;
use gwready_core::reason::Reason;
use gwready_core::render::sources::SOURCES;
use regex_lite::Regex;

/// Labels that Prometheus adds when it scrapes.
const TARGET_LABELS: [&str; 2] = ["instance", "job"];
/// Metrics of others that the rules use.
const FOREIGN: [&str; 2] = ["kube_daemonset_status_desired_number_scheduled", "kube_daemonset_status_number_available"];

fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| {
        let suffixes: &[&str] = if metric.kind == Kind::Histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
        suffixes.iter().any(|suffix| format!("{}{suffix}", metric.name()) == name)
    })
}

fn value_exists(label: &str, value: &str) -> bool {
    match label {
        "state" => ["up", "drain", "down"].contains(&value),
        "from" | "to" => ["up", "drain", "down"].contains(&value),
        "status" => ["true", "false", "unknown"].contains(&value),
        "type" => ConditionType::from_word(value).is_some(),
        "reason" => Reason::from_word(value).is_some(),
        "source" => SOURCES.contains(&value),
        "owner" => ["envoy", "foreign", "unknown"].contains(&value),
        _ => true,
    }
}

/// Everything in the expression that the agent does not have.
pub(crate) fn unknown_names(expression: &str, recorded: &[String]) -> Vec<String> {
    let selector = Regex::new(r"\b((?:gwready[_:]|process_|kube_)[a-z0-9_:]+)(\{[^}]*\})?").unwrap();
    let matcher = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)""#).unwrap();
    let mut unknown = Vec::new();
    for found in selector.captures_iter(expression) {
        let name = &found[1];
        let labels = match metric(name) {
            Some(metric) => Some(metric.labels),
            None if FOREIGN.contains(&name) || recorded.iter().any(|known| known == name) => None,
            None => {
                unknown.push(name.to_owned());
                continue;
            }
        };
        for matcher in matcher.captures_iter(found.get(2).map_or("", |text| text.as_str())) {
            let (label, pattern) = (&matcher[1], &matcher[2]);
            if labels.is_some_and(|labels| !labels.contains(&label) && !TARGET_LABELS.contains(&label)) {
                unknown.push(format!("{name}{{{label}}}"));
            }
            let known = |value: &str| value.starts_with('$') || value_exists(label, value);
            unknown.extend(pattern.split('|').filter(|value| !known(value)).map(|value| format!("{name}{{{label}={value}}}")));
        }
    }
    unknown
}

#[test]
fn a_wrong_metric_label_or_value_is_found() {
    let recorded = ["gwready:nodes".to_owned()];
    for (expression, expected) in [
        ("sum(gwready_node_state{state=\"up\"}) / gwready:nodes", vec![]),
        ("rate(gwready_pass_duration_seconds_bucket[5m])", vec![]),
        ("rate(gwready_pass_duration_seconds[5m])", vec!["gwready_pass_duration_seconds"]),
        ("gwready_nodes_state == 1", vec!["gwready_nodes_state"]),
        ("gwready:pool", vec!["gwready:pool"]),
        ("gwready_node_state{status=\"up\"}", vec!["gwready_node_state{status}", "gwready_node_state{status=up}"]),
        ("gwready_condition_reason{reason!~\"HostPort|HostPrt\"}", vec!["gwready_condition_reason{reason=HostPrt}"]),
    ] {
        assert_eq!(unknown_names(expression, &recorded), expected, "{expression}");
    }
}
