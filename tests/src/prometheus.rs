//! Real Prometheus and blackbox exporter beside a node, and what they say by their own HTTP APIs.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::client;
use crate::node::Node;
use crate::paths;
use crate::process::{Place, Process};
use crate::wait::eventually;

/// Where Prometheus answers, in the neighbour's namespace.
const PROMETHEUS: SocketAddr = local(9090);
/// Where the blackbox exporter answers.
pub const BLACKBOX: SocketAddr = local(9115);
const PATIENCE: Duration = Duration::from_secs(30);

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// A running Prometheus. Ends when dropped.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    node: Node,
}

impl Prometheus {
    /// Starts it in the neighbour's namespace with this configuration, and waits until it is ready.
    pub fn start(node: &Node, configuration: &Value) -> Result<Self> {
        let folder = node.fresh_path("prometheus");
        fs::create_dir(&folder)?;
        let file = folder.join("prometheus.yml");
        // JSON is YAML.
        fs::write(&file, configuration.to_string())?;
        let mut command = Command::new(paths::installed("prometheus")?);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.args([format!("--web.listen-address={PROMETHEUS}"), "--log.level=warn".to_owned()]);
        let process = Process::start(node.outside(), command, &folder.join("log"), Place::Plain)?;
        let mut prometheus = Self { process, node: node.clone() };
        eventually(PATIENCE, || {
            prometheus.process.ensure_running()?;
            let (status, body) = get(&prometheus.node, PROMETHEUS, "/-/ready")?;
            ensure!(status == 200, "{status} {body}");
            Ok(())
        })?;
        Ok(prometheus)
    }

    /// `data` of a reply of its API, e.g. of `/api/v1/rules`.
    pub fn api(&self, path: &str) -> Result<Value> {
        let (status, body) = get(&self.node, PROMETHEUS, path)?;
        ensure!(status == 200, "{path}: {status} {body}; its log:\n{}", self.process.log());
        let mut reply: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
        Ok(reply["data"].take())
    }

    /// Value of an expression that gives exactly one sample.
    pub fn value(&self, expression: &str) -> Result<f64> {
        let data = self.api(&format!("/api/v1/query?query={}", percent(expression)))?;
        let samples = data["result"].as_array().context("no result")?;
        ensure!(samples.len() == 1, "{expression}: {data}");
        let text = samples.first().and_then(|sample| sample["value"][1].as_str()).context("no value")?;
        Ok(text.parse()?)
    }

    /// Waits until every expression has its value.
    pub fn wait_values(&self, wanted: &[(&str, f64)]) -> Result<()> {
        eventually(PATIENCE, || {
            for (expression, value) in wanted {
                let now = self.value(expression)?;
                ensure!((now - value).abs() < f64::EPSILON, "{expression} is {now}, not {value}");
            }
            Ok(())
        })
    }
}

/// Starts the blackbox exporter in the neighbour's namespace with this configuration file.
pub fn start_blackbox(node: &Node, file: &std::path::Path) -> Result<Process> {
    let mut command = Command::new(paths::installed("prometheus-blackbox-exporter")?);
    command.arg(format!("--config.file={}", file.display())).arg(format!("--web.listen-address={BLACKBOX}"));
    let mut process = Process::start(node.outside(), command, &node.fresh_path("blackbox"), Place::Plain)?;
    eventually(PATIENCE, || {
        process.ensure_running()?;
        let (status, body) = get(node, BLACKBOX, "/-/healthy")?;
        ensure!(status == 200, "{status} {body}");
        Ok(())
    })?;
    Ok(process)
}

fn get(node: &Node, to: SocketAddr, path: &str) -> Result<(u16, String)> {
    // 1.0, so that the body is not chunked.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let reply = node.outside().enter(|| Ok(client::exchange(to, request.as_bytes(), Duration::from_secs(5))?))?;
    let reply = String::from_utf8(reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").context("no end of headers")?;
    Ok((head.split(' ').nth(1).context("no status")?.parse()?, body.to_owned()))
}

/// Everything but letters and digits as `%XX`.
fn percent(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
