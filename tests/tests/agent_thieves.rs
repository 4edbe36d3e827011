//! Whatever takes the gateway's ports from a real Envoy: the reason, the thief by name, the addresses that suffer, and
//! that it is over when the thief is gone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use gwready_tests::agent::HEALTH_PORT;
use gwready_tests::client::ask_many;
use gwready_tests::node::{UPLINK, node_v4};
use gwready_tests::{Agent, Envoy, Listener, Nginx, Node, Thief};

const SOON: Duration = Duration::from_secs(15);
const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn v4(n: u8) -> IpAddr {
    node_v4(n).into()
}

fn body(agent: &Agent, address: IpAddr) -> String {
    String::from_utf8(agent.health_from_outside(address).unwrap()).unwrap()
}

fn status(agent: &Agent) -> String {
    let (code, text) = agent.admin("/status").unwrap();
    assert_eq!(code, 200, "{text}");
    text
}

#[test]
fn nginx_that_shares_the_port_is_named_in_reply_log_and_status() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let nginx = Nginx::start(&node, &["80 reuseport"]).unwrap();
    agent.wait_state("state=up partial=2", SOON).unwrap();
    agent.wait_state_of(v4(1), "state=down reason=SharedPort port=80", SOON).unwrap();
    let counts = ask_many(node.outside(), v4(1), 80, 60).unwrap();
    assert!(counts.thief() > 0 && counts.envoy() > 0, "the fault itself: {counts}");
    let reply = body(&agent, v4(1));
    assert!(reply.contains("SharedPort") && reply.contains("nginx"), "{reply}");
    let line = agent.wait_log("reason=SharedPort", SOON).unwrap();
    assert!(line.starts_with("WARN") || line.contains(" WARN "), "{line}");
    assert!(line.contains("thief=nginx") && line.contains("fix=\"docs/conditions/SharedPort.md"), "{line}");
    assert!(status(&agent).contains("nginx["), "{}", status(&agent));
    agent.wait_state_of("fd00:77::1".parse().unwrap(), "state=up", SOON).unwrap();
    drop(nginx);
    agent.wait_state("state=up address=all ports=80,443", SOON).unwrap();
    agent.wait_state_of(v4(1), "state=up", SOON).unwrap();
    assert!(!agent.state_line().unwrap().contains("partial="));
}

#[test]
fn nginx_on_one_address_takes_that_address_alone() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let nginx = Nginx::start(&node, &["10.77.0.2:80 reuseport"]).unwrap();
    agent.wait_state_of(v4(2), "state=down reason=ShadowedAddress port=80", SOON).unwrap();
    agent.wait_state("state=up partial=1", SOON).unwrap();
    agent.wait_state_of(v4(1), "state=up", SOON).unwrap();
    let counts = ask_many(node.outside(), v4(2), 80, 5).unwrap();
    assert_eq!(counts.thief(), 5, "{counts}");
    let line = agent.wait_log("reason=ShadowedAddress", SOON).unwrap();
    assert!(line.contains("partial=1 of=4") && line.contains("addresses=10.77.0.2") && line.contains("thief=nginx"), "{line}");
    drop(nginx);
    agent.wait_state_of(v4(2), "state=up", SOON).unwrap();
}

#[test]
fn a_term_to_a_thief_does_not_announce_the_end_of_envoy() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let mut thief = Thief::at(&node, v4(2), 80).reuseport().start().unwrap();
    agent.wait_state_of(v4(2), "state=down reason=ShadowedAddress port=80", SOON).unwrap();
    agent.wait_log(&format!("thief=thief[{}]", thief.pid()), SOON).unwrap();
    thief.process().terminate(SOON).unwrap();
    agent.wait_state_of(v4(2), "state=up", SOON).unwrap();
    assert!(!agent.log().contains("EnvoyTerminating"), "{}", agent.log());
}

