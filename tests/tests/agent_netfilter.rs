//! Netfilter under a live agent: redirects, drops and doubtful rules come and go, by nft and by both kinds of iptables, and the agent says
//! which rule it is.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use gwready_tests::netfilter::{Tool, flush};
use gwready_tests::scene::{SOON, maps, quick, wait_reason, wait_status};
use gwready_tests::{Agent, Envoy, Node, Scene, eventually};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

/// A chain of both families with one rule.
fn chain(kind: &str, hook: &str, rule: &str) -> String {
    format!("table inet foreign {{ chain way {{ type {kind} hook {hook} priority -10; {rule}; }}; }}\n")
}

fn load(scene: &Scene, tool: Tool, rules: &str) {
    tool.load(scene.node.space(), rules).unwrap();
}

/// The evidence of NotIntercepted at some endpoint, with this reason.
fn evidence(agent: &Agent, reason: &str) -> String {
    let status: Value = serde_json::from_str(&agent.admin("/status").unwrap().1).unwrap();
    let told = status["conditions"].as_array().unwrap().iter().find(|condition| condition["reason"] == reason);
    told.unwrap_or_else(|| panic!("no {reason} in {status:#}")).to_string()
}

#[test]
fn a_redirect_takes_the_node_down_with_its_rule_until_it_is_gone() {
    let mut scene = Scene::up().unwrap();
    load(&scene, Tool::Nft, &chain("nat", "prerouting", "tcp dport 80 redirect to :8080 comment \"left over\""));
    let line = scene.wait_node_down("NetfilterRedirect").unwrap();
    assert!(line.contains(" port=80 "), "{line}");
    let told = evidence(&scene.agent, "NetfilterRedirect");
    for words in ["tcp dport 80 redirect to :8080", "left over", "table inet foreign", "chain way", "handle "] {
        assert!(told.contains(words), "no {words:?} in {told}");
    }
    let log = scene.agent.wait_log("reason=NetfilterRedirect", SOON).unwrap();
    for words in ["WARN", "rule=\"tcp dport 80 redirect to :8080", "place=\"table inet foreign, chain way, handle "] {
        assert!(log.contains(words), "no {words:?} in {log}");
    }
    load(&scene, Tool::Nft, "delete table inet foreign\n");
    scene.wait_node_up().unwrap();
}

#[test]
fn a_drop_of_one_address_takes_that_address_down() {
    let mut scene = Scene::up().unwrap();
    let (first, second) = (scene.first(), scene.second());
    load(&scene, Tool::Nft, &chain("filter", "input", "ip daddr 10.77.0.1 tcp dport 443 drop"));
    let line = scene.wait_down(first, "NetfilterDrop").unwrap();
    assert!(line.contains(" port=443 "), "{line}");
    scene.wait_up(second).unwrap();
    assert!(evidence(&scene.agent, "NetfilterDrop").contains("ip daddr 10.77.0.1 tcp dport 443 drop"));
    load(&scene, Tool::Nft, "flush table inet foreign\n");
    scene.wait_up(first).unwrap();
}

#[test]
fn both_kinds_of_iptables_are_seen() {
    let mut scene = Scene::up().unwrap();
    let first = scene.first();
    for tool in [Tool::IptablesNft, Tool::IptablesLegacy] {
        load(&scene, tool, include_str!("../netfilter/portmap.rules"));
        scene.wait_down(first, "NetfilterRedirect").unwrap();
        let told = evidence(&scene.agent, "NetfilterRedirect");
        assert!(told.contains("10.42.0.7:8080") && told.contains("CNI-DN-"), "{tool:?}: {told}");
        assert_eq!(told.contains("iptables-legacy"), tool == Tool::IptablesLegacy, "{told}");
        flush(scene.node.space()).unwrap();
        scene.wait_node_up().unwrap();
    }
}

