//! The agent beside a real Envoy: what a balancer reads while it serves, after it died, and on which addresses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use gwready_tests::node::{UPLINK, node_v4, run_batch};
use gwready_tests::{Agent, Envoy, Families, Listener, Node, eventually};

const SOON: Duration = Duration::from_secs(15);

fn v4(n: u8) -> IpAddr {
    node_v4(n).into()
}

/// Back up without the two seconds of `min_up`, which have a test of their own.
fn reply(agent: &Agent, node: &Node, request: &str) -> String {
    String::from_utf8(agent.send_health(node.outside(), v4(1), request.as_bytes()).unwrap()).unwrap()
}

#[test]
fn a_served_node_is_up_on_every_address_and_says_which_one_it_answers_for() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let agent = Agent::start_up(&node).unwrap();
    for address in node.addresses() {
        let line = agent.state_line_of(address).unwrap();
        assert_eq!(line, format!("state=up node=worker-1 address={address} ports=80,443"));
        let whole = String::from_utf8(agent.health_from_outside(address).unwrap()).unwrap();
        assert!(whole.starts_with("HTTP/1.1 200 ") && whole.contains("x-gwready: state=up\r\n"), "{whole}");
    }
    assert_eq!(agent.state_line().unwrap(), "state=up node=worker-1 address=all ports=80,443", "over loopback it is the node");
}

#[test]
fn a_head_has_no_body_a_port_has_its_own_path_and_an_unexpected_one_is_not_found() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let agent = Agent::start_up(&node).unwrap();
    let head = reply(&agent, &node, "HEAD /healthz HTTP/1.1\r\nHost: n\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("x-gwready: state=up\r\n"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "a body after HEAD: {head}");
    let port = reply(&agent, &node, "GET /healthz/80 HTTP/1.1\r\nHost: n\r\n\r\n");
    assert!(port.contains("\r\n\r\nstate=up node=worker-1 address=10.77.0.1 ports=80\n"), "{port}");
    for path in ["/healthz/81", "/status", "/metrics"] {
        let other = reply(&agent, &node, &format!("GET {path} HTTP/1.1\r\nHost: n\r\n\r\n"));
        assert!(other.starts_with("HTTP/1.1 404 ") && !other.contains("state="), "{path}: {other}");
    }
}

#[test]
fn a_killed_envoy_takes_the_node_down_and_a_new_one_brings_it_back_after_min_up() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_up(&node).unwrap();
    envoy.kill().unwrap();
    agent.wait_state("state=down reason=EnvoyNotRunning", SOON).unwrap();
    let body = String::from_utf8(agent.health_from_outside(v4(2)).unwrap()).unwrap();
    assert!(body.starts_with("HTTP/1.1 503 ") && body.contains("x-envoy-immediate-health-check-fail: true\r\n"), "{body}");
    envoy.start_again().unwrap();
    envoy.wait_serving().unwrap();
    let served = std::time::Instant::now();
    agent.wait_state("state=up", SOON).unwrap();
    assert!(served.elapsed() > Duration::from_secs(1), "min_up is 2 s: {:?}", served.elapsed());
    let line = agent.wait_log("node UP ports=80,443 down_for=", SOON).unwrap();
    assert!(line.contains("was=EnvoyNotRunning") || agent.log_contains("DOWN reason=EnvoyNotRunning"), "{line}");
}

#[test]
fn a_missing_port_is_down_by_name_and_the_other_port_is_up() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::quick(&node).set("ports", serde_json::json!([80, 443])).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    envoy.set_listeners(&[Listener { ports: vec![80], ..Listener::gateway() }]).unwrap();
    agent.wait_state("state=down reason=NoListener port=443", SOON).unwrap();
    let port = reply(&agent, &node, "GET /healthz/80 HTTP/1.1\r\nHost: n\r\n\r\n");
    assert!(port.contains("\r\n\r\nstate=up "), "{port}");
    envoy.set_listeners(&[Listener::gateway()]).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_gateway_with_one_port_is_not_judged_by_the_other() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::builder(&node).listeners(vec![Listener::http(80)]).start().unwrap();
    let agent = Agent::start_up(&node).unwrap();
    assert_eq!(agent.state_line().unwrap(), "state=up node=worker-1 address=all ports=80");
}

