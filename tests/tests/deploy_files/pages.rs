//! The pages of `deploy/` and SECURITY.md against the code: command lines, links, named tests, names in the examples.

use std::path::{Path, PathBuf};

use clap::Parser;
use gwready::cli::Arguments;
use regex_lite::Regex;
use serde_json::{Value, json};

use crate::tools::{deploy, objects, only, read, repository};

fn pages() -> Vec<PathBuf> {
    vec![deploy("README.md"), deploy("balancers/README.md"), deploy("rke2/README.md"), repository().join("SECURITY.md")]
}

#[test]
fn every_command_line_of_the_pages_is_one_of_the_agents() {
    let line = Regex::new(r"(?m)(?:^\s*|-- |exec: )/?gwready((?: [^\n`#|>&]*)?)").unwrap();
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        let code = text.split("```").skip(1).step_by(2);
        for found in code.flat_map(|block| line.captures_iter(block)) {
            let words = shell_words(found[1].trim());
            let parsed = Arguments::try_parse_from(std::iter::once("gwready".to_owned()).chain(words));
            assert!(parsed.is_ok(), "{}: gwready{}: {}", page.display(), &found[1], parsed.unwrap_err());
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen}");
}

/// Words of a command line with plain single quotes.
fn shell_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in text.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let quoted = Regex::new(r"`((?:deploy|docs|tests|agent|xtask)/[A-Za-z0-9_./-]+)`").unwrap();
    let link = Regex::new(r"\]\(([^)#:]+)\)").unwrap();
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        let folder = page.parent().unwrap();
        let named = quoted.captures_iter(&text).map(|found| repository().join(&found[1]));
        for path in named.chain(link.captures_iter(&text).map(|found| folder.join(&found[1]))) {
            assert!(path.exists(), "{} names {}", page.display(), path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn every_claim_of_the_threat_model_names_a_test_that_exists() {
    let page = read(&repository().join("SECURITY.md"));
    let name = Regex::new(r"`([a-z_/]+\.rs)::([a-z0-9_]+)`").unwrap();
    let claims: Vec<&str> =
        page.split("\n## Claims").nth(1).unwrap().lines().filter(|line| line.starts_with("| ") && !line.starts_with("| claim")).collect();
    assert!(claims.len() >= 12, "{}", claims.len());
    for claim in claims {
        let mut named = 0;
        for found in name.captures_iter(claim) {
            let source = read(&repository().join(&found[1]));
            assert!(source.contains(&format!("fn {}(", &found[2])), "{claim}");
            named += 1;
        }
        // A claim that no test holds says so.
        assert!(named > 0 || claim.contains("by construction") || claim.contains("not tested"), "{claim}");
    }
}

fn helm_values(file: &str) -> Value {
    let objects = objects(&read(&deploy(file)));
    let config = only(&objects, "HelmChartConfig");
    assert_eq!(config["apiVersion"], "helm.cattle.io/v1");
    assert_eq!(config["metadata"]["namespace"], "kube-system");
    crate::tools::objects(config["spec"]["valuesContent"].as_str().unwrap())[0].clone()
}

#[test]
fn ciliums_values_keep_the_whole_list_of_capabilities_and_select_the_agents_nodes() {
    let values = helm_values("rke2/rke2-cilium.yaml");
    let capabilities = &values["envoy"]["securityContext"]["capabilities"];
    assert_eq!(capabilities["keepCapNetBindService"], true);
    // Helm replaces the list as a whole: Cilium's own two must stand beside the added one.
    assert_eq!(capabilities["envoy"], json!(["NET_ADMIN", "SYS_ADMIN", "NET_BIND_SERVICE"]));
    let host_network = &values["gatewayAPI"]["hostNetwork"];
    assert_eq!(host_network["enabled"], true);
    let selector = &objects(&read(&deploy("helm/gwready/values.yaml")))[0]["nodeSelector"];
    assert_eq!(host_network["nodes"]["matchLabels"], *selector);
    assert_eq!(values["kubeProxyReplacement"], true);
}

#[test]
fn ingress_nginx_gives_its_host_ports_back() {
    let values = helm_values("rke2/rke2-ingress-nginx.yaml");
    assert_eq!(values["controller"]["hostPort"]["enabled"], false);
}

#[test]
fn the_gateway_of_the_example_has_the_ports_that_balancers_are_configured_for() {
    let objects = objects(&read(&deploy("rke2/gateway.yaml")));
    let gateway = only(&objects, "Gateway");
    let ports: Vec<u64> =
        gateway["spec"]["listeners"].as_array().unwrap().iter().map(|listener| listener["port"].as_u64().unwrap()).collect();
    assert_eq!(ports, [80, 443]);
    assert_eq!(gateway["spec"]["gatewayClassName"], "cilium");
    assert_eq!(only(&objects, "HTTPRoute")["spec"]["parentRefs"][0]["name"], gateway["metadata"]["name"]);
    let names = read(Path::new(&deploy("rke2/host-policy.yaml")));
    assert!(names.contains("9680") && names.contains("9681"));
}
