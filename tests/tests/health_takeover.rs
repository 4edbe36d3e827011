//! One agent follows another on the health port and no probe notices. Processes of their own, over loopback.
//!
//! `XTASK_TAKEOVERS` sets how many takeovers the long test makes (default 40; the full number is 300).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use gwready_core::verdict::State;
use gwready_tests::eventually;
use gwready_tests::health::probe::{Probers, probe};
use gwready_tests::health::stand::Stand;
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

struct Stands {
    folder: TempDir,
    listen: String,
}

impl Stands {
    /// With a port that was free a moment ago.
    fn new() -> Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(Self { folder: TempDir::new()?, listen: format!("[::]:{port}") })
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.listen.parse::<SocketAddr>()?.port()))
    }

    fn start(&self, arguments: &[&str]) -> Result<Stand> {
        let arguments = [&["--listen", &self.listen], arguments].concat();
        Stand::start(Path::new(env!("CARGO_BIN_EXE_health-stand")), &arguments, &self.folder.path().join("log"))
    }

    fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.path().join("log"))?)
    }
}

#[test]
fn takeovers_under_load_lose_no_probe_and_show_no_wrong_state() -> Result<()> {
    let rounds: usize = std::env::var("XTASK_TAKEOVERS").map_or(Ok(40), |number| number.parse())?;
    let stands = Stands::new()?;
    let mut current = stands.start(&["--state", "up"])?;
    current.wait_serving()?;
    let probers = Probers::start(stands.address()?, 16, Duration::from_millis(2), "state=up ");
    for round in 0..rounds {
        // Its first verdict comes late, so that joining too early would show "Starting".
        let mut next = stands.start(&["--state", "up", "--delay-ms", "20"])?;
        next.wait_serving()?;
        current.signal(Signal::TERM)?;
        let status = current.wait_exit(10 * SECOND)?;
        ensure!(status.success(), "takeover {round}: {status}\n{}", stands.log()?);
        current = next;
    }
    let tally = probers.finish();
    let (good, bad) = (tally.good, tally.bad.len());
    println!("{rounds} takeovers, {good} probes good, {bad} bad, slowest {:?}, {} over half a second", tally.slowest, tally.slow);
    ensure!(tally.bad.is_empty(), "{} of {} probes: {:?}", tally.bad.len(), tally.good, tally.bad.iter().take(5).collect::<Vec<_>>());
    ensure!(tally.good > u64::try_from(rounds)? * 100, "too few probes to mean anything: {}", tally.good);
    Ok(())
}

#[test]
fn a_stopped_predecessor_gets_no_connection_once_the_new_one_serves() -> Result<()> {
    let stands = Stands::new()?;
    let mut old = stands.start(&["--state", "up"])?;
    old.wait_serving()?;
    old.signal(Signal::STOP)?;
    let mut new = stands.start(&["--state", "drain"])?;
    new.wait_serving()?;
    for _ in 0..200 {
        let line = probe(stands.address()?, SECOND).map_err(|error| anyhow!("{error}\n{}", stands.log().unwrap_or_default()))?;
        ensure!(line.starts_with("state=drain "), "{line}");
    }
    // Woken up, it is still a member of the group, and still gets nothing.
    old.signal(Signal::CONT)?;
    for _ in 0..200 {
        ensure!(probe(stands.address()?, SECOND).is_ok_and(|line| line.starts_with("state=drain ")));
    }
    old.signal(Signal::TERM)?;
    ensure!(old.wait_exit(10 * SECOND)?.success());
    ensure!(probe(stands.address()?, SECOND).is_ok_and(|line| line.starts_with("state=drain ")));
    Ok(())
}

#[test]
fn with_three_members_the_port_follows_whoever_is_left() -> Result<()> {
    let stands = Stands::new()?;
    let mut members: Vec<Stand> = Vec::new();
    for _ in 0..3 {
        let mut member = stands.start(&["--state", "up"])?;
        member.wait_serving()?;
        members.push(member);
    }
    let probers = Probers::start(stands.address()?, 4, Duration::from_millis(2), "state=up ");
    // The middle one goes first: the last takes its index in the group, past which the program then points.
    for index in [1, 0] {
        let mut member = members.remove(index);
        member.signal(Signal::TERM)?;
        ensure!(member.wait_exit(10 * SECOND)?.success());
    }
    let tally = probers.finish();
    ensure!(tally.bad.is_empty() && tally.good > 0, "{tally:?}");
    Ok(())
}

