//! Whose socket it is, under a live agent: one scenario per reason of `OwnedByEnvoy` and of the coverage of addresses.

use std::net::{IpAddr, Ipv4Addr};

use gwready_tests::scene::{SOON, quick, wait_reason, wait_status};
use gwready_tests::{Envoy, Families, Listener, Node, Scene, Thief};
use serde_json::json;

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[test]
fn a_socket_that_is_bound_to_one_address_shadows_that_address() {
    let mut scene = Scene::up().unwrap();
    let (first, second) = (scene.first(), scene.second());
    let thief = Thief::at(&scene.node, first, 80).reuseport().start().unwrap();
    scene.wait_down(first, "ShadowedAddress").unwrap();
    scene.wait_up(second).unwrap();
    drop(thief);
    scene.wait_node_up().unwrap();
}

#[test]
fn a_socket_that_shares_the_port_takes_the_node_down() {
    let mut scene = Scene::up().unwrap();
    let first = scene.first();
    let thief = Thief::at(&scene.node, ANY, 80).reuseport().start().unwrap();
    scene.wait_down(first, "SharedPort").unwrap();
    drop(thief);
    scene.wait_node_up().unwrap();
}

#[test]
fn two_envoys_in_one_group_take_the_node_down() {
    let mut scene = Scene::up().unwrap();
    let second = Envoy::builder(&scene.node).second(7).start().unwrap();
    scene.wait_node_down("TwoEnvoys").unwrap();
    drop(second);
    scene.wait_node_up().unwrap();
}

#[test]
fn a_listener_on_loopback_or_one_address_does_not_serve_the_others() {
    let node = Node::new().unwrap();
    let at = |address: IpAddr| Listener { addresses: vec![address], families: Families::V4, ..Listener::http(80) };
    let envoy = Envoy::builder(&node).listeners(vec![at(Ipv4Addr::LOCALHOST.into())]).start_unserved().unwrap();
    let agent = quick(&node).set("families", json!(["ipv4"])).start().unwrap();
    let mut scene = Scene { agent, envoy, node };
    let (first, second) = (scene.first(), scene.second());
    let line = scene.wait_node_down("LoopbackOnly").unwrap();
    assert!(line.ends_with(" port=80 ports=80"), "443, which nobody named, is not expected: {line}");
    scene.envoy.set_listeners(&[at(first)]).unwrap();
    scene.wait_up(first).unwrap();
    scene.wait_down(second, "AddressesNotCovered").unwrap();
    scene.envoy.set_listeners(&[Listener { families: Families::V4, ..Listener::http(80) }]).unwrap();
    scene.wait_node_up().unwrap();
}

#[test]
fn an_owner_that_cannot_be_read_is_unidentified_until_it_can() {
    let node = Node::new().unwrap();
    let envoy = Envoy::builder(&node).marks(false).start().unwrap();
    // Neither executables nor marks can be read.
    let mut agent = quick(&node).under(&["setpriv", "--bounding-set=-all"]).start().unwrap();
    wait_reason(&agent, "OwnedByEnvoy", "Unidentified").unwrap();
    agent.stop().unwrap();
    let mut scene = Scene::with(&node, envoy, quick(&node)).unwrap();
    wait_status(&scene.agent, "OwnedByEnvoy", "true").unwrap();
    scene.agent.wait_state("state=up", SOON).unwrap();
}
