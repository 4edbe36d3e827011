//! The bill of materials: every crate that is linked into the agent, as CycloneDX 1.5 JSON.
//!
//! From cargo's own metadata; has no time and no serial number, so that it is the same for the same source.

use crate::command::Step;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// cargo's metadata for one target.
pub(super) fn metadata(target: &str) -> Result<Value> {
    let text = Step::cargo().args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]).read()?;
    serde_json::from_str(&text).context("cargo metadata printed no JSON")
}

/// The document, for a binary with this SHA-256.
pub(super) fn render(metadata: &Value, binary: &str) -> Result<String> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let root = packages.iter().find(|package| package["name"] == "gwready").context("cargo metadata does not know gwready")?;
    let linked = linked(metadata, root["id"].as_str().unwrap_or_default());
    let mut components: Vec<&Value> =
        packages.iter().filter(|package| package["id"].as_str().is_some_and(|id| linked.contains(id))).collect();
    components.sort_by_key(|package| (package["name"].to_string(), package["version"].to_string()));
    let components: Vec<Value> = components.into_iter().map(component).collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": "gwready",
            "name": "gwready",
            "version": root["version"],
            "licenses": [{"expression": root["license"]}],
            "hashes": [{"alg": "SHA-256", "content": binary}],
        }},
        "components": components,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(package: &Value) -> Value {
    let purl = format!("pkg:cargo/{}@{}", package["name"].as_str().unwrap_or_default(), package["version"].as_str().unwrap_or_default());
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": package["name"],
        "version": package["version"],
        "purl": purl,
    });
    if let Some(license) = package["license"].as_str() {
        // Older crates write `MIT/Apache-2.0`, which is no SPDX expression.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    component
}

/// Ids of all packages that `root` links, without itself: normal dependencies at any depth.
fn linked<'a>(metadata: &'a Value, root: &'a str) -> BTreeSet<&'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut open = vec![root];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        let node = nodes.iter().find(|node| node["id"] == id);
        for dependency in node.and_then(|node| node["deps"].as_array()).map_or(&[][..], Vec::as_slice) {
            let normal = dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
            if let Some(id) = dependency["pkg"].as_str().filter(|_| normal)
                && seen.insert(id)
            {
                open.push(id);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        let dependency = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        json!({
            "packages": [
                {"id": "g", "name": "gwready", "version": "0.1.0", "license": "Apache-2.0"},
                {"id": "b", "name": "b", "version": "2.0.0", "license": "MIT/Apache-2.0"},
                {"id": "a", "name": "a", "version": "1.0.0", "license": "MIT"},
                {"id": "t", "name": "test-only", "version": "1.0.0", "license": "MIT"},
            ],
            "resolve": {"nodes": [
                {"id": "g", "deps": [dependency("b", Value::Null), dependency("t", json!("dev"))]},
                {"id": "b", "deps": [dependency("a", Value::Null)]},
                {"id": "a", "deps": []},
            ]},
        })
    }

    #[test]
    fn it_lists_what_is_linked_at_any_depth_and_nothing_else() -> Result<()> {
        let document: Value = serde_json::from_str(&render(&sample(), "0a")?)?;
        let names: Vec<&str> =
            document["components"].as_array().into_iter().flatten().filter_map(|component| component["purl"].as_str()).collect();
        assert_eq!(names, ["pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0"]);
        assert_eq!(document["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["metadata"]["component"]["hashes"][0]["content"], "0a");
        Ok(())
    }

    #[test]
    fn metadata_without_the_agent_is_an_error() {
        assert!(render(&json!({"packages": []}), "").is_err());
    }
}