#[test]
fn a_thief_bound_to_the_uplink_takes_every_address() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let thief = Thief::at(&node, ANY_V4, 80).reuseport().device(UPLINK).start().unwrap();
    agent.wait_state("state=down reason=ShadowedAddress port=80", SOON).unwrap();
    let line = agent.wait_log("reason=ShadowedAddress", SOON).unwrap();
    assert!(line.contains(&format!("thief=thief[{}]", thief.pid())), "{line}");
    drop(thief);
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_thief_bound_to_a_v4_mapped_address_is_seen_on_that_address() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let thief = Thief::at(&node, "::ffff:10.77.0.1".parse().unwrap(), 443).reuseport().v6only(false).start().unwrap();
    agent.wait_state_of(v4(1), "state=down reason=ShadowedAddress port=443", SOON).unwrap();
    agent.wait_state_of(v4(2), "state=up", SOON).unwrap();
    drop(thief);
    agent.wait_state_of(v4(1), "state=up", SOON).unwrap();
}

#[test]
fn a_thief_instead_of_envoy_is_the_owner() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let mut envoy = Envoy::builder(&node).listeners(vec![Listener::http(443)]).start().unwrap();
    let thief = Thief::at(&node, ANY_V4, 80).start().unwrap();
    let mut agent = Agent::quick(&node).set("ports", serde_json::json!([80, 443])).start().unwrap();
    agent.wait_state("state=down reason=ForeignOwner port=80", SOON).unwrap();
    let line = agent.wait_log("reason=ForeignOwner", SOON).unwrap();
    assert!(line.contains(&format!("thief=thief[{}]", thief.pid())), "{line}");
    drop(thief);
    agent.wait_state("state=down reason=NoListener port=80", SOON).unwrap();
    envoy.set_listeners(&[Listener::http(443), Listener::http(80)]).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_comm_of_envoy_deceives_nobody() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let thief = Thief::at(&node, v4(2), 80).reuseport().comm("cilium-envoy").start().unwrap();
    agent.wait_state_of(v4(2), "state=down reason=ShadowedAddress port=80", SOON).unwrap();
    let line = agent.wait_log("reason=ShadowedAddress", SOON).unwrap();
    assert!(line.contains("thief=\"thief[") && line.contains("(calls itself cilium-envoy)"), "named by its executable: {line}");
    drop(thief);
    agent.wait_state_of(v4(2), "state=up", SOON).unwrap();
}

#[test]
fn two_envoys_on_one_port_are_told_apart() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let first = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let second = Envoy::builder(&node).second(7).start().unwrap();
    agent.wait_state("state=down reason=TwoEnvoys", SOON).unwrap();
    let reply = body(&agent, v4(1));
    assert!(reply.contains(&first.pid().unwrap().to_string()) && reply.contains(&second.pid().unwrap().to_string()), "{reply}");
    drop(second);
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn listeners_and_envoys_of_another_namespace_change_nothing() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let other = Node::builder().without_ipv6().build().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let before = agent.metric_value("gwready_transitions_total", &[("from", "up"), ("to", "down"), ("reason", "SharedPort")]).unwrap();
    let _thief = Thief::at(&other, v4(1), 80).start().unwrap();
    let _far = Envoy::builder(&other).listeners(vec![Listener::http(443)]).start().unwrap();
    let passes = |agent: &Agent| agent.metric_value("gwready_passes_total", &[("trigger", "tick")]).unwrap();
    let seen = passes(&agent);
    gwready_tests::eventually(SOON, || {
        anyhow::ensure!(passes(&agent) >= seen + 2.0, "two more whole passes");
        Ok(())
    })
    .unwrap();
    assert_eq!(agent.state_line().unwrap(), "state=up node=worker-1 address=all ports=80,443");
    let after = agent.metric_value("gwready_transitions_total", &[("from", "up"), ("to", "down"), ("reason", "SharedPort")]).unwrap();
    assert!((before - after).abs() < f64::EPSILON);
    envoy.kill().unwrap();
    agent.wait_state("state=down reason=EnvoyNotRunning", SOON).unwrap();
}

#[test]
fn a_stranger_on_the_health_port_is_named_while_the_agent_serves() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_quick(&node).unwrap();
    let port = HEALTH_PORT;
    let impostor = Thief::at(&node, v4(2), port).reuseport().start().unwrap();
    let line = agent.wait_log("a foreign process listens on the health port", SOON).unwrap();
    assert!(line.contains(&format!("thief[{}] on 10.77.0.2:{port}", impostor.pid())) && line.contains("WARN"), "{line}");
}
