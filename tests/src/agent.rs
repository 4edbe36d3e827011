//! The agent in a node: its configuration, its process, and its answers as balancers, scrapers and
//! people get them. Knows the contracts of the outside only, nothing of the agent's insides.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::client;
use crate::exposition;
use crate::node::Node;
use crate::paths;
use crate::process::{Place, Process};
use crate::space::Space;
use crate::wait::eventually;

/// Default port of `/healthz`.
pub const HEALTH_PORT: u16 = 9680;
/// Default port of `/metrics` and the rest.
pub const ADMIN_PORT: u16 = 9681;

const PATIENCE: Duration = Duration::from_secs(2);

/// The agent's configuration, and how it is run.
#[derive(Debug, Clone)]
#[must_use]
pub struct AgentBuilder {
    node: Node,
    config: Value,
    under: Vec<String>,
    env: Vec<(String, String)>,
    args: Vec<String>,
}

/// A running agent. Ends when dropped.
#[derive(Debug)]
pub struct Agent {
    process: Process,
    node: Node,
    config: PathBuf,
    health: u16,
    admin: u16,
}

impl AgentBuilder {
    /// Sets a key by its dotted path, e.g. `("timing.min_up", "0s")`.
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let pointer = path.split('.').collect::<Vec<_>>();
        let mut place = &mut self.config;
        for key in pointer {
            place = &mut place[key];
        }
        *place = value.into();
        self
    }

    /// Runs it under another program, e.g. `["setpriv", "--bounding-set=-all,+net_admin"]`.
    pub fn under(mut self, program: &[&str]) -> Self {
        self.under = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Further arguments of `gwready run`.
    pub fn args(mut self, args: impl IntoIterator<Item = String>) -> Self {
        self.args.extend(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Writes the configuration file and returns its path.
    pub fn write_config(&self) -> Result<PathBuf> {
        // JSON is YAML, so the agent reads it as its one configuration file.
        let path = self.node.fresh_path("gwready-config");
        fs::write(&path, serde_json::to_vec_pretty(&self.config)?)?;
        Ok(path)
    }

    /// `gwready ARGS --config FILE` inside the node, without a daemon, e.g. `["check", "--json"]`. Runs under the program given
    /// by [`AgentBuilder::under`], as the daemon would.
    pub fn command(&self, args: &[&str]) -> Result<Command> {
        let gwready = paths::gwready()?;
        let mut command = match self.under.split_first() {
            Some((program, words)) => {
                let mut command = self.node.command(program);
                command.args(words).arg(gwready);
                command
            }
            None => self.node.command(gwready),
        };
        forget_variables(&mut command, std::env::vars_os().map(|(name, _)| name));
        command.args(args).arg("--config").arg(self.write_config()?);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        Ok(command)
    }

    /// Starts `gwready run`. Waits for nothing: see [`Agent::wait_state`].
    pub fn start(self) -> Result<Agent> {
        let config = self.write_config()?;
        let gwready = paths::gwready()?;
        let mut command = match self.under.split_first() {
            Some((program, args)) => {
                let mut command = Command::new(program);
                command.args(args).arg(gwready);
                command
            }
            None => Command::new(gwready),
        };
        forget_variables(&mut command, std::env::vars_os().map(|(name, _)| name));
        command.arg("run").arg("--config").arg(&config);
        command.args(&self.args);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        let log = self.node.fresh_path("gwready-log");
        Ok(Agent {
            process: Process::start(self.node.space(), command, &log, Place::Plain)?,
            health: port_of(&self.config["health"]["listen"])?,
            admin: port_of(&self.config["admin"]["listen"])?,
            node: self.node,
            config,
        })
    }
}

impl Agent {
    /// An agent of this node: every path inside the box, everything else by default.
    pub fn builder(node: &Node) -> AgentBuilder {
        let state = node.state_dir();
        AgentBuilder {
            node: node.clone(),
            config: json!({
                "node_name": "worker-1",
                "state_dir": state,
                "control_socket": state.join("gwready.sock"),
                "health": {"listen": format!("[::]:{HEALTH_PORT}")},
                "admin": {"listen": format!("[::]:{ADMIN_PORT}")},
                "host": {"tracefs": node.tracefs(), "pod_logs": node.pod_logs()},
                "cilium": {"bpffs": node.bpffs(), "run_dir": node.run_dir()},
                "envoy": {"admin_socket": node.admin_socket()},
            }),
            under: Vec::new(),
            env: Vec::new(),
            args: Vec::new(),
        }
    }

    /// As [`Agent::builder`], but back up 100 ms after everything holds again: tests of what comes and goes.
    pub fn quick(node: &Node) -> AgentBuilder {
        Self::builder(node).set("timing.min_up", "100ms")
    }

    /// [`Agent::quick`], waited for until `state=up`.
    pub fn start_quick(node: &Node) -> Result<Self> {
        let mut agent = Self::quick(node).start()?;
        agent.wait_state("state=up", Duration::from_secs(15))?;
        Ok(agent)
    }

    /// With [`Agent::builder`]'s configuration, waited for until `state=up`.
    pub fn start_up(node: &Node) -> Result<Self> {
        let mut agent = Self::builder(node).start()?;
        agent.wait_state("state=up", Duration::from_secs(15))?;
        Ok(agent)
    }

    /// Its process, with log and signals.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// All that it logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Whether it logged this text.
    #[must_use]
    pub fn log_contains(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// Waits for a log line with this text and returns it.
    pub fn wait_log(&mut self, text: &str, timeout: Duration) -> Result<String> {
        self.process.wait_log(text, timeout)
    }

    /// The bytes that a balancer gets from `/healthz` of this local address, connecting from the
    /// neighbour.
    pub fn health_from_outside(&self, address: IpAddr) -> Result<Vec<u8>> {
        self.send_health(self.node.outside(), address, HEALTHZ)
    }

    /// The bytes of `/healthz` over loopback: the node's verdict.
    pub fn health_local(&self) -> Result<Vec<u8>> {
        self.send_health(self.node.space(), Ipv4Addr::LOCALHOST.into(), HEALTHZ)
    }

    /// Sends any bytes to the health port and returns all that comes back.
    pub fn send_health(&self, from: &Space, address: IpAddr, request: &[u8]) -> Result<Vec<u8>> {
        let to = SocketAddr::new(address, self.health);
        from.enter(|| client::exchange(to, request, PATIENCE).with_context(|| format!("health port {to}")))
    }

    /// The state line of the node, `state=… node=…`.
    pub fn state_line(&self) -> Result<String> {
        state_line(&self.health_local()?)
    }

    /// The state line that a balancer gets for this address.
    pub fn state_line_of(&self, address: IpAddr) -> Result<String> {
        state_line(&self.health_from_outside(address)?)
    }

    /// Waits until the node's state line contains every word of `wanted` (`state=down
    /// reason=HostPort`), and returns the line.
    pub fn wait_state(&mut self, wanted: &str, timeout: Duration) -> Result<String> {
        self.wait_line(wanted, timeout, Self::state_line)
    }

    /// As [`Agent::wait_state`], for one local address as a balancer sees it.
    pub fn wait_state_of(&mut self, address: IpAddr, wanted: &str, timeout: Duration) -> Result<String> {
        self.wait_line(wanted, timeout, |agent| agent.state_line_of(address))
    }

    fn wait_line(&mut self, wanted: &str, timeout: Duration, read: impl Fn(&Self) -> Result<String>) -> Result<String> {
        let reached = eventually(timeout, || {
            self.process.ensure_running()?;
            let line = read(self)?;
            let has = |word| line.split(' ').any(|found| found == word);
            ensure!(wanted.split(' ').all(has), "wanted {wanted:?}, is {line:?}");
            Ok(line)
        });
        reached.map_err(|error| anyhow!("{error:#}; the agent's log:\n{}", self.log()))
    }

    /// Status and body of a GET on the admin port over loopback.
    pub fn admin(&self, path: &str) -> Result<(u16, String)> {
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.admin);
        let request = format!("GET {path} HTTP/1.1\r\nHost: gwready\r\nConnection: close\r\n\r\n");
        let reply = self.node.enter(|| client::exchange(to, request.as_bytes(), PATIENCE).with_context(|| format!("admin port {to}")))?;
        let reply = String::from_utf8(reply)?;
        let (head, body) = reply.split_once("\r\n\r\n").context("no end of headers")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok((status, body.to_owned()))
    }

    /// The text of `/metrics`.
    pub fn metrics(&self) -> Result<String> {
        let (status, body) = self.admin("/metrics")?;
        ensure!(status == 200, "/metrics: {status}");
        Ok(body)
    }

    /// One value of `/metrics`: see [`exposition::value`].
    pub fn metric_value(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        exposition::value(&self.metrics()?, name, labels)
    }

    /// `gwready ARGS --config FILE` inside the node, e.g. `["check", "--json"]`.
    pub fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = self.node.command(paths::gwready()?);
        forget_variables(&mut command, std::env::vars_os().map(|(name, _)| name));
        command.args(args).arg("--config").arg(&self.config);
        Ok(command)
    }

    /// Its configuration file.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// TERM, and waits for its end.
    pub fn stop(&mut self) -> Result<()> {
        self.process.terminate(Duration::from_secs(15)).map(drop)
    }

    /// KILL, and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }
}

const HEALTHZ: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";

/// First body line of a health reply.
pub fn state_line(reply: &[u8]) -> Result<String> {
    let text = String::from_utf8_lossy(reply);
    let body = text.split_once("\r\n\r\n").map_or(&*text, |(_, body)| body);
    let line = body.lines().next().unwrap_or_default();
    ensure!(line.starts_with("state="), "no state line in {text:?}");
    Ok(line.to_owned())
}

/// To the agent every `GWREADY_…` variable is a configuration key; those of the tests are not.
fn forget_variables(command: &mut Command, names: impl Iterator<Item = OsString>) {
    for name in names.filter(|name| name == "NODE_NAME" || name.as_encoded_bytes().starts_with(b"GWREADY_")) {
        command.env_remove(name);
    }
}

fn port_of(listen: &Value) -> Result<u16> {
    let text = listen.as_str().context("listen is no text")?;
    let (_, port) = text.rsplit_once(':').context("listen has no port")?;
    Ok(port.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_line_is_the_first_of_the_body_in_every_protocol() {
        let line = "state=down node=worker-1 address=all reason=HostPort port=80 ports=80,443";
        let http = format!("HTTP/1.1 503 x\r\nx-gwready: state=down\r\n\r\n{line}\nNotIntercepted …\n");
        assert_eq!(state_line(http.as_bytes()).unwrap(), line);
        assert_eq!(state_line(format!("{line}\n").as_bytes()).unwrap(), line, "HTTP/0.9 has no header");
    }

    #[test]
    fn a_reply_without_a_state_is_an_error() {
        assert!(state_line(b"HTTP/1.1 404 Not Found\r\n\r\nno such path\n").is_err());
        assert!(state_line(b"").is_err());
    }

    #[test]
    fn the_tests_own_variables_do_not_reach_the_agent() {
        let mut command = Command::new("gwready");
        forget_variables(&mut command, ["HOME", "GWREADY_LOG_LEVEL", "NODE_NAME"].into_iter().map(OsString::from));
        let removed: Vec<_> = command.get_envs().map(|(name, value)| (name.to_str().unwrap(), value)).collect();
        assert_eq!(removed, [("GWREADY_LOG_LEVEL", None), ("NODE_NAME", None)]);
    }

    #[test]
    fn the_agent_s_own_reader_accepts_the_configuration() {
        let node = Node::new().unwrap();
        let file = Some(Agent::builder(&node).write_config().unwrap());
        let config = gwready::config::load(&gwready::config::Sources { file, ..Default::default() });
        assert_eq!(config.unwrap().node_name, "worker-1");
    }

    #[test]
    fn keys_are_set_by_their_path_and_the_rest_stays() {
        let node = Node::new().unwrap();
        let builder = Agent::builder(&node).set("timing.min_up", "0s").set("ports", json!([80])).set("health.detail", false);
        let text = fs::read_to_string(builder.write_config().unwrap()).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(config["timing"], json!({"min_up": "0s"}));
        assert_eq!(config["ports"], json!([80]));
        assert_eq!(config["health"], json!({"listen": "[::]:9680", "detail": false}));
        assert_eq!(config["cilium"]["run_dir"], json!(node.run_dir()));
    }
}
