//! The chart: what it renders is valid, what it refuses, and that a roll-out works as its comments say.

use serde_json::{Value, json};

use crate::tools::{EVERYTHING, chart, fail, helm_template, objects, only, said, succeed, validate};

/// The oldest that the chart takes, one in the middle, the newest that has schemas.
const MINORS: [&str; 3] = ["1.33", "1.35", "1.37"];

#[test]
fn everything_that_it_renders_is_valid_in_three_minor_versions_of_kubernetes() {
    let objects = objects(&succeed(&mut helm_template(&EVERYTHING)));
    assert_eq!(objects.len(), 6);
    for minor in MINORS {
        let output = validate(minor, &objects);
        assert!(output.status.success(), "{minor}: {}", said(&output));
    }
}

#[test]
fn the_validation_finds_a_mistyped_field() {
    let mut objects = chart();
    for object in &mut objects {
        if object["kind"] == "DaemonSet" {
            object["spec"]["template"]["spec"]["hostNetwrok"] = json!(true);
        }
    }
    let output = validate(MINORS[0], &objects);
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("hostNetwrok"), "{}", said(&output));
}

#[test]
fn values_that_would_do_nothing_or_harm_are_refused() {
    for (setting, named) in [
        ("nodeSelektor={\"role\":\"gateway\"}", "nodeSelektor"),
        ("podMonitor={\"enabledd\":true}", "enabledd"),
        ("capabilities=[\"SYS_ADMIN\"]", "capabilities"),
        ("config={\"host\":{\"proc\":\"/x\"}}", "config"),
        ("config={\"state_dir\":\"/x\"}", "config"),
        ("terminationGracePeriodSeconds=2", "terminationGracePeriodSeconds"),
        ("image={\"repository\":\"\"}", "image"),
    ] {
        let text = fail(&mut helm_template(&[setting]));
        assert!(text.contains(named) && text.contains("schema"), "{setting}: {text}");
    }
}

#[test]
fn it_refuses_a_kubernetes_that_has_no_apparmor_field() {
    assert!(fail(helm_template(&[]).args(["--kube-version", "1.29.0"])).contains("kubeVersion"));
    succeed(helm_template(&[]).args(["--kube-version", "v1.30.4+rke2r1"]));
}

#[test]
fn two_agents_can_share_a_node_during_a_roll_out() {
    let objects = chart();
    let spec = &only(&objects, "DaemonSet")["spec"];
    assert_eq!(spec["updateStrategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
    assert_eq!(spec["template"]["spec"]["hostNetwork"], true);
    for container in containers(&spec["template"]["spec"]) {
        // With hostNetwork a declared port becomes a hostPort, and the surge pod could never be placed.
        assert_eq!(container.get("ports"), None);
        for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
            if let Some(probe) = container.get(kind) {
                assert!(probe["exec"]["command"].is_array(), "{kind} must reach the agent of its own pod");
            }
        }
    }
}

#[test]
fn the_agent_stays_where_the_gateway_is() {
    let objects = chart();
    let pod = &only(&objects, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"role": "gateway"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert!(objects.iter().all(|object| !object["kind"].as_str().unwrap().contains("Role")), "the agent needs no API");
}

#[test]
fn a_changed_configuration_rolls_the_pods() {
    let checksum = |setting: &str| {
        let objects = objects(&succeed(&mut helm_template(&[setting])));
        only(&objects, "DaemonSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone()
    };
    assert!(checksum("config={}").is_string());
    assert_ne!(checksum("config={}"), checksum("config={\"ports\":[443]}"));
}

#[test]
fn a_digest_wins_over_a_tag() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let objects = objects(&succeed(&mut helm_template(&[&format!("image={{\"tag\":\"x\",\"digest\":\"{digest}\"}}")])));
    for container in containers(&only(&objects, "DaemonSet")["spec"]["template"]["spec"]) {
        assert_eq!(container["image"], format!("ghcr.io/gwready/gwready@{digest}"));
    }
}

#[test]
fn prometheus_is_sent_to_the_admin_port_that_is_configured() {
    let replacements = |settings: &[&str]| {
        let objects = objects(&succeed(&mut helm_template(settings)));
        let relabelings = only(&objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["relabelings"].clone();
        let to_address = relabelings.as_array().unwrap().iter().filter(|step| step["targetLabel"] == "__address__");
        to_address.map(|step| step["replacement"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(replacements(&[EVERYTHING[0]]), ["$1:9681", "[$1]:9681"]);
    assert_eq!(replacements(&[EVERYTHING[0], "config={\"admin\":{\"listen\":\"[::]:19681\"}}"]), ["$1:19681", "[$1]:19681"]);
}

pub(crate) fn containers(pod: &Value) -> Vec<&Value> {
    ["initContainers", "containers"].iter().flat_map(|kind| pod[kind].as_array().unwrap()).collect()
}
