//! Ten thousand listener changes in a row: few passes, flat memory, the right verdict, nothing lost.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gwready_tests::{Agent, Envoy, Node, Space, Thief};
use rustix::process::Signal;
use socket2::{Domain, Protocol, Socket, Type};

const SOON: Duration = Duration::from_secs(15);
const CHANGES: u32 = 10_000;
const EVENT_SPACING: Duration = Duration::from_millis(2);

fn start(node: &Node) -> Agent {
    let mut agent = Agent::quick(node).set("ports", serde_json::json!([80, 443])).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    agent.wait_log("kernel events: 3 programs attached", SOON).unwrap();
    agent
}

fn event_passes(agent: &Agent) -> f64 {
    agent.metric_value("gwready_passes_total", &[("trigger", "event")]).unwrap()
}

/// Resident memory in KiB.
fn resident(agent: &Agent) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid()))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no value")?.parse()?)
}

/// Opens and closes a listener [`CHANGES`] / 2 times, each a change to and a change from LISTEN. Returns how long it took.
fn storm(space: &Space, address: SocketAddr) -> Duration {
    space
        .enter(|| {
            let begin = Instant::now();
            for _ in 0..CHANGES / 2 {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
                socket.set_reuse_port(true)?;
                socket.set_reuse_address(true)?;
                socket.bind(&address.into())?;
                socket.listen(1)?;
            }
            Ok(begin.elapsed())
        })
        .unwrap()
}

#[test]
fn a_storm_in_another_namespace_causes_no_pass() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let other = Space::new("storm").unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let agent = start(&node);
    let before = event_passes(&agent);
    storm(&other, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 80));
    let after = event_passes(&agent);
    assert!(after - before < 20.0, "{before} -> {after}");
    assert!(agent.state_line().unwrap().starts_with("state=up "));
}

#[test]
fn a_storm_of_our_own_is_few_passes_and_the_last_change_counts() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = start(&node);
    // The first storm pays for what is allocated once.
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80);
    storm(node.space(), at);
    let (before, memory) = (event_passes(&agent), resident(&agent).unwrap());
    let took = storm(node.space(), at);
    let thief = Thief::at(&node, Ipv4Addr::UNSPECIFIED.into(), 80).reuseport().start().unwrap();
    agent.wait_state("state=down reason=SharedPort", SOON).unwrap();
    let passes = event_passes(&agent) - before;
    let most = (took + Duration::from_secs(1)).as_secs_f64() / EVENT_SPACING.as_secs_f64();
    assert!(passes > 0.0 && passes < most.min(f64::from(CHANGES)), "{passes} passes in {took:?}");
    let grown = resident(&agent).unwrap().saturating_sub(memory);
    assert!(grown < 2_048, "{grown} KiB more than {memory}");
    drop(thief);
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn events_that_found_no_room_are_answered_by_reading_everything() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::quick(&node).set("log.level", "debug").start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    agent.wait_log("kernel events: 3 programs attached", SOON).unwrap();
    // Stopped, it takes nothing out of the ring, which holds some thousand events. The thief comes when it is full.
    agent.process().signal(Signal::STOP).unwrap();
    storm(node.space(), SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80));
    let thief = Thief::at(&node, Ipv4Addr::UNSPECIFIED.into(), 80).reuseport().start().unwrap();
    agent.process().signal(Signal::CONT).unwrap();
    agent.wait_log("kernel events were lost", SOON).unwrap();
    agent.wait_state("state=down reason=SharedPort", SOON).unwrap();
    drop(thief);
    agent.wait_state("state=up", SOON).unwrap();
}
