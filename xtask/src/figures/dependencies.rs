//! `gwready-core` stays pure: what it may depend on, directly and through others.
//!
//! Reads cargo's own metadata; development dependencies are free.

use super::Finding;
use crate::command::Step;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeSet;

/// Direct dependencies that `gwready-core` may have.
const ALLOWED: &[&str] = &["ipnet", "serde", "serde_json", "thiserror"];
/// Crates that talk to an operating system or run tasks: none of them, at any depth.
const FOREIGN: &[&str] =
    &["async-std", "aya", "futures", "hyper", "libc", "mio", "netlink-sys", "nix", "procfs", "rustix", "smol", "socket2", "tokio"];

/// Normal dependencies of `gwready-core`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CoreDependencies {
    direct: BTreeSet<String>,
    all: BTreeSet<String>,
}

pub(super) fn read() -> Result<CoreDependencies> {
    let text = Step::cargo().args(["metadata", "--format-version", "1", "--locked"]).read()?;
    parse(&serde_json::from_str(&text).context("cargo metadata printed no JSON")?).context("cargo metadata does not know gwready-core")
}

pub(super) fn judge(found: &CoreDependencies) -> Vec<Finding> {
    let finding = |name: &String, message: &str| Finding {
        rule: "core-dependencies",
        subject: name.clone(),
        message: format!("{message} (allowed: {})", ALLOWED.join(", ")),
    };
    let direct = found.direct.iter().filter(|name| !ALLOWED.contains(&name.as_str()));
    let foreign = found.all.iter().filter(|name| FOREIGN.contains(&name.as_str()) && !found.direct.contains(*name));
    direct
        .map(|name| finding(name, "gwready-core depends on it"))
        .chain(foreign.map(|name| finding(name, "gwready-core reaches it through another crate")))
        .collect()
}

fn parse(metadata: &Value) -> Option<CoreDependencies> {
    let name_of = |id: &str| {
        let packages = metadata["packages"].as_array()?;
        let package = packages.iter().find(|package| package["id"] == id)?;
        package["name"].as_str().map(str::to_owned)
    };
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let core = nodes.iter().filter_map(|node| node["id"].as_str()).find(|id| name_of(id).as_deref() == Some("gwready-core"))?;
    let normal = |id: &str| -> Vec<String> {
        let node = nodes.iter().find(|node| node["id"] == id);
        let dependencies = node.and_then(|node| node["deps"].as_array()).map_or(&[][..], Vec::as_slice);
        dependencies
            .iter()
            .filter(|dependency| is_normal(dependency))
            .filter_map(|dependency| dependency["pkg"].as_str())
            .map(str::to_owned)
            .collect()
    };
    let direct = normal(core);
    let mut open = direct.clone();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id.clone()) {
            open.extend(normal(&id));
        }
    }
    Some(CoreDependencies {
        direct: direct.iter().filter_map(|id| name_of(id)).collect(),
        all: seen.iter().filter_map(|id| name_of(id)).collect(),
    })
}

/// Neither a development nor a build dependency, for a Linux host.
fn is_normal(dependency: &Value) -> bool {
    dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata(core_depends_on: &str, kind: Option<&str>) -> Value {
        let dependency = |id: &str, kind: Option<&str>| json!({"pkg": id, "dep_kinds": [{"kind": kind, "target": null}]});
        json!({
            "packages": [
                {"id": "c", "name": "gwready-core"}, {"id": "s", "name": "serde"},
                {"id": "t", "name": "tokio"}, {"id": "p", "name": "proptest"},
            ],
            "resolve": {"nodes": [
                {"id": "c", "deps": [dependency(core_depends_on, kind)]},
                {"id": "s", "deps": []},
                {"id": "p", "deps": [dependency("t", None)]},
                {"id": "t", "deps": []},
            ]},
        })
    }

    fn subjects(metadata: &Value) -> Vec<String> {
        let found = parse(metadata).unwrap_or_default();
        judge(&found).into_iter().map(|finding| finding.subject).collect()
    }

    #[test]
    fn allowed_and_development_dependencies_pass() {
        assert_eq!(subjects(&metadata("s", None)), Vec::<String>::new());
        assert_eq!(subjects(&metadata("p", Some("dev"))), Vec::<String>::new());
    }

    #[test]
    fn a_runtime_is_found_at_any_depth() {
        assert_eq!(subjects(&metadata("t", None)), ["tokio"]);
        assert_eq!(subjects(&metadata("p", None)), ["proptest", "tokio"]);
    }

    #[test]
    fn metadata_without_the_crate_is_no_clean_bill() {
        assert_eq!(parse(&json!({"packages": [], "resolve": {"nodes": []}})), None);
    }
}