#[test]
fn a_rule_that_cannot_be_decided_is_told_and_takes_no_node_down() {
    let (mut scene, _maps) = Scene::up_with_maps().unwrap();
    wait_status(&scene.agent, "NotIntercepted", "true").unwrap();
    // What packets add to a set, no generation tells. It is empty here, so that nothing is dropped.
    let set = "table inet foreign { set doubtful { type inet_service; flags dynamic; }; }\n";
    load(&scene, Tool::Nft, &(set.to_owned() + &chain("filter", "input", "tcp dport @doubtful drop")));
    wait_reason(&scene.agent, "NotIntercepted", "NetfilterUnclear").unwrap();
    assert!(evidence(&scene.agent, "NetfilterUnclear").contains("tcp dport @doubtful"));
    scene.wait_node_up().unwrap();
    load(&scene, Tool::Nft, "delete table inet foreign\n");
    wait_status(&scene.agent, "NotIntercepted", "true").unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn without_net_admin_the_rules_are_unreadable_and_a_healthy_node_stays_up() {
    let node = Node::new().unwrap();
    let _maps = maps(&node).unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let blind = |builder: gwready_tests::AgentBuilder| builder.under(&["setpriv", "--bounding-set=-net_admin", "--inh-caps=-all"]);
    let mut agent = blind(quick(&node)).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    wait_reason(&agent, "NotIntercepted", "NetfilterUnreadable").unwrap();
    let (status, body) = agent.admin("/readyz").unwrap();
    assert!(status == 503 && body.contains("NotIntercepted"), "{status} {body}");
    let failed = agent.metric_value("gwready_observation_failures_total", &[("source", "netfilter"), ("reason", "permission")]).unwrap();
    assert!(failed >= 1.0, "{failed}");
    agent.stop().unwrap();
    let mut agent = quick(&node).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    wait_status(&agent, "NotIntercepted", "true").unwrap();
}

#[test]
fn an_agent_that_starts_on_a_redirected_node_is_never_up() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    Tool::Nft.load(node.space(), &chain("nat", "prerouting", "tcp dport { 80, 443 } redirect to :8080")).unwrap();
    let mut agent = quick(&node).start().unwrap();
    agent.wait_state("state=down reason=NetfilterRedirect", SOON).unwrap();
    let went = agent.log();
    assert!(!went.contains("node UP") && !went.contains("state=up"), "{went}");
    Tool::Nft.load(node.space(), "flush ruleset\n").unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_new_address_is_judged_by_the_rules_at_once() {
    let mut scene = Scene::up().unwrap();
    load(&scene, Tool::Nft, &chain("nat", "prerouting", "ip daddr 10.77.0.9 tcp dport 80 redirect to :8080"));
    scene.node.space().output("ip", &["addr", "add", "10.77.0.9/24", "dev", "eth0"]).unwrap();
    scene.wait_down([10, 77, 0, 9].into(), "NetfilterRedirect").unwrap();
    scene.wait_up([10, 77, 0, 1].into()).unwrap();
}

/// Standard output of a command of the agent's own binary.
fn told(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn check_and_snapshot_read_the_rules_too() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    Tool::IptablesLegacy.load(node.space(), include_str!("../netfilter/docker.rules")).unwrap();
    let (code, text) = told(quick(&node).command(&["check"]).unwrap());
    assert!(text.contains("NetfilterRedirect") && text.contains("DOCKER"), "{code:?} {text}");
    let (_, snapshot) = told(quick(&node).command(&["snapshot", "--fresh"]).unwrap());
    let snapshot: Value = serde_json::from_str(&snapshot).unwrap();
    let paths = snapshot["snapshot"]["netfilter"]["observed"]["value"]["paths"].as_array().unwrap().clone();
    assert_eq!(paths.len(), 8, "{paths:#?}");
}

#[test]
fn a_burst_of_changes_is_a_few_passes_and_the_last_one_counts() {
    let mut scene = Scene::up().unwrap();
    wait_status(&scene.agent, "Listening", "true").unwrap();
    load(&scene, Tool::Nft, &chain("filter", "input", "counter"));
    let passes = |scene: &Scene| scene.agent.metric_value("gwready_passes_total", &[("trigger", "netfilter")]).unwrap();
    let before = passes(&scene);
    // Every change is a generation of its own; only the last one matters to a client.
    let space = scene.node.space();
    for port in 1000..1060 {
        Tool::Nft.load(space, &format!("add rule inet foreign way tcp dport {port} drop\n")).unwrap();
    }
    Tool::Nft.load(space, "add rule inet foreign way tcp dport 80 drop\n").unwrap();
    scene.wait_node_down("NetfilterDrop").unwrap();
    let woken = passes(&scene) - before;
    assert!((1.0..=3.0).contains(&woken), "{woken} passes: only what changes an answer wakes the observer");
    eventually(SOON, || {
        let age = scene.agent.metric_value("gwready_observation_age_seconds", &[("source", "netfilter")])?;
        anyhow::ensure!(age < 3.0, "{age}");
        Ok(())
    })
    .unwrap();
}

fn age(agent: &Agent) -> f64 {
    agent.metric_value("gwready_observation_age_seconds", &[("source", "netfilter")]).unwrap()
}

#[test]
fn a_change_is_heard_of_long_before_the_next_look() {
    let mut scene = Scene::up().unwrap();
    // Many legacy rules, on nobody's way: looks that find nothing new are up to half a minute apart.
    let rules: String = (0..8000).map(|n| format!("-A UNUSED -s 203.0.{}.{}/32 -j ACCEPT\n", n / 250, n % 250)).collect();
    load(&scene, Tool::IptablesLegacy, &format!("*raw\n:PREROUTING ACCEPT [0:0]\n:UNUSED - [0:0]\n{rules}COMMIT\n"));
    eventually(Duration::from_secs(60), || {
        let age = age(&scene.agent);
        anyhow::ensure!(age > 8.0, "the last look is {age} s old");
        Ok(())
    })
    .unwrap();
    load(&scene, Tool::Nft, &chain("nat", "prerouting", "tcp dport 80 redirect to :8080"));
    scene.wait_node_down("NetfilterRedirect").unwrap();
    load(&scene, Tool::Nft, "delete table inet foreign\n");
    scene.wait_node_up().unwrap();
}

#[test]
fn a_tproxy_of_nft_takes_clients_only_while_somebody_listens_where_it_sends_them() {
    let mut scene = Scene::up().unwrap();
    let rule = "meta nfproto ipv4 tcp dport 80 tproxy ip to :12345 meta mark set 0x1 accept";
    load(&scene, Tool::Nft, &chain("filter", "prerouting", rule));
    // The rule has been read before anybody listens.
    let before = age(&scene.agent);
    eventually(SOON, || {
        let age = age(&scene.agent);
        anyhow::ensure!(age < before || age < 0.5, "{age}");
        Ok(())
    })
    .unwrap();
    scene.wait_node_up().unwrap();
    let proxy = scene.node.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_ip_transparent_v4(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 12345)).into())?;
        socket.listen(128)?;
        Ok(socket)
    });
    let first = scene.first();
    scene.wait_down(first, "NetfilterRedirect").unwrap();
    drop(proxy);
    scene.wait_up(first).unwrap();
}
