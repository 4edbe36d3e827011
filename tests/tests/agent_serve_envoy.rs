//! Envoy's own word and life under a live agent: drains, refusals, rejected listeners, restarts, the ports that it names.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use gwready_tests::node::node_v4;
use gwready_tests::scene::{SOON, quick, wait_reason, wait_status};
use gwready_tests::{Caps, Envoy, Listener, Node, Scene, client, eventually};

#[test]
fn a_failed_health_check_of_envoy_drains_the_node_until_it_is_taken_back() {
    let mut scene = Scene::up().unwrap();
    scene.envoy.post("/healthcheck/fail").unwrap();
    scene.agent.wait_state("state=drain reason=EnvoyDraining", SOON).unwrap();
    scene.envoy.post("/healthcheck/ok").unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn drained_listeners_are_gone_whatever_envoy_says_of_itself() {
    let mut scene = Scene::up().unwrap();
    scene.envoy.post("/drain_listeners").unwrap();
    let line = scene.wait_node_down("NoListener").unwrap();
    assert!(line.contains(" port=80,443 "), "{line}");
    assert!(scene.envoy.get("/ready").unwrap().contains("LIVE"));
    scene.envoy.start_again().unwrap();
    scene.envoy.wait_serving().unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn a_second_gateway_on_one_port_is_told_with_both_names_and_envoys_sentence() {
    let mut scene = Scene::up().unwrap();
    let second = Listener { name: "team/cilium-gateway-two/listener".into(), ports: vec![80, 8443], ..Listener::gateway() };
    scene.envoy.set_listeners(&[Listener::gateway(), second]).unwrap();
    let line = scene.wait_node_down("ListenerRejected").unwrap();
    assert!(line.contains(" port=8443 ") && line.contains(" ports=80,443,8443"), "{line}");
    let logged = scene.agent.wait_log("node DOWN", SOON).unwrap();
    assert!(logged.contains("reason=ListenerRejected"), "{logged}");
    let (_, status) = scene.agent.admin("/status").unwrap();
    for words in ["two Gateways want one port", "Gateway team/two", "Gateway default/gw", "duplicate address"] {
        assert!(status.contains(words), "no {words:?} in {status}");
    }
    scene.envoy.set_listeners(&[Listener::gateway(), Listener::http(8443)]).unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn a_rejected_update_of_ports_that_still_serve_is_advisory_and_quotes_envoy() {
    let mut scene = Scene::up().unwrap();
    wait_status(&scene.agent, "ConfigCurrent", "true").unwrap();
    scene.envoy.set_listeners(&[Listener { broken: true, ..Listener::gateway() }]).unwrap();
    wait_reason(&scene.agent, "ConfigCurrent", "UpdateRejected").unwrap();
    let (_, status) = scene.agent.admin("/status").unwrap();
    assert!(status.contains("no.such.filter"), "{status}");
    scene.wait_node_up().unwrap();
    scene.envoy.set_listeners(&[Listener::gateway()]).unwrap();
    wait_status(&scene.agent, "ConfigCurrent", "true").unwrap();
}

#[test]
fn an_envoy_that_may_not_bind_is_told_with_the_chart_keys() {
    let node = Node::new().unwrap();
    let envoy = Envoy::builder(&node).caps(Caps::None).start_unserved().unwrap();
    let agent = quick(&node).start().unwrap();
    let mut scene = Scene { agent, envoy, node };
    scene.wait_node_down("BindPermissionDenied").unwrap();
    let (_, status) = scene.agent.admin("/status").unwrap();
    for words in ["keepCapNetBindService", "NET_BIND_SERVICE", "no_new_privs"] {
        assert!(status.contains(words), "no {words:?} in {status}");
    }
    scene.envoy.kill().unwrap();
    scene.wait_node_down("EnvoyNotRunning").unwrap();
    scene.envoy = Envoy::builder(&scene.node).caps(Caps::BindOnly).start().unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn three_starts_within_a_minute_are_a_loop_until_a_minute_is_quiet() {
    let mut scene = Scene::up().unwrap();
    for _ in 0..3 {
        scene.envoy.start_again().unwrap();
        scene.envoy.wait_serving().unwrap();
        // Every one of them was seen.
        let pid = scene.envoy.pid().unwrap().to_string();
        eventually(SOON, || {
            let (_, status) = scene.agent.admin("/status")?;
            anyhow::ensure!(status.contains(&pid), "no {pid} in {status}");
            Ok(())
        })
        .unwrap();
    }
    let line = scene.wait_node_down("EnvoyRestarting").unwrap();
    assert!(!line.contains(" port="), "of the node: {line}");
    let began = Instant::now();
    scene.agent.wait_state("state=up", Duration::from_secs(75)).unwrap();
    assert!(began.elapsed() > Duration::from_secs(40), "quiet for {:?} only", began.elapsed());
}

#[test]
fn ports_are_those_that_envoy_names_and_outlive_envoy_and_agent() {
    let mut scene = Scene::up_with(|envoy| envoy.listeners(vec![Listener::http(80)])).unwrap();
    scene.agent.wait_state("state=up ports=80", SOON).unwrap();
    scene.agent.stop().unwrap();
    scene.envoy.kill().unwrap();
    scene.agent = quick(&scene.node).start().unwrap();
    scene.agent.wait_state("state=down reason=EnvoyNotRunning ports=80", SOON).unwrap();
    scene.envoy.start_again().unwrap();
    scene.envoy.wait_serving().unwrap();
    scene.agent.wait_state("state=up ports=80", SOON).unwrap();
    scene.envoy.set_listeners(&[Listener::http(80), Listener::http(8080)]).unwrap();
    scene.agent.wait_state("state=up ports=80,8080", SOON).unwrap();
    scene.agent.wait_log("expected fronts fronts=80/ipv4,80/ipv6,8080/ipv4,8080/ipv6", SOON).unwrap();
}

#[test]
fn a_lost_control_plane_is_told_and_takes_no_node_down() {
    let node = Node::new().unwrap();
    let control_plane = node.enter(|| Ok(TcpListener::bind("127.0.0.1:18000")?)).unwrap();
    let envoy = Envoy::builder(&node).control_plane(control_plane.local_addr().unwrap()).start().unwrap();
    let mut scene = Scene::with(&node, envoy, quick(&node)).unwrap();
    let (stream, _) = control_plane.accept().unwrap();
    wait_status(&scene.agent, "ConfigCurrent", "true").unwrap();
    drop((stream, control_plane));
    wait_reason(&scene.agent, "ConfigCurrent", "XdsDisconnected").unwrap();
    scene.wait_node_up().unwrap();
    let again = scene.node.enter(|| Ok(TcpListener::bind("127.0.0.1:18000")?)).unwrap();
    let _stream = again.accept().unwrap();
    wait_status(&scene.agent, "ConfigCurrent", "true").unwrap();
}

#[test]
fn an_admin_socket_that_is_gone_is_unknown_and_takes_no_node_down() {
    let mut scene = Scene::up().unwrap();
    let (socket, aside) = (scene.node.admin_socket(), scene.node.dir().join("aside.sock"));
    std::fs::rename(&socket, &aside).unwrap();
    wait_reason(&scene.agent, "EnvoyLive", "AdminUnreachable").unwrap();
    scene.wait_node_up().unwrap();
    std::fs::rename(&aside, &socket).unwrap();
    wait_status(&scene.agent, "EnvoyLive", "true").unwrap();
}

#[test]
fn a_restart_of_envoy_shows_as_its_real_gap_and_nothing_before_or_after_it() {
    let mut scene = Scene::up().unwrap();
    let address = node_v4(1).into();
    let mut states: Vec<String> = Vec::new();
    let mut look = |scene: &Scene| -> anyhow::Result<String> {
        let line = scene.agent.state_line_of(address)?;
        let state = line.split(' ').next().unwrap_or_default().to_owned();
        if states.last() != Some(&state) {
            states.push(state.clone());
        }
        Ok(state)
    };
    for _ in 0..50 {
        assert_eq!(look(&scene).unwrap(), "state=up", "before");
    }
    scene.envoy.kill().unwrap();
    eventually(SOON, || {
        anyhow::ensure!(look(&scene)? == "state=down", "not yet down");
        Ok(())
    })
    .unwrap();
    assert_eq!(client::ask(scene.node.outside(), address, 80).unwrap(), gwready_tests::Answer::Refused, "the gap is real");
    scene.envoy.start_again().unwrap();
    eventually(SOON, || {
        anyhow::ensure!(look(&scene)? == "state=up", "not yet up");
        Ok(())
    })
    .unwrap();
    assert_eq!(client::ask(scene.node.outside(), address, 80).unwrap(), gwready_tests::Answer::Envoy, "up means served");
    // Two resyncs, two rounds of probes and a renewed look at everything.
    let end = Instant::now() + Duration::from_secs(3);
    eventually(SOON, || {
        anyhow::ensure!(look(&scene)? != "state=up" || Instant::now() >= end, "still watching");
        Ok(())
    })
    .unwrap();
    assert_eq!(states, ["state=up", "state=down", "state=up"]);
}

#[test]
fn a_drain_of_the_operator_outlives_the_agent_and_ends_by_his_word() {
    let mut scene = Scene::up().unwrap();
    let run = |scene: &Scene, args: &[&str]| scene.agent.command(args).unwrap().status().unwrap();
    assert!(run(&scene, &["drain", "--for", "10m", "--reason", "new kernel"]).success());
    scene.agent.wait_state("state=drain reason=DrainRequested", SOON).unwrap();
    scene.agent.stop().unwrap();
    scene.agent = quick(&scene.node).start().unwrap();
    scene.agent.wait_state("state=drain reason=DrainRequested", SOON).unwrap();
    let (_, status) = scene.agent.admin("/status").unwrap();
    assert!(status.contains("new kernel"), "{status}");
    assert!(run(&scene, &["undrain"]).success());
    scene.wait_node_up().unwrap();
}
