//! The four usual checks, and who really serves the clients. Each is asked several times at once where its answer may differ.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bootstrap::HEALTH_PORT;
use crate::client::{self, Answer};
use crate::listener::SNI;
use crate::node::Node;
use crate::space::Space;

/// How a check asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    /// So often at once.
    pub(super) at_once: usize,
    /// So often one after the other.
    pub(super) rounds: usize,
    /// Bound of every answer, as of a balancer's monitor.
    pub(super) patience: Duration,
}

impl Asking {
    /// Enough that a share of one in four is not missed once in a million runs.
    pub(super) const OFTEN: Self = Self { at_once: 48, rounds: 1, patience: Duration::from_secs(1) };
    /// Without making load.
    pub(super) const ONCE: Self = Self { at_once: 1, ..Self::OFTEN };
    /// Spread over time, for what changes from moment to moment.
    pub(super) const SPREAD: Self = Self { at_once: 6, rounds: 10, patience: Duration::from_millis(300) };
}

/// What a check says, in all of its answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claim {
    /// Said at least once that the node is fine.
    pub up: bool,
    /// Said at least once that it is not.
    pub down: bool,
    /// Every distinct answer, in order.
    pub words: BTreeSet<String>,
}

impl Claim {
    fn add(&mut self, up: bool, words: impl Into<String>) {
        self.up |= up;
        self.down |= !up;
        self.words.insert(words.into());
    }

    fn of(answers: impl IntoIterator<Item = (bool, String)>) -> Self {
        let mut claim = Self::default();
        answers.into_iter().for_each(|(up, words)| claim.add(up, words));
        claim
    }

    /// Whether it is wrong at least once about a node that should, or should not, get clients.
    #[must_use]
    pub const fn fools(&self, serve: bool) -> bool {
        if serve { self.down } else { self.up }
    }

    /// `up (404)`, `down (refused)`, `up or down (404, timeout)`.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::from(match (self.up, self.down) {
            (true, true) => "up or down",
            (true, false) => "up",
            (false, _) => "down",
        });
        let words: Vec<&str> = self.words.iter().map(String::as_str).filter(|words| !words.is_empty()).collect();
        if !words.is_empty() {
            let _ = write!(text, " ({})", words.join(", "));
        }
        text
    }
}

/// A TCP monitor: connects, from outside.
pub(super) fn tcp(from: &Space, to: SocketAddr, asking: Asking) -> Result<Claim> {
    let answers = many(from, asking, move || match TcpStream::connect_timeout(&to, asking.patience) {
        Ok(_) => (true, String::new()),
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => (false, "timeout".to_owned()),
        Err(_) => (false, "refused".to_owned()),
    })?;
    Ok(Claim::of(answers))
}

/// An HTTP monitor that takes every status for an answer, from outside.
pub(super) fn http(from: &Space, to: SocketAddr, request: &str, asking: Asking) -> Result<Claim> {
    let request = request.as_bytes().to_vec();
    let answers = many(from, asking, move || match client::exchange(to, &request, asking.patience) {
        Ok(reply) => status(&reply),
        Err(error) => (
            false,
            match error.kind() {
                std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => "timeout",
                std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::HostUnreachable => "refused",
                _ => "closed",
            }
            .to_owned(),
        ),
    })?;
    Ok(Claim::of(answers))
}

/// As [`http`], behind TLS.
pub(super) fn https(from: &Space, to: SocketAddr, request: &str) -> Result<Claim> {
    Ok(Claim::of([status(&over_tls(from, to, request)?)]))
}

fn status(reply: &[u8]) -> (bool, String) {
    let text = String::from_utf8_lossy(reply);
    match text.strip_prefix("HTTP/").and_then(|rest| rest.split(' ').nth(1)) {
        Some(code) => (true, code.to_owned()),
        None => (false, if reply.is_empty() { "closed" } else { "no HTTP" }.to_owned()),
    }
}

/// `ss -tlnp | grep :PORT`, with the names of the processes that it shows.
pub(super) fn ss(from: &Space, port: u16) -> Result<Claim> {
    let output = from.command("sh").args(["-c", &format!("ss -tlnp | grep :{port}")]).output().context("running ss")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.trim().is_empty() {
        return Ok(Claim::of([(false, String::new())]));
    }
    // users:(("cilium-envoy",pid=…,fd=…),…)
    let names = text.split("((\"").skip(1).filter_map(|rest| rest.split('"').next());
    Ok(Claim::of(names.map(|name| (true, name.to_owned()))))
}

/// cilium-envoy's own health port, on the node.
pub(super) fn envoy_health(node: &Node, asking: Asking) -> Result<Claim> {
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), HEALTH_PORT);
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answers = many(node.space(), asking, move || match client::exchange(to, request, asking.patience) {
        Ok(reply) => {
            let (answered, words) = status(&reply);
            (answered && words == "200", words)
        }
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => (false, "refused".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => (false, "closed".to_owned()),
        Err(_) => (false, "timeout".to_owned()),
    })?;
    Ok(Claim::of(answers))
}

/// Who serves clients from outside: every distinct answer.
pub(super) fn clients(from: &Space, to: SocketAddr, request: &str, asking: Asking) -> Result<BTreeSet<String>> {
    let request = request.as_bytes().to_vec();
    let answers = many(from, asking, move || client::ask_saying(to, &request, asking.patience))?;
    Ok(answers.into_iter().map(|answer| name(&answer)).collect())
}

/// As [`clients`], behind TLS, where only Envoy has a certificate.
pub(super) fn tls_clients(from: &Space, to: SocketAddr, request: &str) -> Result<BTreeSet<String>> {
    let (served, words) = status(&over_tls(from, to, request)?);
    Ok(BTreeSet::from([if served { "Envoy".to_owned() } else { format!("nobody ({words})") }]))
}

fn name(answer: &Answer) -> String {
    match answer {
        Answer::Envoy => "Envoy".to_owned(),
        Answer::Thief(_) => "thief".to_owned(),
        Answer::Nginx => "nginx".to_owned(),
        Answer::Other(words) => format!("other ({words})"),
        Answer::Refused => "nobody (refused)".to_owned(),
        Answer::Closed => "nobody (closed)".to_owned(),
        Answer::Timeout => "nobody (timeout)".to_owned(),
    }
}

fn over_tls(from: &Space, to: SocketAddr, request: &str) -> Result<Vec<u8>> {
    let mut command = from.command("timeout");
    command.args(["3", "openssl", "s_client", "-quiet", "-servername", SNI, "-connect", &to.to_string()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("starting openssl")?;
    if let Some(mut stdin) = child.stdin.take() {
        // Fails when the handshake did: then there is no reply either.
        _ = stdin.write_all(request.as_bytes());
    }
    Ok(child.wait_with_output()?.stdout)
}

/// Many at once, so that many answers that never come take no longer than one.
fn many<T: Send>(from: &Space, asking: Asking, ask: impl Fn() -> T + Send + Sync) -> Result<Vec<T>> {
    from.enter(|| {
        let mut answers = Vec::new();
        for _ in 0..asking.rounds {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..asking.at_once).map(|_| scope.spawn(&ask)).collect();
                for thread in threads {
                    answers.push(thread.join().map_err(|_| anyhow::anyhow!("a check panicked"))?);
                }
                Ok::<_, anyhow::Error>(())
            })?;
        }
        Ok(answers)
    })
}
