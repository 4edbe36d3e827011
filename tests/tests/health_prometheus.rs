//! Real Prometheus scrapes a running agent in both of its formats, loads the shipped alert rules, and asks the health port by the
//! blackbox exporter: what it stores is read by its own API in every state.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use gwready_tests::node::node_v4;
use gwready_tests::process::{Place, Process};
use gwready_tests::prometheus::{BLACKBOX, Prometheus, start_blackbox};
use gwready_tests::scene::{SOON, Scene};
use gwready_tests::{Listener, Node, eventually, paths};
use serde_json::{Value, json};

/// Where the agent's metrics are to be had as text 0.0.4 only: Prometheus itself always asks for OpenMetrics first.
const TEXT_ONLY: &str = "127.0.0.1:9682";

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// nginx that asks for text 0.0.4 whatever it is asked for.
fn start_text_only(node: &Node) -> Result<Process> {
    let folder = node.dir().join("text-only");
    fs::create_dir(&folder)?;
    let dir = folder.display();
    let configuration = format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {dir}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n\
         client_body_temp_path {dir}/body;\nproxy_temp_path {dir}/proxy;\nfastcgi_temp_path {dir}/fastcgi;\n\
         uwsgi_temp_path {dir}/uwsgi;\nscgi_temp_path {dir}/scgi;\n\
         server {{\nlisten {TEXT_ONLY};\nlocation / {{\nproxy_pass http://{}:9681;\nproxy_set_header Accept 'text/plain;version=0.0.4';\n}}\n}}\n}}\n",
        node_v4(1)
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let mut command = Command::new(paths::installed("nginx")?);
    command.arg("-e").arg(folder.join("error.log")).arg("-c").arg(&file);
    Process::start(node.outside(), command, &folder.join("log"), Place::Plain)
}

fn configuration(node: &Node) -> Result<Value> {
    let address = node.addresses().first().copied().context("a node without addresses")?;
    let job = |name: &str, target: String| json!({"job_name": name, "static_configs": [{"targets": [target]}]});
    let mut probe = job("blackbox", BLACKBOX.to_string());
    // The exporter keeps half a second of the scrape's timeout for itself.
    probe["scrape_interval"] = json!("2s");
    probe["scrape_timeout"] = json!("2s");
    probe["metrics_path"] = json!("/probe");
    probe["params"] = json!({"module": ["gwready"], "target": [format!("http://{address}:9680/healthz")]});
    Ok(json!({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
        "rule_files": [deploy("helm/gwready/files/rules.yaml")],
        "scrape_configs": [job("openmetrics", format!("{address}:9681")), job("text", TEXT_ONLY.to_owned()), probe],
    }))
}

/// Each format names a counter's family in its own way.
fn formats_are_told_apart(prometheus: &Prometheus) -> Result<()> {
    for (job, family, other) in
        [("openmetrics", "gwready_transitions", "gwready_transitions_total"), ("text", "gwready_transitions_total", "gwready_transitions")]
    {
        let described = |metric: &str| -> Result<usize> {
            let path = format!("/api/v1/targets/metadata?match_target=%7Bjob%3D%22{job}%22%7D&metric={metric}");
            Ok(prometheus.api(&path)?.as_array().context("no list")?.len())
        };
        ensure!(described(family)? == 1 && described(other)? == 0, "{job} should have {family} and no {other}");
    }
    Ok(())
}

/// Every group of the shipped rules is loaded and can be evaluated.
fn rules_are_evaluated(prometheus: &Prometheus) -> Result<()> {
    let shipped = fs::read_to_string(deploy("helm/gwready/files/rules.yaml"))?;
    let count = |word: &str| shipped.lines().filter(|line| line.trim_start().starts_with(word)).count();
    let wanted = count("- alert:") + count("- record:");
    eventually(2 * SOON, || {
        let data = prometheus.api("/api/v1/rules")?;
        let groups = data["groups"].as_array().context("no groups")?;
        let rules: Vec<&Value> = groups.iter().filter_map(|group| group["rules"].as_array()).flatten().collect();
        let good = rules.iter().filter(|rule| rule["health"] == "ok").count();
        ensure!(wanted > 0 && good == wanted, "{good} of {wanted} rules are well: {data}");
        Ok(())
    })
}

/// What is stored while the node is in this state, in either format.
fn stored(prometheus: &Prometheus, state: &str) -> Result<()> {
    let is = |claim: bool| if claim { 1.0 } else { 0.0 };
    for job in ["openmetrics", "text"] {
        prometheus.wait_values(&[(&format!("up{{job=\"{job}\"}}"), 1.0)])?;
        for one in ["up", "drain", "down"] {
            let sample = format!("gwready_node_state{{job=\"{job}\",state=\"{one}\"}}");
            prometheus.wait_values(&[(&sample, is(one == state))]).with_context(|| format!("while {state}"))?;
        }
    }
    let probed = [("up{job=\"blackbox\"}", 1.0), ("probe_success", is(state == "up")), ("probe_failed_due_to_regex", is(state != "up"))];
    // The exporter stops at a status that is not 2xx and never comes to the body then.
    let probed = if state == "up" { &probed[..] } else { &probed[..2] };
    prometheus.wait_values(probed).with_context(|| format!("blackbox while {state}"))
}

#[test]
fn prometheus_follows_every_state_by_scraping_and_by_probing() -> Result<()> {
    let mut scene = Scene::up()?;
    let node = scene.node.clone();
    let _text_only = start_text_only(&node)?;
    let _blackbox = start_blackbox(&node, &deploy("prometheus/blackbox.yml"))?;
    let prometheus = Prometheus::start(&node, &configuration(&node)?)?;
    stored(&prometheus, "up")?;
    formats_are_told_apart(&prometheus)?;
    rules_are_evaluated(&prometheus)?;

    let told = |scene: &Scene, words: &[&str]| -> Result<()> {
        let output = scene.agent.command(words)?.output()?;
        ensure!(output.status.success(), "{words:?}: {output:?}");
        Ok(())
    };
    // up → down → drain → up → drain → down → up.
    scene.envoy.set_listeners(&[])?;
    stored(&prometheus, "down")?;
    told(&scene, &["drain", "--reason", "new kernel"])?;
    scene.envoy.set_listeners(&[Listener::gateway()])?;
    stored(&prometheus, "drain")?;
    told(&scene, &["undrain"])?;
    stored(&prometheus, "up")?;
    told(&scene, &["drain", "--reason", "new kernel"])?;
    stored(&prometheus, "drain")?;
    scene.envoy.set_listeners(&[])?;
    stored(&prometheus, "down")?;
    prometheus.wait_values(&[("count(ALERTS{alertname=\"GwreadyPoolEmpty\"}) > bool 0", 1.0)])?;
    told(&scene, &["undrain"])?;
    scene.envoy.set_listeners(&[Listener::gateway()])?;
    stored(&prometheus, "up")
}
