//! Thefts in Cilium's load-balancer maps as a balancer, a scraper and a person see them: which entry, which address, who, how soon.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use gwready_core::lb::service::ServiceKey;
use gwready_tests::lbmaps::{LbMaps, kind};
use gwready_tests::node::{node_v4, node_v6};
use gwready_tests::scene::{SOON, maps, quick, tell_pod, tell_version};
use gwready_tests::{Agent, Envoy, Node, Scene, Thief, eventually};

/// `timing.lb_poll` as it is by default, twice, and room for a busy machine.
const SEEN_WITHIN: Duration = Duration::from_millis(2 * 250 + 1500);

fn pod(family: IpAddr) -> IpAddr {
    if family.is_ipv4() { "10.42.1.7".parse().unwrap() } else { "fd00:42::7".parse().unwrap() }
}

fn addresses() -> [(IpAddr, IpAddr); 2] {
    [(node_v4(1).into(), node_v4(2).into()), (node_v6(1).into(), node_v6(2).into())]
}

#[test]
fn each_kind_of_entry_takes_its_address_down_and_leaves_the_others_up() {
    let (mut scene, mut maps) = Scene::up_with_maps().unwrap();
    let kinds = [
        (kind::HOST_PORT, "HostPort"),
        (kind::NODE_PORT, "NodePort"),
        (kind::EXTERNAL_IP, "ExternalIP"),
        (kind::LOAD_BALANCER, "LoadBalancerIP"),
        (kind::CLUSTER_IP, "ClusterIP"),
    ];
    for (here, other) in addresses() {
        for (kind, reason) in kinds {
            for backends in [&[(pod(here), 8080)][..], &[]] {
                maps.add(here, 80, kind, backends).unwrap();
                let line = scene.wait_down(here, reason).unwrap();
                assert!(line.contains(" port=80 "), "{line}");
                let line = scene.wait_up(other).unwrap();
                assert!(!line.contains("reason="), "{line}");
                let node = scene.agent.wait_state("state=up partial=1", SOON).unwrap();
                assert!(!node.contains("reason="), "{node}");
                maps.remove(here, 80).unwrap();
                scene.wait_up(here).unwrap();
            }
        }
    }
}

#[test]
fn wildcard_entries_and_dead_proxy_ports_take_their_address_down() {
    let (mut scene, mut maps) = Scene::up_with_maps().unwrap();
    for (here, other) in addresses() {
        maps.add_row(ServiceKey::wildcard(here), [0; 4], kind::WILDCARD, &[]).unwrap();
        let line = scene.wait_down(here, "WildcardDrop").unwrap();
        assert!(line.contains(" port=80,443 "), "both ports: {line}");
        scene.wait_up(other).unwrap();
        maps.remove_row(ServiceKey::wildcard(here)).unwrap();
        scene.wait_up(here).unwrap();
        maps.add_l7(here, 80, 12345).unwrap();
        scene.wait_down(here, "RedirectedToProxy").unwrap();
        scene.wait_up(other).unwrap();
        maps.remove(here, 80).unwrap();
        scene.wait_up(here).unwrap();
    }
}

#[test]
fn a_host_port_on_every_address_takes_the_node_down_and_names_the_pod() {
    let (mut scene, mut maps) = Scene::up_with_maps().unwrap();
    tell_pod(&scene.node, 431, "kube-system", "rke2-ingress-nginx-x").unwrap();
    maps.add_endpoint(pod(scene.first()), 431, false).unwrap();
    let began = Instant::now();
    for address in scene.node.addresses() {
        maps.add(address, 443, kind::HOST_PORT, &[(pod(scene.first()), 443)]).unwrap();
    }
    let line = scene.agent.wait_state("state=down reason=HostPort", SOON).unwrap();
    let seen = began.elapsed();
    assert!(line.contains(" port=443 "), "{line}");
    assert!(seen < SEEN_WITHIN, "seen after {seen:?}");
    println!("node down {seen:?} after the first entry, lb_poll 250ms");
    let thief = "pod kube-system/rke2-ingress-nginx-x (10.42.1.7:443)";
    let logged = scene.agent.wait_log("node DOWN", SOON).unwrap();
    for word in ["reason=HostPort", "port=443", thief, "docs/conditions/HostPort.md"] {
        assert!(logged.contains(word), "no {word:?} in {logged}");
    }
    let body = String::from_utf8(scene.agent.health_local().unwrap()).unwrap();
    assert!(body.contains(thief), "{body}");
    let (_, status) = scene.agent.admin("/status").unwrap();
    assert!(status.contains(thief), "{status}");
    let value =
        scene.agent.metric_value("gwready_condition_reason", &[("type", "NotIntercepted"), ("reason", "HostPort"), ("port", "443")]);
    assert!((value.unwrap() - 1.0).abs() < f64::EPSILON);
    let began = Instant::now();
    for address in scene.node.addresses() {
        maps.remove(address, 443).unwrap();
    }
    scene.agent.wait_state("state=up", SOON).unwrap();
    assert!(began.elapsed() < SEEN_WITHIN, "seen gone after {:?}", began.elapsed());
}

