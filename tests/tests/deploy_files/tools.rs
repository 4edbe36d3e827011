//! The tools of `cargo xtask setup`, and YAML as JSON values.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The checkout.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file or folder of `deploy/`.
pub(crate) fn deploy(path: &str) -> PathBuf {
    repository().join("deploy").join(path)
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `XTASK_KUBERNETES_TOOLS`, else the cache that `cargo xtask setup` fills.
pub(crate) fn kubernetes_tool(name: &str) -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let folder = variable("XTASK_KUBERNETES_TOOLS").unwrap_or_else(|| {
        let cache = variable("XDG_CACHE_HOME").unwrap_or_else(|| variable("HOME").unwrap().join(".cache"));
        cache.join("gwready/kubernetes-2.2.2-1.37.0")
    });
    let path = folder.join(name);
    assert!(path.exists(), "{}: run `cargo xtask setup`", path.display());
    path
}

/// Runs a command that must succeed and returns its standard output.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail and returns all that it said.
pub(crate) fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(!output.status.success(), "{command:?} succeeded\n{}", said(&output));
    said(&output)
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// `helm template` of the chart with `--set` values. helm keeps its files in a folder of this call alone.
pub(crate) fn helm_template(settings: &[&str]) -> Command {
    let mut command = Command::new(kubernetes_tool("helm"));
    command.args(["template", "gwready"]).arg(deploy("helm/gwready")).args(["--namespace", "gwready-system"]);
    for setting in settings {
        command.args(["--set-json", setting]);
    }
    command
}

/// The chart with its default values.
pub(crate) fn chart() -> Vec<Value> {
    objects(&succeed(&mut helm_template(&[])))
}

/// The chart with everything that is optional.
pub(crate) const EVERYTHING: [&str; 3] =
    ["podMonitor={\"enabled\":true}", "prometheusRule={\"enabled\":true}", "dashboard={\"enabled\":true}"];

/// All documents of a YAML text, empty ones left out.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    all.into_iter().filter(|object| !object.is_null()).collect()
}

/// The one object of a kind.
pub(crate) fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}: {} objects", found.len());
    found[0]
}

/// The objects must pass the strict schemas of a minor version of Kubernetes. Objects of other APIs have none there.
pub(crate) fn validate(minor: &str, objects: &[Value]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        if !object["apiVersion"].as_str().unwrap().contains(".coreos.com/") {
            let file = folder.path().join(format!("{number}.yaml"));
            // JSON is YAML.
            std::fs::write(&file, object.to_string()).unwrap();
            files.push(file);
        }
    }
    assert!(!files.is_empty());
    Command::new("python3")
        .args(["-W", "ignore", "-m", "kubernetes_validate", "--strict", "--kubernetes-version", minor])
        .args(files)
        .env("PYTHONPATH", kubernetes_tool("python"))
        .output()
        .unwrap()
}
