//! Real HAProxy against the real health port, its opinion read from HAProxy's own statistics socket.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gwready_core::verdict::State;
use gwready_tests::eventually;
use gwready_tests::health::stand::Stand;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(15);

struct Haproxy {
    child: Child,
    socket: PathBuf,
}

impl Haproxy {
    /// One server in one backend for each way of checking.
    fn start(folder: &Path, health: SocketAddr, agent: SocketAddr) -> Result<Self> {
        let socket = folder.join("stats");
        let (port, agent_port) = (health.port(), agent.port());
        let server = format!("server node 127.0.0.1:{port} inter 100ms fastinter 50ms downinter 50ms");
        let configuration = format!(
            "global\n stats socket {} level admin\n\
             defaults\n mode tcp\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n timeout check 2s\n\
             backend bare\n option httpchk\n {server} check\n\
             backend explicit\n option httpchk\n http-check send meth GET uri /healthz ver HTTP/1.1 hdr Host gw\n {server} check\n\
             backend token\n option httpchk\n http-check send meth GET uri /healthz\n http-check expect string state=up\n {server} check\n\
             backend agent\n {server} check agent-check agent-port {agent_port} agent-inter 100ms\n\
             backend agentalone\n {server} agent-check agent-port {agent_port} agent-inter 100ms\n",
            socket.display()
        );
        let file = folder.join("haproxy.cfg");
        std::fs::write(&file, configuration)?;
        let log = std::fs::File::create(folder.join("haproxy.log"))?;
        let child = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("haproxy (Debian package haproxy)")?;
        Ok(Self { child, socket })
    }

    /// HAProxy's word for the server of a backend.
    fn status(&self, backend: &str) -> Result<String> {
        self.column(backend, "status")
    }

    /// A column of `show stat` for the server of a backend.
    fn column(&self, backend: &str, name: &str) -> Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.write_all(b"show stat\n")?;
        let mut table = String::new();
        stream.read_to_string(&mut table)?;
        let row = table.lines().find(|line| line.starts_with(&format!("{backend},node,"))).context("no such server")?;
        let head = table.lines().next().unwrap_or_default().trim_start_matches("# ");
        let place = head.split(',').position(|column| column == name).context("no such column")?;
        Ok(row.split(',').nth(place).context("a short row")?.to_owned())
    }

    fn wait_statuses(&self, expected: &[(&str, &str)]) -> Result<()> {
        eventually(PATIENCE, || {
            for (backend, wanted) in expected {
                let status = self.status(backend)?;
                ensure!(status.split(' ').next() == Some(*wanted), "{backend}: {status}, not {wanted}");
            }
            Ok(())
        })
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        // Fails only if it has ended, and then wait() tells.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn haproxy_follows_every_state_by_each_way_of_checking() -> Result<()> {
    let folder = TempDir::new()?;
    let arguments = ["--listen", "[::]:0", "--agent-check", "127.0.0.1:0", "--state", "up"];
    let mut stand = Stand::start(Path::new(env!("CARGO_BIN_EXE_health-stand")), &arguments, &folder.path().join("log"))?;
    let (health, agent) = stand.wait_serving()?;
    let haproxy = Haproxy::start(folder.path(), health, agent.context("agent check")?)?;
    let http = |status| [("bare", status), ("explicit", status), ("token", status)];
    haproxy.wait_statuses(&[http("UP").as_slice(), &[("agent", "UP")]].concat())?;
    // Every change that DESIGN allows, from drain to down and back included.
    for (state, by_http, by_agent) in [
        (State::Down, "DOWN", "DOWN"),
        (State::Drain, "DOWN", "DRAIN"),
        (State::Down, "DOWN", "DOWN"),
        (State::Up, "UP", "UP"),
        (State::Drain, "DOWN", "DRAIN"),
        (State::Up, "UP", "UP"),
    ] {
        stand.set(state)?;
        haproxy.wait_statuses(&[http(by_http).as_slice(), &[("agent", by_agent)]].concat()).with_context(|| format!("{state}"))?;
    }
    Ok(())
}

#[test]
fn an_agent_check_that_is_dead_keeps_its_last_word_unless_the_port_is_checked_too() -> Result<()> {
    let folder = TempDir::new()?;
    let arguments = ["--listen", "[::]:0", "--agent-check", "127.0.0.1:0", "--state", "up"];
    let mut stand = Stand::start(Path::new(env!("CARGO_BIN_EXE_health-stand")), &arguments, &folder.path().join("log"))?;
    let (health, agent) = stand.wait_serving()?;
    let haproxy = Haproxy::start(folder.path(), health, agent.context("agent check")?)?;
    stand.set(State::Drain)?;
    haproxy.wait_statuses(&[("agent", "DRAIN"), ("agentalone", "DRAIN")])?;
    stand.set(State::Up)?;
    // "no check": up, as far as HAProxy knows.
    haproxy.wait_statuses(&[("agent", "UP"), ("agentalone", "no")])?;
    drop(stand);
    haproxy.wait_statuses(&[("agent", "DOWN")])?;
    eventually(PATIENCE, || {
        let word = haproxy.column("agentalone", "agent_status")?;
        ensure!(word.contains("L4CON"), "the agent-check says {word}");
        Ok(())
    })?;
    let left = haproxy.status("agentalone")?;
    ensure!(left == "no check", "HAProxy has learnt better: {left}; docs/load-balancers.md and docs/faults.md say otherwise");
    Ok(())
}
