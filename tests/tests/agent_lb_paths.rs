//! What else stands between wire and socket, under a live agent: proxy ports with their rule and route, a steering program, a bind that
//! Cilium refuses, and what the cilium-agent's own maps say of it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsFd;

use gwready::clock;
use gwready_tests::lbmaps::kind;
use gwready_tests::scene::{SOON, maps, quick, wait_reason, wait_status};
use gwready_tests::steer::steer;
use gwready_tests::{Agent, Envoy, Listener, Node, Scene, Thief, eventually};
use serde_json::json;

const PROXY_PORT: u16 = 12345;

/// The policy proxy's listener of one L7 frontend, with the mark of the ingress proxy.
fn proxy_listener() -> Listener {
    Listener { name: "default/cec/listener".into(), addresses: vec![Ipv4Addr::LOCALHOST.into()], mark: 0xa00, ..Listener::http(PROXY_PORT) }
}

fn ip(node: &Node, words: &str) {
    node.space().output("ip", &words.split(' ').collect::<Vec<_>>()).unwrap();
}

#[test]
fn the_path_to_a_proxy_port_is_judged_piece_by_piece_and_takes_no_node_down_in_host_network_mode() {
    let (mut scene, mut maps) = Scene::up_with_maps().unwrap();
    wait_status(&scene.agent, "TproxyPath", "true").unwrap();
    maps.add_l7(scene.first(), 80, PROXY_PORT).unwrap();
    wait_reason(&scene.agent, "TproxyPath", "ProxyPortClosed").unwrap();
    let first = scene.first();
    scene.wait_down(first, "RedirectedToProxy").unwrap();

    let thief = Thief::at(&scene.node, Ipv4Addr::LOCALHOST.into(), PROXY_PORT).start().unwrap();
    wait_reason(&scene.agent, "TproxyPath", "ProxyPortForeign").unwrap();
    scene.wait_down(first, "RedirectedToProxy").unwrap();
    drop(thief);

    scene.envoy.set_listeners(&[Listener::gateway(), proxy_listener()]).unwrap();
    wait_reason(&scene.agent, "TproxyPath", "RuleMissing").unwrap();
    scene.wait_node_up().unwrap();
    ip(&scene.node, "rule add pref 9 fwmark 0x200/0xf00 lookup 2004");
    wait_reason(&scene.agent, "TproxyPath", "RouteMissing").unwrap();
    ip(&scene.node, "route add local default dev lo table 2004");
    wait_status(&scene.agent, "TproxyPath", "true").unwrap();
    ip(&scene.node, "route del local default dev lo table 2004");
    wait_reason(&scene.agent, "TproxyPath", "RouteMissing").unwrap();
    ip(&scene.node, "rule del pref 9");
    wait_reason(&scene.agent, "TproxyPath", "RuleMissing").unwrap();
    scene.wait_node_up().unwrap();

    maps.remove(first, 80).unwrap();
    wait_status(&scene.agent, "TproxyPath", "true").unwrap();
}

#[test]
fn in_load_balancer_mode_the_frontends_are_judged_and_the_path_is_required() {
    let node = Node::new().unwrap();
    let mut maps = maps(&node).unwrap();
    let vip: IpAddr = [10, 96, 50, 200].into();
    maps.add_l7(vip, 80, PROXY_PORT).unwrap();
    ip(&node, "rule add pref 9 fwmark 0x200/0xf00 lookup 2004");
    ip(&node, "route add local default dev lo table 2004");
    let proxy = Listener { mark: 0xb00, ..proxy_listener() };
    let mut envoy = Envoy::builder(&node).listeners(vec![proxy.clone()]).start_unserved().unwrap();
    let mut agent =
        quick(&node).set("mode", json!("load-balancer")).set("ports", json!([80])).set("probe.enabled", json!(false)).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    let (_, status) = agent.admin("/status").unwrap();
    assert!(status.contains("10.96.50.200"), "the frontend is the judged address: {status}");

    ip(&node, "route del local default dev lo table 2004");
    agent.wait_state("state=down reason=RouteMissing", SOON).unwrap();
    ip(&node, "route add local default dev lo table 2004");
    agent.wait_state("state=up", SOON).unwrap();

    envoy.set_listeners(&[]).unwrap();
    agent.wait_state("state=down", SOON).unwrap();
    envoy.set_listeners(&[proxy]).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn a_steering_program_is_found_by_the_lookup_and_forgotten_with_it() {
    let mut scene = Scene::up().unwrap();
    let thief = scene.node.enter(|| Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 9000))?)).unwrap();
    let steering = scene.node.enter(|| steer(80, thief.as_fd())).unwrap();
    let first = scene.first();
    let line = scene.wait_down(first, "SkLookup").unwrap();
    assert!(line.contains(" port=80 "), "{line}");
    let (_, status) = scene.agent.admin("/status").unwrap();
    assert!(status.contains("0.0.0.0:9000") && status.contains(&steering.id.to_string()), "{status}");
    drop(steering);
    scene.wait_node_up().unwrap();
}

