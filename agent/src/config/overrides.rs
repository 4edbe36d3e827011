//! Overrides: `GWREADY_…` variables and `--set path.to.key=value`. Values are YAML.

use serde_json::Value;

use super::faults::{Faults, Origin};
use super::given::Given;
use super::keys::{self, KEYS};
use super::yaml::parse_yaml;

/// Names the configuration file where `--config` is not given.
pub const CONFIG_VARIABLE: &str = "GWREADY_CONFIG";

/// Takes the variables of the environment that are ours.
pub(super) fn take_variables(given: &mut Given, variables: &[(String, String)], faults: &mut Faults) {
    for (name, text) in variables {
        if !name.starts_with("GWREADY_") || name == CONFIG_VARIABLE {
            continue;
        }
        let origin = Origin::Variable(name.clone());
        let Some(key) = KEYS.iter().find(|key| keys::variable(key.path) == *name) else {
            if !is_service_link(name, text) {
                faults.add(origin, "", "no key has this variable; docs/configuration.md lists all");
            }
            continue;
        };
        given.take_path(key.path, value_of(text), &origin, faults);
    }
}

/// YAML, or the text as it stands where it is none: `[::]:9680` must not need a second pair of quotes in a shell. What
/// should have been YAML is refused by its key's reader.
fn value_of(text: &str) -> Value {
    parse_yaml(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Takes the `--set` arguments, in their order.
pub(super) fn take_settings(given: &mut Given, settings: &[String], faults: &mut Faults) {
    for setting in settings {
        let Some((path, text)) = setting.split_once('=') else {
            faults.add(Origin::Set, setting, "must be path.to.key=value");
            continue;
        };
        given.take_path(path.trim(), value_of(text), &Origin::Set, faults);
    }
}

/// The kubelet gives every pod variables for the Services of its namespace: a Service named `gwready` yields
/// `GWREADY_SERVICE_HOST`, `GWREADY_PORT_9680_TCP_ADDR` and so on (kubernetes `pkg/kubelet/envvars`). They are not ours.
fn is_service_link(name: &str, text: &str) -> bool {
    let protocol_url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| text.starts_with(scheme));
    let per_port = |suffix: &str| ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| name.ends_with(&format!("{protocol}{suffix}")));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || protocol_url
        || (name.contains("_PORT_") && ["_PROTO", "_PORT", "_ADDR"].iter().any(|suffix| per_port(suffix)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> (Given, Faults) {
        let pairs: Vec<(String, String)> = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let (mut given, mut faults) = (Given::default(), Faults::default());
        take_variables(&mut given, &pairs, &mut faults);
        (given, faults)
    }

    #[test]
    fn variables_with_underscores_find_their_key() {
        let (given, faults) =
            variables(&[("GWREADY_TIMING_LB_POLL", "1s"), ("GWREADY_STATE_DIR", "/x"), ("GWREADY_PORTS", "[80]"), ("HOME", "/root")]);
        assert!(faults.is_empty(), "{faults}");
        assert_eq!(given.get("timing.lb_poll").map(|(value, _)| value.clone()), Some(json!("1s")));
        assert_eq!(given.get("state_dir").map(|(value, _)| value.clone()), Some(json!("/x")));
        assert_eq!(given.get("ports").map(|(value, _)| value.clone()), Some(json!([80])));
    }

    #[test]
    fn an_unknown_variable_is_a_fault() {
        let (_, faults) = variables(&[("GWREADY_PORTZ", "[80]"), ("GWREADY_HEALTH", "{}")]);
        assert_eq!(faults.iter().count(), 2);
        assert!(faults.to_string().contains("environment GWREADY_PORTZ"));
    }

    #[test]
    fn variables_that_the_kubelet_adds_for_services_are_left_alone() {
        let (given, faults) = variables(&[
            ("GWREADY_SERVICE_HOST", "10.0.0.1"),
            ("GWREADY_SERVICE_PORT", "9680"),
            ("GWREADY_SERVICE_PORT_HEALTH", "9680"),
            ("GWREADY_PORT", "tcp://10.0.0.1:9680"),
            ("GWREADY_PORT_9680_TCP", "tcp://10.0.0.1:9680"),
            ("GWREADY_PORT_9680_TCP_PROTO", "tcp"),
            ("GWREADY_PORT_9680_TCP_ADDR", "10.0.0.1"),
            ("GWREADY_METRICS_PORT_9681_TCP_PORT", "9681"),
            ("GWREADY_CONFIG", "/etc/x.yaml"),
        ]);
        assert!(faults.is_empty(), "{faults}");
        assert_eq!(given, Given::default());
    }

    #[test]
    fn settings_are_yaml_and_the_last_one_wins() {
        let (mut given, mut faults) = (Given::default(), Faults::default());
        let settings =
            ["ebpf=false", "ports=[80, 443]", "ebpf=true", "nonsense", "health.listen=[::]:80", "log.levle=info"].map(str::to_owned);
        take_settings(&mut given, &settings, &mut faults);
        assert_eq!(given.get("ebpf").map(|(value, _)| value.clone()), Some(json!(true)));
        assert_eq!(given.get("ports").map(|(value, _)| value.clone()), Some(json!([80, 443])));
        let text = faults.to_string();
        assert!(text.contains("--set: nonsense: must be path.to.key=value") && text.contains("did you mean log.level?"), "{text}");
        assert_eq!(given.get("health.listen").map(|(value, _)| value.clone()), Some(json!("[::]:80")), "no YAML, so plain text");
        assert_eq!(faults.iter().count(), 2, "{text}");
    }
}