#[test]
fn protocol_0_keys_count_for_the_agents_that_write_them() {
    let node = Node::new().unwrap();
    let mut maps = maps(&node).unwrap();
    tell_version(&node, "1.16").unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let mut scene = Scene::with(&node, envoy, quick(&node)).unwrap();
    for (here, other) in addresses() {
        let key = ServiceKey::master(here, 80, 0);
        maps.add_row(key, [0; 4], kind::HOST_PORT, &[(pod(here), 8080)]).unwrap();
        scene.wait_down(here, "HostPort").unwrap();
        scene.wait_up(other).unwrap();
        maps.remove_row(key).unwrap();
        scene.wait_up(here).unwrap();
    }
}

#[test]
fn a_thief_with_the_marks_of_ciliums_envoy_is_not_taken_for_it_while_its_holder_is_searched_for() {
    let node = Node::new().unwrap();
    let _maps = maps(&node).unwrap();
    let envoy = Envoy::start(&node).unwrap();
    // Without events nobody says who began to listen: the holder has to be found by the search.
    let mut agent = quick(&node).set("ebpf", false).set("probe.enabled", false).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    let second = IpAddr::from(node_v4(2));
    let thief = Thief::at(&node, second, 80).reuseport().marked().start().unwrap();
    // Long before Unknown would be held no longer.
    agent.wait_state_of(second, "state=down reason=Unidentified port=80", SOON).unwrap();
    let (_, status) = agent.admin("/status").unwrap();
    let named = format!("pid {} has the executable thief, but the socket has mark 0xb00", thief.pid());
    assert!(status.contains(&named), "{status}");
    drop(thief);
    agent.wait_state_of(second, "state=up", SOON).unwrap();
    drop(envoy);
}

#[test]
fn a_term_to_a_process_that_only_has_envoys_name_does_not_announce_the_end_of_envoy() {
    let node = Node::new().unwrap();
    let _maps = maps(&node).unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = quick(&node).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    agent.wait_log("programs attached", SOON).unwrap();
    let second = IpAddr::from(node_v4(2));
    let mut thief = Thief::at(&node, second, 80).reuseport().exe_name("cilium-envoy").start().unwrap();
    agent.wait_state_of(second, "state=down", SOON).unwrap();
    agent.wait_log("but the socket has mark 0x0", SOON).unwrap();
    thief.process().terminate(SOON).unwrap();
    agent.wait_state_of(second, "state=up", SOON).unwrap();
    assert!(!agent.log().contains("EnvoyTerminating"), "{}", agent.log());
}

#[test]
fn maps_recreated_under_the_agent_are_read_with_the_theft_in_them() {
    let (mut scene, mut old) = Scene::up_with_maps().unwrap();
    old.add(scene.second(), 80, kind::HOST_PORT, &[(pod(scene.first()), 80)]).unwrap();
    let second = scene.second();
    scene.wait_down(second, "HostPort").unwrap();
    let node = scene.node.clone();
    let mut anew = node.enter(|| LbMaps::create(&node.bpffs(), 2048)).unwrap();
    let first = scene.first();
    anew.add(first, 80, kind::HOST_PORT, &[(pod(first), 80)]).unwrap();
    scene.wait_down(first, "HostPort").unwrap();
    scene.wait_up(second).unwrap();
    anew.remove(first, 80).unwrap();
    scene.wait_up(first).unwrap();
}

