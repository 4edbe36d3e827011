//! A socket in LISTEN whose process does not serve: stopped, frozen, out of descriptors, stuck queues. And one that is only busy.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gwready_tests::halt::halt;
use gwready_tests::node::node_v4;
use gwready_tests::scene::{SOON, quick, wait_reason};
use gwready_tests::{Agent, AgentBuilder, Listener, Node, Scene, Thief, ThiefBuilder, eventually, freezer};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

#[test]
fn a_stopped_envoy_takes_the_node_down_until_it_goes_on() {
    let mut scene = Scene::up().unwrap();
    scene.envoy.stop().unwrap();
    scene.wait_node_down("ProcessStopped").unwrap();
    scene.envoy.resume().unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn an_agent_that_hangs_says_that_its_word_is_old_until_it_goes_on() {
    let mut scene = Scene::up().unwrap();
    let hung = halt(scene.agent.pid(), "observer").unwrap();
    scene.wait_node_down("Stale").unwrap();
    drop(hung);
    scene.wait_node_up().unwrap();
}

#[test]
fn a_frozen_envoy_takes_the_node_down_until_it_thaws() {
    let mut scene = Scene::up().unwrap();
    for kind in 0..freezer::count().unwrap() {
        let frozen = freezer::freeze(kind, scene.envoy.pid().unwrap()).unwrap();
        scene.wait_node_down("ProcessStopped").unwrap();
        drop(frozen);
        scene.wait_node_up().unwrap();
    }
}

#[test]
fn an_envoy_without_free_descriptors_takes_the_node_down_until_it_has_some() {
    let mut scene = Scene::up().unwrap();
    let pid = Pid::from_raw(scene.envoy.pid().unwrap()).unwrap();
    // Envoy inherited ours; the hard limit stays, so that it can be raised again.
    let before = getrlimit(Resource::Nofile);
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(8), ..before }).unwrap();
    scene.wait_node_down("OutOfFileDescriptors").unwrap();
    prlimit(Some(pid), Resource::Nofile, before).unwrap();
    scene.wait_node_up().unwrap();
}

/// A program that the agent takes for cilium-envoy by its executable, with a socket of our own making.
fn impostor(node: &Node) -> ThiefBuilder {
    Thief::at(node, Ipv4Addr::UNSPECIFIED.into(), 80).exe_name("cilium-envoy")
}

/// Judges port 80 over IPv4 by the kernel alone.
fn unprobed(node: &Node) -> AgentBuilder {
    quick(node).set("ports", json!([80])).set("families", json!(["ipv4"])).set("probe.enabled", false)
}

/// Connections from outside that nobody need answer.
fn connect(node: &Node, count: usize) -> Vec<TcpStream> {
    let to = SocketAddr::new(IpAddr::V4(node_v4(1)), 80);
    node.outside().enter(|| (0..count).map(|_| Ok(TcpStream::connect_timeout(&to, SOON)?)).collect()).unwrap()
}

fn up(node: &Node) -> Agent {
    let mut agent = unprobed(node).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    agent
}

#[test]
fn a_queue_from_which_nobody_accepts_takes_the_node_down() {
    let node = Node::new().unwrap();
    let dead = impostor(&node).no_accept().start().unwrap();
    let mut agent = up(&node);
    let waiting = connect(&node, 4);
    agent.wait_state("state=down reason=QueueStuck port=80", SOON).unwrap();
    let length = agent.metric_value("gwready_accept_queue_length", &[("port", "80"), ("family", "ipv4")]).unwrap();
    assert!((length - 4.0).abs() < f64::EPSILON, "{length}");
    drop((waiting, dead));
    let _living = impostor(&node).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn one_of_two_workers_that_is_stuck_takes_the_node_down() {
    let node = Node::new().unwrap();
    let lame = impostor(&node).idle_member().start().unwrap();
    let mut agent = up(&node);
    // About half of them wait at the idle socket.
    let waiting = connect(&node, 24);
    agent.wait_state("state=down reason=WorkerStuck port=80", SOON).unwrap();
    drop((waiting, lame));
    let _living = impostor(&node).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_full_queue_that_moves_is_shown_and_never_takes_the_node_down() {
    let node = Node::new().unwrap();
    let _busy = impostor(&node).backlog(2).pause(Duration::from_millis(20)).start().unwrap();
    let mut agent = up(&node);
    let to = SocketAddr::new(IpAddr::V4(node_v4(1)), 80);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let asked = node.outside().enter(|| Ok(gwready_tests::client::ask_here(to, Duration::from_secs(2))));
                    drop(asked);
                }
            });
        }
        let shown = wait_reason(&agent, "Accepting", "Overloaded");
        // Longer than any grace: a queue that looked stuck would be called so by now.
        let end = std::time::Instant::now() + Duration::from_secs(5);
        let stayed = eventually(SOON, || {
            let line = agent.state_line()?;
            if !line.starts_with("state=up ") {
                return Ok(Err(line));
            }
            anyhow::ensure!(std::time::Instant::now() >= end, "still watching");
            Ok(Ok(()))
        });
        over.store(true, Ordering::Relaxed);
        shown.unwrap();
        stayed.unwrap().unwrap();
    });
    agent.wait_state("state=up", SOON).unwrap();
    eventually(SOON, || {
        let text = agent.metrics()?;
        anyhow::ensure!(!text.lines().any(|line| line.contains("reason=\"Overloaded\"") && line.ends_with(" 1")), "still shown");
        Ok(())
    })
    .unwrap();
}

#[test]
fn bursts_at_a_real_envoy_never_take_the_node_down() {
    let mut scene = Scene::up_with(|envoy| envoy.listeners(vec![Listener { backlog: Some(8), ..Listener::gateway() }])).unwrap();
    for _ in 0..10 {
        drop(connect(&scene.node, 64));
        let line = scene.agent.state_line().unwrap();
        assert!(line.starts_with("state=up "), "{line}");
    }
    scene.wait_node_up().unwrap();
    let downs = scene.agent.metric_value("gwready_transitions_total", &[("from", "up"), ("to", "down")]);
    assert!(downs.is_err() || downs.unwrap() < 0.5, "a burst was taken for a fault");
}
