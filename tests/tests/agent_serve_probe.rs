//! What the agent's own probe adds: who answers, whether TLS is served, what an operator's probe expects; and what it must leave alone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};

use gwready_tests::listener::{HOST_OK, SNI};
use gwready_tests::scene::{SOON, quick, wait_reason, wait_status};
use gwready_tests::{Agent, Envoy, Listener, Node, Scene, Thief, Tls, eventually};
use serde_json::json;

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// An agent that judges port 80 over IPv4.
fn of_port_80(node: &Node) -> Agent {
    quick(node).set("ports", json!([80])).set("families", json!(["ipv4"])).start().unwrap()
}

#[test]
fn a_program_that_accepts_and_is_silent_is_no_envoy_at_work() {
    let node = Node::new().unwrap();
    let thief = Thief::at(&node, ANY, 80).exe_name("cilium-envoy").mute().start().unwrap();
    let mut agent = of_port_80(&node);
    agent.wait_state("state=down reason=ProbeTimeout port=80", SOON).unwrap();
    drop(thief);
    let _envoy = Envoy::start(&node).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_program_that_accepts_and_closes_is_no_envoy_at_work() {
    let node = Node::new().unwrap();
    let thief = Thief::at(&node, ANY, 80).exe_name("cilium-envoy").closing().start().unwrap();
    let mut agent = of_port_80(&node);
    agent.wait_state("state=down reason=ProbeReset port=80", SOON).unwrap();
    drop(thief);
    let _envoy = Envoy::start(&node).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_listener_that_packets_cannot_reach_over_loopback_is_refused_to_the_probe_alone() {
    let mut scene = Scene::up().unwrap();
    let node = scene.node.clone();
    let nft = |words: &str| node.space().output("nft", &words.split(' ').collect::<Vec<_>>()).unwrap();
    nft("add table inet refuse");
    nft("add chain inet refuse in { type filter hook input priority 0 ; }");
    nft("add rule inet refuse in iif lo tcp dport 80 reject with tcp reset");
    scene.wait_node_down("ProbeRefused").unwrap();
    nft("delete table inet refuse");
    scene.wait_node_up().unwrap();
}

#[test]
fn an_answer_of_another_process_is_told_by_the_probe_too() {
    let node = Node::new().unwrap();
    let https = Listener { ports: vec![443], ..Listener::gateway() };
    let mut envoy = Envoy::builder(&node).listeners(vec![https]).start().unwrap();
    let thief = Thief::at(&node, ANY, 80).start().unwrap();
    let mut agent = of_port_80(&node);
    wait_reason(&agent, "Responding", "NotEnvoy").unwrap();
    agent.wait_state("state=down reason=ForeignOwner port=80", SOON).unwrap();
    drop(thief);
    envoy.set_listeners(&[Listener::gateway()]).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_missing_secret_is_found_by_the_name_that_envoy_gives() {
    let node = Node::new().unwrap();
    let keyless = Listener { tls: Tls::MissingSecret(vec![SNI.into()]), ..Listener::gateway() };
    let envoy = Envoy::builder(&node).listeners(vec![keyless]).start().unwrap();
    let agent = quick(&node).start().unwrap();
    let mut scene = Scene { agent, envoy, node };
    let line = scene.wait_node_down("TlsFailed").unwrap();
    assert!(line.contains(" port=443 "), "{line}");
    let (_, status) = scene.agent.admin("/status").unwrap();
    assert!(status.contains(SNI), "{status}");
    scene.envoy.set_listeners(&[Listener::gateway()]).unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn passthrough_is_not_judged_and_its_backend_never_sees_a_probe() {
    let node = Node::new().unwrap();
    let passthrough = Listener { tls: Tls::Passthrough(vec!["p.example".into()]), ..Listener::gateway() };
    let envoy = Envoy::builder(&node).listeners(vec![passthrough]).start().unwrap();
    let mut scene = Scene::with(&node, envoy, quick(&node)).unwrap();
    wait_reason(&scene.agent, "Responding", "NotJudged").unwrap();
    // Several rounds of every front have gone by when the listener was asked this often.
    let asked = || -> anyhow::Result<u64> {
        let stats = scene.envoy.get("/stats?filter=^listener.*downstream_cx_total$")?;
        Ok(stats.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    };
    let before = asked().unwrap();
    eventually(SOON, || {
        let now = asked()?;
        anyhow::ensure!(now >= before + 12, "{now}");
        Ok(())
    })
    .unwrap();
    let clusters = scene.envoy.get("/clusters").unwrap();
    let reached: Vec<&str> = clusters.lines().filter(|line| line.starts_with("silent::") && line.contains("::cx_total::")).collect();
    assert!(!reached.is_empty() && reached.iter().all(|line| line.ends_with("::0")), "{reached:?}");
    scene.wait_node_up().unwrap();
    scene.envoy.set_listeners(&[Listener::gateway()]).unwrap();
    eventually(SOON, || {
        let status = scene
            .agent
            .metric_value("gwready_condition_status", &[("type", "Responding"), ("port", "443"), ("family", "ipv4"), ("status", "true")])?;
        anyhow::ensure!(status > 0.5, "not judged yet");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_probe_of_the_operator_expects_its_status() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let probe = |status: u16| json!([{"port": 80, "host": HOST_OK, "path": "/", "expect_status": [status]}]);
    let mut agent = quick(&node).set("probes", probe(418)).start().unwrap();
    let line = agent.wait_state("state=down reason=UnexpectedStatus", SOON).unwrap();
    assert!(line.contains(" port=80 "), "{line}");
    agent.stop().unwrap();
    let mut agent = quick(&node).set("probes", probe(200)).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    wait_status(&agent, "Responding", "true").unwrap();
}