#[test]
fn a_new_agent_without_a_verdict_leaves_the_port_to_the_old_one() -> Result<()> {
    let stands = Stands::new()?;
    let mut old = stands.start(&["--state", "up"])?;
    old.wait_serving()?;
    let mut new = stands.start(&[])?;
    eventually(10 * SECOND, || ensure_log(&stands, "taking over when the first verdict stands"))?;
    for _ in 0..100 {
        ensure!(probe(stands.address()?, SECOND).is_ok_and(|line| line.starts_with("state=up ")), "answered by the old one");
    }
    // With nobody left to answer it steps in without a verdict: "Starting" is the truth then.
    old.signal(Signal::KILL)?;
    new.wait_serving()?;
    let line = probe(stands.address()?, SECOND).map_err(anyhow::Error::msg)?;
    ensure!(line.contains("reason=Starting"), "{line}");
    new.set(State::Up)?;
    ensure!(probe(stands.address()?, SECOND).is_ok_and(|line| line.starts_with("state=up ")));
    Ok(())
}

fn ensure_log(stands: &Stands, text: &str) -> Result<()> {
    let log = stands.log()?;
    ensure!(log.contains(text), "no {text:?} in:\n{log}");
    Ok(())
}

#[test]
fn after_a_kill_it_answers_again_within_50_ms_of_start_and_never_up_before_a_verdict() -> Result<()> {
    let stands = Stands::new()?;
    let mut fastest = SECOND;
    for _ in 0..5 {
        let begin = Instant::now();
        let mut stand = stands.start(&[])?;
        let line = eventually(10 * SECOND, || probe(stands.address()?, SECOND).map_err(anyhow::Error::msg))?;
        fastest = fastest.min(begin.elapsed());
        ensure!(line.starts_with("state=down ") && line.contains("reason=Starting"), "{line}");
        stand.wait_serving()?;
        stand.signal(Signal::KILL)?;
        stand.wait_exit(10 * SECOND)?;
    }
    // The fastest of five: the others may have waited for a processor, which is not ours to bound.
    ensure!(fastest < Duration::from_millis(50), "{fastest:?}");
    Ok(())
}

#[test]
fn a_foreign_member_of_the_group_is_named_and_gets_nothing() -> Result<()> {
    let stands = Stands::new()?;
    let stranger = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    stranger.set_only_v6(false)?;
    stranger.set_reuse_port(true)?;
    stranger.bind(&stands.listen.parse::<SocketAddr>()?.into())?;
    stranger.listen(128)?;
    let mut stand = stands.start(&["--state", "up"])?;
    stand.wait_serving()?;
    for _ in 0..100 {
        ensure!(probe(stands.address()?, SECOND).is_ok_and(|line| line.starts_with("state=up ")));
    }
    ensure_log(&stands, "a foreign process shares the port of the health agent")?;
    ensure_log(&stands, &format!("[{}] on ::", std::process::id()))?;
    // It is no successor: a retiring agent does not wait for it.
    let begin = Instant::now();
    stand.signal(Signal::TERM)?;
    ensure!(stand.wait_exit(10 * SECOND)?.success());
    ensure!(begin.elapsed() < SECOND, "{:?}", begin.elapsed());
    Ok(())
}

#[test]
fn a_port_that_a_stranger_keeps_for_himself_is_refused_with_his_name() -> Result<()> {
    let stands = Stands::new()?;
    let stranger = std::net::TcpListener::bind(stands.address()?)?;
    let mut stand = stands.start(&["--state", "up"])?;
    ensure!(stand.wait_exit(10 * SECOND)?.code() == Some(69));
    ensure_log(&stands, &format!("[{}] on 127.0.0.1", std::process::id()))?;
    drop(stranger);
    Ok(())
}
