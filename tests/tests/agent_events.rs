//! What the kernel tells sooner than the next poll: each change with the programs attached and without them, the same
//! answer both times. Without them it comes by polling; only `EnvoyTerminating` needs them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::ensure;
use gwready_tests::node::node_v4;
use gwready_tests::{Agent, Envoy, Listener, Node, Thief, eventually};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(15);
/// The tick of these tests. An answer that comes much sooner came by an event.
const TICK: Duration = Duration::from_secs(4);
/// Where an event brought it.
const AT_ONCE: Duration = Duration::from_secs(2);
const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const PROGRAMS: [&str; 3] = ["process_exit", "signal_generate", "socket_state"];

/// How the agent learns of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Programs attached; the tick is too slow to have told.
    Events,
    /// `ebpf: false`; the tick as by default.
    Polling,
}

impl By {
    const fn patience(self) -> Duration {
        match self {
            Self::Events => AT_ONCE,
            Self::Polling => SOON,
        }
    }
}

/// Waits until the metric says of each program what is wanted. Attempts of the agent follow each other within a minute.
fn wait_attached(agent: &Agent, wanted: &[(&str, f64)]) {
    eventually(4 * SOON, || {
        for (program, wanted) in wanted {
            let value = agent.metric_value("gwready_ebpf_attached", &[("program", program)])?;
            ensure!((value - wanted).abs() < f64::EPSILON, "{program}: {value}");
        }
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", agent.log()));
}

/// Up, and with everything attached where events are wanted. Probes are off: they would tell too.
fn start(node: &Node, by: By) -> Agent {
    let builder = Agent::quick(node).set("probe.enabled", false);
    let builder = match by {
        By::Events => {
            let tick = format!("{}s", TICK.as_secs());
            builder.set("timing.resync", tick.as_str()).set("timing.stale_after", "20s")
        }
        By::Polling => builder.set("ebpf", false).set("timing.resync", "200ms"),
    };
    let mut agent = builder.start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    let wanted = if by == By::Events { 1.0 } else { 0.0 };
    wait_attached(&agent, &PROGRAMS.map(|program| (program, wanted)));
    agent
}

fn verdicts_by_event(agent: &Agent) -> f64 {
    agent.metric_value("gwready_event_to_verdict_seconds_count", &[]).unwrap()
}

/// The log line of this transition, with how long it took where an event told it.
fn told(agent: &mut Agent, by: By, line: &str) {
    let line = agent.wait_log(line, SOON).unwrap();
    assert_eq!(line.contains(" detected_in="), by == By::Events, "{line}");
}

fn both(test: impl Fn(By) + Send + Sync) {
    std::thread::scope(|scope| {
        let events = scope.spawn(|| test(By::Events));
        test(By::Polling);
        if let Err(panic) = events.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_listener_removed_by_lds_is_gone_and_comes_back() {
    both(|by| {
        let node = Node::new().unwrap();
        let mut envoy = Envoy::start(&node).unwrap();
        let mut agent = start(&node, by);
        let before = verdicts_by_event(&agent);
        envoy.set_listeners(&[]).unwrap();
        agent.wait_state("state=down reason=NoListener port=80,443", by.patience()).unwrap();
        told(&mut agent, by, "node DOWN reason=NoListener");
        assert_eq!(verdicts_by_event(&agent) > before, by == By::Events);
        envoy.set_listeners(&[Listener::gateway()]).unwrap();
        agent.wait_state("state=up", SOON).unwrap();
    });
}

#[test]
fn a_killed_envoy_is_gone() {
    both(|by| {
        let node = Node::new().unwrap();
        let mut envoy = Envoy::start(&node).unwrap();
        let mut agent = start(&node, by);
        envoy.kill().unwrap();
        agent.wait_state("state=down", by.patience()).unwrap();
        agent.wait_state("state=down reason=EnvoyNotRunning", SOON).unwrap();
        told(&mut agent, by, "node DOWN reason=");
    });
}

#[test]
fn drained_listeners_are_gone() {
    both(|by| {
        let node = Node::new().unwrap();
        let envoy = Envoy::start(&node).unwrap();
        let mut agent = start(&node, by);
        envoy.post("/drain_listeners").unwrap();
        agent.wait_state("state=down reason=NoListener", by.patience()).unwrap();
        told(&mut agent, by, "node DOWN reason=NoListener");
    });
}

#[test]
fn a_stopped_envoy_is_down_until_it_continues() {
    both(|by| {
        let node = Node::new().unwrap();
        let envoy = Envoy::start(&node).unwrap();
        let mut agent = start(&node, by);
        envoy.stop().unwrap();
        agent.wait_state("state=down reason=ProcessStopped", by.patience()).unwrap();
        envoy.resume().unwrap();
        agent.wait_state("state=up", by.patience()).unwrap();
    });
}

#[test]
fn a_thief_that_binds_is_seen() {
    both(|by| {
        let node = Node::builder().without_ipv6().build().unwrap();
        let _envoy = Envoy::start(&node).unwrap();
        let mut agent = start(&node, by);
        let thief = Thief::at(&node, ANY_V4, 80).reuseport().start().unwrap();
        agent.wait_state("state=down reason=SharedPort port=80", by.patience()).unwrap();
        // The event says who began to listen: the first answer that it brings has the thief's name.
        told(&mut agent, by, "node DOWN reason=SharedPort");
        if by == By::Events {
            assert!(!agent.log().contains("Unidentified"), "{}", agent.log());
        }
        drop(thief);
        agent.wait_state("state=up", by.patience()).unwrap();
    });
}

#[test]
fn listeners_of_another_namespace_cause_no_pass_and_change_nothing() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let other = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = start(&node, By::Events);
    let passes = |agent: &Agent| agent.metric_value("gwready_passes_total", &[("trigger", "event")]).unwrap();
    let before = passes(&agent);
    for _ in 0..5 {
        drop(Thief::at(&other, ANY_V4, 80).start().unwrap());
    }
    assert!((passes(&agent) - before).abs() < f64::EPSILON, "{before} -> {}", passes(&agent));
    let thief = Thief::at(&node, ANY_V4, 80).reuseport().start().unwrap();
    agent.wait_state("state=down reason=SharedPort", AT_ONCE).unwrap();
    assert!(passes(&agent) > before, "its own namespace does");
    drop(thief);
}

#[test]
fn a_term_to_a_starter_that_ignores_it_drains_for_five_seconds() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::builder(&node).starter().start().unwrap();
    let mut agent = start(&node, By::Events);
    let at = std::time::Instant::now();
    envoy.process().signal(Signal::TERM).unwrap();
    agent.wait_state("state=drain reason=EnvoyTerminating", AT_ONCE).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    let lasted = at.elapsed();
    assert!(lasted >= Duration::from_millis(4_900) && lasted < Duration::from_secs(10), "{lasted:?}");
    envoy.process().ensure_running().unwrap();
}

#[test]
fn a_term_that_the_end_follows_is_a_drain_and_then_down() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::builder(&node).starter().start().unwrap();
    let mut agent = start(&node, By::Events);
    envoy.process().signal(Signal::TERM).unwrap();
    agent.wait_state("state=drain reason=EnvoyTerminating", AT_ONCE).unwrap();
    envoy.kill().unwrap();
    agent.wait_state("state=down reason=EnvoyNotRunning", AT_ONCE).unwrap();
}

#[test]
fn without_programs_a_term_alone_changes_nothing() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::builder(&node).starter().start().unwrap();
    let mut agent = start(&node, By::Polling);
    envoy.process().signal(Signal::TERM).unwrap();
    let ticks = |agent: &Agent| agent.metric_value("gwready_passes_total", &[("trigger", "tick")]).unwrap();
    let before = ticks(&agent);
    eventually(SOON, || {
        ensure!(ticks(&agent) >= before + 3.0, "three more passes");
        Ok(())
    })
    .unwrap();
    assert!(agent.state_line().unwrap().starts_with("state=up "));
    assert!(!agent.log_contains("EnvoyTerminating"));
    assert!(agent.log_contains("ebpf: false"), "it says that it polls:\n{}", agent.log());
    agent.process().ensure_running().unwrap();
}

#[test]
fn connections_are_counted_by_port() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let agent = start(&node, By::Events);
    let count = |agent: &Agent| agent.metric_value("gwready_connections_established_total", &[("port", "80")]);
    let before = count(&agent).unwrap();
    let served = gwready_tests::client::ask_many(node.outside(), node_v4(1).into(), 80, 25).unwrap();
    assert_eq!(served.envoy(), 25, "{served}");
    eventually(SOON, || {
        let now = count(&agent)?;
        ensure!((now - before - 25.0).abs() < f64::EPSILON, "{before} -> {now}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_thief_is_not_a_reason_to_miss_the_end_of_envoy() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let mut agent = start(&node, By::Events);
    let thief = Thief::at(&node, node_v4(2).into(), 80).reuseport().start().unwrap();
    agent.wait_state("state=up partial=1", AT_ONCE).unwrap();
    envoy.kill().unwrap();
    agent.wait_state("state=down", AT_ONCE).unwrap();
    drop(thief);
    agent.wait_state("state=down reason=EnvoyNotRunning", SOON).unwrap();
}

#[test]
fn programs_that_could_not_be_attached_are_as_soon_as_nothing_is_in_the_way() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    // The kernel's type information is hidden from the agent: two of the three programs can't work without it.
    node.space().output("mount", &["-t", "tmpfs", "none", "/sys/kernel/btf"]).unwrap();
    let builder = Agent::quick(&node).set("probe.enabled", false).set("timing.stale_after", "20s");
    let mut agent = builder.set("timing.resync", format!("{}s", TICK.as_secs())).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    let line = agent.wait_log("kernel events are missing, polling goes on", SOON).unwrap();
    assert!(line.contains("WARN") && line.contains("socket_state"), "{line}");
    wait_attached(&agent, &[("process_exit", 1.0), ("signal_generate", 0.0), ("socket_state", 0.0)]);
    envoy.set_listeners(&[]).unwrap();
    let line = agent.wait_log("node DOWN reason=NoListener", SOON).unwrap();
    assert!(!line.contains(" detected_in="), "{line}");
    envoy.set_listeners(&[Listener::gateway()]).unwrap();
    agent.wait_state("state=up", SOON).unwrap();

    node.space().output("umount", &["/sys/kernel/btf"]).unwrap();
    wait_attached(&agent, &PROGRAMS.map(|program| (program, 1.0)));
    let log = agent.log();
    assert_eq!(log.matches("kernel events are missing").count(), 1, "one WARN, however many attempts:\n{log}");
    assert!(log.contains("3 programs attached"), "{log}");
    let before = verdicts_by_event(&agent);
    envoy.set_listeners(&[]).unwrap();
    agent.wait_state("state=down reason=NoListener port=80,443", AT_ONCE).unwrap();
    let log = agent.log();
    let line = log.lines().rfind(|line| line.contains("node DOWN reason=NoListener")).unwrap();
    assert!(line.contains(" detected_in="), "{line}");
    assert!(verdicts_by_event(&agent) > before);
}
