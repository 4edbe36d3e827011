//! What `kubectl logs` and a snapshot alone tell, with a real Envoy: the state after a storm of changes, that a new address is no
//! trouble, and which sources there are.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use anyhow::ensure;
use gwready_tests::node::{UPLINK, node_v4, run_batch};
use gwready_tests::scene::{SOON, quick};
use gwready_tests::{Agent, Envoy, Node, Scene, eventually};

/// Drains and ends the drain in turn, each waited for: one transition each.
fn toggle(agent: &mut Agent, times: usize) {
    for n in 0..times {
        let (command, state) = if n % 2 == 0 { ("drain", "state=drain reason=DrainRequested") } else { ("undrain", "state=up") };
        assert!(agent.command(&[command]).unwrap().output().unwrap().status.success(), "{command}");
        agent.wait_state(state, SOON).unwrap();
    }
}

/// The lines that tell the node's state.
fn told(agent: &Agent) -> Vec<String> {
    agent.log().lines().filter(|line| line.contains(" node ")).map(str::to_owned).collect()
}

#[test]
fn after_a_storm_of_changes_the_last_line_tells_the_state_with_its_reason() {
    let mut scene = Scene::up().unwrap();
    toggle(&mut scene.agent, 11);
    let lines = told(&scene.agent);
    let last = lines.last().unwrap();
    assert!(last.contains("node FLAPPING now="), "the storm is announced, and what follows is held back: {lines:#?}");
    assert!(lines.len() < 11, "{lines:#?}");
    // Without another change: the agent's own tick says it.
    eventually(Duration::from_secs(30), || {
        let lines = told(&scene.agent);
        let last = lines.last().map(String::as_str).unwrap_or_default();
        let wanted = ["WARN node FLAPPING now=DRAIN transitions=", " reason=DrainRequested ", "asked_by=\"uid 0", "fix="];
        ensure!(wanted.iter().all(|part| last.contains(part)), "{lines:#?}");
        Ok(())
    })
    .unwrap();

    assert!(scene.agent.command(&["undrain"]).unwrap().output().unwrap().status.success());
    scene.agent.wait_state("state=up", SOON).unwrap();
    toggle(&mut scene.agent, 9);
    scene.agent.stop().unwrap();
    let lines = told(&scene.agent);
    assert!(lines.last().unwrap().contains("now=DRAIN"), "an agent that ends holds nothing back: {lines:#?}");
}

#[test]
fn a_new_address_joins_without_a_warning() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let mut scene = Scene::with(&node, envoy, quick(&node).set("timing.min_up", "1s")).unwrap();
    run_batch(node.space(), &format!("addr add {}/24 dev {UPLINK}\n", node_v4(3))).unwrap();
    let joining = scene.agent.wait_log(&format!("joining={}", node_v4(3)), SOON).unwrap();
    assert!(joining.contains(" INFO node UP ") && joining.contains("partial=1 of=3 reason=Starting"), "{joining}");
    let joined = scene.agent.wait_log(&format!("joined={}", node_v4(3)), SOON).unwrap();
    assert!(joined.contains(" INFO node UP ") && joined.contains("partial=0"), "{joined}");
    assert!(!scene.agent.log_contains("WARN node"), "{}", scene.agent.log());
}

#[test]
fn a_family_that_is_off_in_cilium_is_not_there_and_no_failed_read() {
    let node = Node::new().unwrap();
    let maps = gwready_tests::scene::maps(&node).unwrap();
    let pins = maps.globals().to_owned();
    node.space().output("sh", &["-c", &format!("rm {}/cilium_lb6_*", pins.display())]).unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let scene = Scene::with(&node, envoy, quick(&node)).unwrap();
    let (_, status) = scene.agent.admin("/status").unwrap();
    let document: serde_json::Value = serde_json::from_str(&status).unwrap();
    let state = |name: &str| {
        let sources = document["sources"].as_array().unwrap();
        sources.iter().find(|source| source["source"] == name).map(|source| source["state"].clone()).unwrap()
    };
    assert_eq!((state("lb_v4"), state("lb_v6")), ("observed".into(), "not_there".into()), "{status}");
    assert!(!document["not_visible"].to_string().contains("lb_v6"), "nothing to grant: {status}");
    let failures =
        |name| scene.agent.metric_value("gwready_observation_failures_total", &[("source", name), ("reason", "absent")]).unwrap();
    assert!(failures("lb_v6") < 0.5, "no failed read");

    let file = node.dir().join("snapshot.json");
    std::fs::write(&file, scene.agent.command(&["snapshot"]).unwrap().output().unwrap().stdout).unwrap();
    let explained = scene.agent.command(&["explain", file.to_str().unwrap()]).unwrap().output().unwrap();
    let told = String::from_utf8(explained.stdout).unwrap();
    assert!(told.contains("   lb_v6        not there (IPv6 is off in Cilium)\n"), "{told}");
    for source in ["addresses", "sockets", "owners", "lb_v4", "l7", "steering", "tproxy", "netfilter", "cilium_agent", "envoy", "probes"] {
        let line = told.lines().find(|line| line.starts_with(&format!("   {source} "))).unwrap_or_default();
        assert!(line.contains(" read "), "{source} was not read:\n{told}");
    }
}