#[test]
fn a_port_that_cilium_refuses_to_bind_says_so_until_the_entry_is_gone() {
    let node = Node::new().unwrap();
    let mut maps = maps(&node).unwrap();
    let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    maps.add(any, 80, kind::NODE_PORT_SURROGATE, &[]).unwrap();
    // What Envoy has after the refusal: every port but that one.
    let https = Listener { ports: vec![443], ..Listener::gateway() };
    let envoy = Envoy::builder(&node).listeners(vec![https]).start().unwrap();
    let agent = quick(&node).set("ports", json!([80, 443])).start().unwrap();
    let mut scene = Scene { agent, envoy, node };
    let first = scene.first();
    scene.wait_down(first, "PortReservedByCilium").unwrap();
    maps.remove(any, 80).unwrap();
    scene.wait_down(first, "NoListener").unwrap();
    scene.envoy.set_listeners(&[Listener::gateway()]).unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn the_agents_sign_of_life_and_the_drop_counters_are_shown_and_take_no_node_down() {
    let (mut scene, mut maps) = Scene::up_with_maps().unwrap();
    wait_reason(&scene.agent, "CiliumAgentAlive", "NoLivenessStamp").unwrap();
    maps.stamp(clock::mono().0.saturating_sub(11_000_000_000).max(1)).unwrap();
    wait_reason(&scene.agent, "CiliumAgentAlive", "CiliumAgentStale").unwrap();
    scene.wait_node_up().unwrap();
    maps.stamp(clock::mono().0).unwrap();
    wait_status(&scene.agent, "CiliumAgentAlive", "true").unwrap();
    let counted = |reason: &str, wanted: f64| {
        eventually(SOON, || {
            let now = scene.agent.metric_value("gwready_datapath_drops_total", &[("reason", reason)])?;
            anyhow::ensure!((now - wanted).abs() < f64::EPSILON, "{reason} is {now}");
            Ok(())
        })
        .unwrap();
    };
    counted("no_service", 0.0);
    let processors = std::thread::available_parallelism().unwrap().get();
    maps.count_drops(158, 7).unwrap();
    counted("no_service", 7.0 * f64::from(u32::try_from(processors).unwrap()));
}

#[test]
fn an_agent_that_may_not_read_the_maps_says_so_and_keeps_a_healthy_node_up() {
    let node = Node::new().unwrap();
    let maps = maps(&node).unwrap();
    let pin = maps.globals().join("cilium_lb4_services_v2");
    let closed = |mode: &str| node.space().output("chmod", &[mode, pin.to_str().unwrap()]).unwrap();
    closed("000");
    let _envoy = Envoy::start(&node).unwrap();
    let blind = ["setpriv", "--bounding-set=-all,+net_admin,+sys_ptrace,+perfmon,+bpf"];
    let mut agent = quick(&node).under(&blind).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    wait_reason(&agent, "NotIntercepted", "MapsUnreadable").unwrap();
    assert_eq!(agent.admin("/readyz").unwrap().0, 503, "it shows at the first node of a roll-out");
    closed("600");
    eventually(SOON, || ready(&agent)).unwrap();
}

fn ready(agent: &Agent) -> anyhow::Result<()> {
    let (status, body) = agent.admin("/readyz")?;
    anyhow::ensure!(status == 200, "{status} {body}");
    Ok(())
}