#[test]
fn loopback_only_is_down_with_its_own_reason() {
    let node = Node::new().unwrap();
    let local = Listener { addresses: vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()], ..Listener::gateway() };
    let mut envoy = Envoy::builder(&node).listeners(vec![local]).start_unserved().unwrap();
    let mut agent = Agent::quick(&node).start().unwrap();
    agent.wait_state("state=down reason=LoopbackOnly port=80,443", SOON).unwrap();
    // Another name: Envoy does not move a listener to other addresses while its sockets are shared by workers.
    let gateway = Listener { name: "default/cilium-gateway-other/listener".into(), ..Listener::gateway() };
    envoy.set_listeners(&[gateway]).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_missing_family_takes_its_addresses_down_where_it_is_configured() {
    let node = Node::new().unwrap();
    let only_v4 = Listener { families: Families::V4, ..Listener::gateway() };
    let _envoy = Envoy::builder(&node).listeners(vec![only_v4]).start().unwrap();
    let mut auto = Agent::start_up(&node).unwrap();
    assert_eq!(auto.state_line().unwrap(), "state=up node=worker-1 address=all ports=80,443", "the cluster serves IPv4 only");
    auto.stop().unwrap();
    let mut both = Agent::quick(&node).set("families", serde_json::json!(["ipv4", "ipv6"])).start().unwrap();
    both.wait_state("state=up partial=2", SOON).unwrap();
    let v6 = node.addresses().into_iter().find(IpAddr::is_ipv6).unwrap();
    both.wait_state_of(v6, "state=down reason=NoListener port=80,443", SOON).unwrap();
    both.wait_state_of(v4(1), "state=up", SOON).unwrap();
}

#[test]
fn a_node_without_ipv6_is_up() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let agent = Agent::start_up(&node).unwrap();
    assert_eq!(agent.state_line_of(v4(1)).unwrap(), "state=up node=worker-1 address=10.77.0.1 ports=80,443");
}

/// The judged addresses, as `/status` tells them.
fn judged(agent: &Agent) -> Result<Vec<String>> {
    let (status, body) = agent.admin("/status")?;
    ensure!(status == 200, "/status: {status}");
    let document: serde_json::Value = serde_json::from_str(&body)?;
    let list = document["addresses"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> = list.iter().filter_map(|one| one["address"].as_str().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

#[test]
fn addresses_of_bridges_and_of_cilium_are_not_judged() {
    let node = Node::builder().bridge("docker0", &["172.17.0.1/16"]).link("cilium_host", &["10.42.0.5/32"]).build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let agent = Agent::start_up(&node).unwrap();
    assert_eq!(judged(&agent).unwrap(), ["10.77.0.1", "10.77.0.2", "fd00:77::1", "fd00:77::2"]);
}

#[test]
fn an_address_that_comes_or_goes_is_followed_by_notification() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let agent = Agent::start_quick(&node).unwrap();
    let has = |address: &str, wanted: bool| {
        // Addresses are read again without a notification after 30 s only.
        eventually(Duration::from_secs(5), || {
            let list = judged(&agent)?;
            ensure!(list.iter().any(|one| one == address) == wanted, "{address}: {list:?}");
            Ok(())
        })
        .unwrap();
    };
    run_batch(node.space(), &format!("addr add 10.77.0.9/24 dev {UPLINK}\n")).unwrap();
    has("10.77.0.9", true);
    run_batch(node.space(), &format!("addr del 10.77.0.9/24 dev {UPLINK}\n")).unwrap();
    has("10.77.0.9", false);
    assert!(agent.state_line().unwrap().starts_with("state=up "));
}
