//! Cilium's own step "restart operator, agent and Envoy" under the eyes of a client and a balancer who ask all the time: the real
//! gap shows as down, nothing before it and nothing after it. (The operator leaves no trace on a node.)

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use gwready_tests::agent::{HEALTH_PORT, state_line};
use gwready_tests::cilium_agent::{CONTROL_PLANE, CiliumAgent};
use gwready_tests::client::{self, Answer, ask_here};
use gwready_tests::node::node_v4;
use gwready_tests::scene::{SOON, quick, wait_reason, wait_status};
use gwready_tests::{Agent, Envoy, Listener, Node, Scene, eventually};
use rustix::process::Signal;

/// How late a busy machine may let the agent notice; on an idle one it is less than a millisecond.
const LATE: Duration = Duration::from_secs(2);
/// How long Envoy must have been seen to serve: the first probe of every front, which comes within its interval.
const BACK: Duration = Duration::from_secs(4);

/// The balancer asked first, then the client.
#[derive(Debug)]
struct Look {
    at: Instant,
    end: Instant,
    line: String,
    answer: Answer,
}

impl Look {
    fn state(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }
}

fn look(address: IpAddr) -> Look {
    let at = Instant::now();
    let request = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";
    let reply = client::exchange(SocketAddr::new(address, HEALTH_PORT), request, SOON);
    let line = reply.map_err(anyhow::Error::from).and_then(|reply| state_line(&reply)).unwrap_or_else(|error| format!("{error:#}"));
    let answer = ask_here(SocketAddr::new(address, 80), SOON);
    Look { at, end: Instant::now(), line, answer }
}

/// Waits until `/status` has these words.
fn said(agent: &Agent, words: &str) -> Result<()> {
    eventually(2 * SOON, || {
        let (_, status) = agent.admin("/status")?;
        ensure!(status.contains(words), "no {words:?} in {status}");
        Ok(())
    })
}

/// The cilium-agent's restart: every trace of it goes and comes back, Envoy serves on.
fn restart_cilium_agent(scene: &Scene, cilium: &mut CiliumAgent) -> Result<()> {
    cilium.stop()?;
    wait_reason(&scene.agent, "ConfigCurrent", "XdsDisconnected")?;
    eventually(2 * SOON, || wait_reason(&scene.agent, "CiliumAgentAlive", "CiliumAgentStale"))?;
    cilium.close_proxy_path()?;
    said(&scene.agent, "RuleMissing")?;
    cilium.start_again()?;
    cilium.open_proxy_path()?;
    cilium.accept_envoy()?;
    for condition in ["CiliumAgentAlive", "TproxyPath", "NotIntercepted", "ConfigCurrent"] {
        wait_status(&scene.agent, condition, "true")?;
    }
    Ok(())
}

/// Envoy's restart: told to end, ended, started, serving. No step is so quick that the balancer misses it.
fn restart_envoy(scene: &mut Scene, cilium: &mut CiliumAgent, looks: &Mutex<Vec<Look>>) -> Result<()> {
    let balancer = |wanted: &str| {
        eventually(SOON, || {
            let looks = looks.lock().map_err(|_| anyhow!("a look panicked"))?;
            ensure!(looks.last().is_some_and(|look| look.line.contains(wanted)), "not yet {wanted}");
            Ok(())
        })
    };
    scene.envoy.process().signal(Signal::TERM)?;
    balancer("reason=EnvoyTerminating")?;
    scene.envoy.kill()?;
    balancer("reason=EnvoyNotRunning")?;
    scene.envoy.start_again()?;
    cilium.accept_envoy()?;
    scene.envoy.wait_serving()?;
    scene.wait_node_up()
}

/// First and last look of this kind.
fn span(looks: &[Look], wanted: impl Fn(&Look) -> bool) -> Option<(Instant, Instant)> {
    let mut at = looks.iter().filter(|look| wanted(look)).map(|look| look.at);
    let first = at.next()?;
    Some((first, at.next_back().unwrap_or(first)))
}

#[test]
fn the_real_gap_of_a_roll_out_shows_as_down_and_nothing_before_or_after_it() {
    let node = Node::new().unwrap();
    let mut cilium = CiliumAgent::start(&node).unwrap();
    let listeners = vec![Listener::gateway(), CiliumAgent::proxy_listener()];
    let envoy = Envoy::builder(&node).starter().control_plane(CONTROL_PLANE).listeners(listeners).spawn().unwrap();
    cilium.accept_envoy().unwrap();
    let mut scene = Scene::with(&node, envoy, quick(&node)).unwrap();
    for condition in ["CiliumAgentAlive", "TproxyPath", "NotIntercepted", "ConfigCurrent"] {
        wait_status(&scene.agent, condition, "true").unwrap();
    }
    scene.wait_node_up().unwrap();

    let address = node_v4(1).into();
    let (over, looks) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let outside = scene.node.clone();
    let agent_done = std::thread::scope(|scope| {
        scope.spawn(|| {
            outside.outside().enter(|| {
                while !over.load(Ordering::Relaxed) {
                    let look = look(address);
                    looks.lock().unwrap().push(look);
                }
                Ok(())
            })
        });
        let done = restart_cilium_agent(&scene, &mut cilium);
        let agent_done = Instant::now();
        let done = done.and_then(|()| restart_envoy(&mut scene, &mut cilium, &looks));
        // Two resyncs, several rounds of probes and a renewed look at everything.
        let end = Instant::now() + Duration::from_secs(3);
        let quiet = eventually(SOON, || {
            ensure!(Instant::now() >= end, "still watching");
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        done.and(quiet).unwrap();
        agent_done
    });
    let looks = looks.into_inner().unwrap();
    let before = looks.iter().filter(|look| look.end < agent_done);
    assert!(before.clone().count() > 100, "asked all the time");
    let wrong: Vec<&Look> = before.filter(|look| look.state() != "state=up" || look.answer != Answer::Envoy).collect();
    assert!(wrong.is_empty(), "the cilium-agent's restart takes nobody out: {wrong:?}\n{}", scene.agent.log());

    let mut states: Vec<&str> = looks.iter().map(Look::state).collect();
    states.dedup();
    assert_eq!(states, ["state=up", "state=drain", "state=down", "state=up"], "{}", scene.agent.log());
    let (gap_from, gap_to) = span(&looks, |look| look.answer != Answer::Envoy).unwrap();
    let (down_from, down_to) = span(&looks, |look| look.state() == "state=down").unwrap();
    // Down is said no sooner than it is true: the client who asked after the balancer was not served either.
    assert!(down_from >= gap_from, "down {:?} before the gap", gap_from - down_from);
    assert!(looks.iter().filter(|look| (gap_from..=gap_to).contains(&look.at)).all(|look| look.answer != Answer::Envoy), "one gap");
    let (late, back) = (down_from - gap_from, down_to.saturating_duration_since(gap_to));
    assert!(late < LATE, "a balancer heard of the gap {late:?} after it began");
    assert!(back < BACK, "down for {back:?} after the gap");
    println!("{} looks; gap {:?}; told {late:?} after it began, over {back:?} after it ended", looks.len(), gap_to - gap_from);
}
