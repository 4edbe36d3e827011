//! The kustomize base is the chart with its default values, and the monitoring component its optional parts.

use std::process::Command;

use serde_json::Value;

use crate::tools::{EVERYTHING, deploy, helm_template, kubernetes_tool, objects, only, read, said, succeed, validate};

fn kustomize(folder: &str) -> Vec<Value> {
    objects(&succeed(Command::new(kubernetes_tool("kubectl")).arg("kustomize").arg(deploy(folder))))
}

/// Without what only one of the two tools adds, in the order of kind and name.
fn comparable(mut objects: Vec<Value>) -> Vec<Value> {
    objects.retain(|object| object["kind"] != "Namespace");
    let generated = objects.iter().filter(|object| object["kind"] == "ConfigMap").map(|object| object["metadata"]["name"].clone());
    let configuration = generated.filter_map(|name| name.as_str().map(str::to_owned)).find(|name| !name.ends_with("-dashboard")).unwrap();
    for object in &mut objects {
        for label in ["app.kubernetes.io/managed-by", "helm.sh/chart"] {
            object["metadata"]["labels"].as_object_mut().unwrap().remove(label);
        }
        if object["metadata"]["name"] == configuration.as_str() {
            object["metadata"]["name"] = "gwready".into();
        }
        if object["kind"] == "DaemonSet" {
            let template = &mut object["spec"]["template"];
            template["metadata"]["annotations"].as_object_mut().unwrap().remove("checksum/config");
            for volume in template["spec"]["volumes"].as_array_mut().unwrap() {
                if volume.pointer("/configMap/name").is_some_and(|name| *name == configuration.as_str()) {
                    volume["configMap"]["name"] = "gwready".into();
                }
            }
        }
        if object["kind"] == "ConfigMap" {
            for (_, text) in object["data"].as_object_mut().unwrap() {
                *text = text.as_str().unwrap().trim_end().into();
            }
        }
    }
    objects.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
    objects
}

fn assert_same(ours: Vec<Value>, charts: Vec<Value>) {
    let (ours, charts) = (comparable(ours), comparable(charts));
    assert_eq!(ours.len(), charts.len());
    for (ours, chart) in ours.iter().zip(&charts) {
        assert_eq!(serde_json::to_string_pretty(ours).unwrap(), serde_json::to_string_pretty(chart).unwrap());
    }
}

#[test]
fn the_base_is_the_chart_with_default_values() {
    assert_same(kustomize("kustomize/base"), objects(&succeed(&mut helm_template(&[]))));
}

#[test]
fn the_full_set_is_the_chart_with_everything() {
    assert_same(kustomize("kustomize/full"), objects(&succeed(&mut helm_template(&EVERYTHING))));
}

#[test]
fn it_is_valid_and_its_namespace_lets_the_agent_in() {
    let objects = kustomize("kustomize/full");
    for minor in ["1.33", "1.35", "1.37"] {
        let output = validate(minor, &objects);
        assert!(output.status.success(), "{minor}: {}", said(&output));
    }
    let namespace = only(&objects, "Namespace");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
    for object in &objects {
        assert!(object["kind"] == "Namespace" || object["metadata"]["namespace"] == namespace["metadata"]["name"]);
    }
}

#[test]
fn a_changed_configuration_has_another_name() {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(deploy("kustomize/base")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let name = |folder: &std::path::Path| {
        let objects = objects(&succeed(Command::new(kubernetes_tool("kubectl")).arg("kustomize").arg(folder)));
        only(&objects, "ConfigMap")["metadata"]["name"].clone()
    };
    let before = name(copy.path());
    let file = copy.path().join("gwready.yaml");
    std::fs::write(&file, format!("ports: [443]\n{}", read(&file))).unwrap();
    assert_ne!(before, name(copy.path()));
}