#[test]
fn a_known_theft_outlives_maps_that_cannot_be_read_and_the_agent_itself() {
    let (mut scene, mut maps) = Scene::up_with_maps().unwrap();
    let first = scene.first();
    for address in scene.node.addresses() {
        maps.add(address, 80, kind::HOST_PORT, &[(pod(first), 80)]).unwrap();
    }
    scene.agent.wait_state("state=down reason=HostPort", SOON).unwrap();

    // A new agent has never seen the node healthy, and never shows it so.
    scene.agent.stop().unwrap();
    let mut agent = quick(&scene.node).start().unwrap();
    let mut states = std::collections::BTreeSet::new();
    eventually(SOON, || {
        let line = agent.state_line()?;
        states.insert(line.split(' ').next().unwrap_or_default().to_owned());
        anyhow::ensure!(line.contains("reason=HostPort"), "{line}");
        Ok(())
    })
    .unwrap();
    assert_eq!(states.into_iter().collect::<Vec<_>>(), ["state=down"]);

    // The maps are gone while the theft is known.
    let globals = maps.globals().to_owned();
    let unpinned = ["cilium_lb4_services_v2", "cilium_lb6_services_v2"].map(|name| globals.join(name));
    scene.node.enter(|| Ok(unpinned.iter().try_for_each(std::fs::remove_file)?)).unwrap();
    wait_unknown(&agent, "NoCiliumMaps");
    assert!(agent.state_line().unwrap().contains("state=down"), "{}", agent.state_line().unwrap());

    // They come back without it.
    let node = scene.node.clone();
    let _anew = node.enter(|| LbMaps::create(&node.bpffs(), 64)).unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    scene.agent = agent;
}

#[test]
fn maps_of_another_layout_or_none_at_all_are_unknown_and_keep_a_healthy_node_up() {
    let (mut scene, maps) = Scene::up_with_maps().unwrap();
    let globals = maps.globals().to_owned();
    let create = |size| -> anyhow::Result<()> {
        scene.node.enter(|| match size {
            16 => gwready_tests::lbmaps::hash::<[u8; 12], [u8; 16]>(&globals, "cilium_lb4_services_v2", 64).map(drop),
            _ => gwready_tests::lbmaps::hash::<[u8; 12], [u8; 12]>(&globals, "cilium_lb4_services_v2", 64).map(drop),
        })
    };
    create(16).unwrap();
    wait_unknown(&scene.agent, "MapLayoutUnknown");
    assert!(scene.agent.state_line().unwrap().contains("state=up"));
    create(12).unwrap();
    eventually(SOON, || {
        let now = scene.agent.metric_value(
            "gwready_condition_status",
            &[("type", "NotIntercepted"), ("port", "80"), ("family", "ipv4"), ("status", "true")],
        )?;
        anyhow::ensure!(now > 0.5, "not True again");
        Ok(())
    })
    .unwrap();
    scene.wait_up(node_v4(1).into()).unwrap();
}

fn wait_unknown(agent: &Agent, reason: &str) {
    eventually(SOON, || {
        let labels = [("type", "NotIntercepted"), ("port", "80"), ("family", "ipv4")];
        let now = agent.metric_value("gwready_condition_reason", &[&labels[..], &[("reason", reason)]].concat())?;
        anyhow::ensure!(now > 0.5, "{reason} is {now}");
        let unknown = agent.metric_value("gwready_condition_status", &[&labels[..], &[("status", "unknown")]].concat())?;
        anyhow::ensure!(unknown > 0.5, "not unknown");
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_entry_is_seen_by_the_poll_of_the_maps_and_needs_no_tick() {
    let node = Node::new().unwrap();
    let mut maps = maps(&node).unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let agent = quick(&node).set("timing.resync", "60s").set("timing.stale_after", "180s").set("probe.enabled", false);
    let mut scene = Scene::with(&node, envoy, agent).unwrap();
    let first = scene.first();
    // Not once: what an agent reads for the first time soon after its start judges everything too.
    for _ in 0..5 {
        maps.add(first, 80, kind::HOST_PORT, &[(pod(first), 8080)]).unwrap();
        scene.wait_down(first, "HostPort").unwrap();
        maps.remove(first, 80).unwrap();
        scene.wait_up(first).unwrap();
    }
}
