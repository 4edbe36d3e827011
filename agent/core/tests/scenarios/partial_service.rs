//! Faults of a part: one port, one family, one address.

use gwready_core::condition::{Concern, ConditionType, Status};
use gwready_core::net::Family;
use gwready_core::policy::{Choice, Policy};

use super::node::{A, B, ENVOY, Node, SIX, gateway, socket};
use super::watch::Watch;
use crate::kept;

#[test]
fn fault_23_only_port_80_is_bound() {
    let watch = Watch::turned(&Node::healthy().closed(443));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NoListener port=443 ports=80,443",
        &["10.0.0.11:80 up", "10.0.0.11:443 down NoListener"],
        "WARN node DOWN reason=NoListener port=443 family=ipv4 addresses=10.0.0.11 detail=\"no socket listens on 10.0.0.11:443\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_23_a_monitor_of_one_port_is_answered_for_that_port() {
    let watch = Watch::turned(&Node::healthy().closed(443));
    let first = |port| watch.body(Some(A), Some(port)).lines().next().unwrap().to_owned();
    assert_eq!(first(80), "state=up node=worker-1 address=10.0.0.11 ports=80");
    assert_eq!(first(443), "state=down node=worker-1 address=10.0.0.11 reason=NoListener port=443 ports=443");
    assert_eq!(first(8080), "404");
    kept!(watch);
}

#[test]
fn fault_23_only_one_family_is_bound() {
    let mut watch = Watch::of(&Node::with(&[A, SIX]));
    watch.sees(20.0, &Node::with(&[A, SIX]).closed_in(Family::Ipv6, 80).closed_in(Family::Ipv6, 443));
    assert_eq!(watch.health(Some(A)), "state=up node=worker-1 address=10.0.0.11 ports=80,443");
    assert_eq!(watch.health(Some(SIX)), "state=down node=worker-1 address=fd00::11 reason=NoListener port=80,443 ports=80,443");
    assert_eq!(watch.health(None), "state=up node=worker-1 address=all partial=1 ports=80,443");
    assert_eq!(
        watch.log(),
        "WARN node UP partial=1 of=2 reason=NoListener port=80,443 family=ipv6 addresses=fd00::11 detail=\"no socket listens on [fd00::11]:80\""
    );
    kept!(watch);
}

#[test]
fn fault_23_a_gateway_with_only_port_80_is_not_down_for_443() {
    let node = Node::healthy().closed(443).admin(|admin| admin.listeners = vec![gateway("public", &[80])]);
    let watch = Watch::of(&node);
    assert_eq!(watch.health(Some(A)), "state=up node=worker-1 address=10.0.0.11 ports=80");
    kept!(watch);
}

#[test]
fn fault_23_a_node_with_ipv6_in_a_cluster_without_is_not_judged_by_it() {
    let mut node = Node::with(&[A, SIX]).closed_in(Family::Ipv6, 80).closed_in(Family::Ipv6, 443);
    node.snapshot.lb.v6 = Node::healthy().snapshot.lb.v6;
    let watch = Watch::of(&node);
    assert_eq!(watch.verdict().families, [Family::Ipv4]);
    assert_eq!(watch.ports(), ["10.0.0.11:80 up", "10.0.0.11:443 up"]);
    let mut watch = Watch::start(Policy { families: Choice::Only(vec![Family::Ipv4, Family::Ipv6]), ..Policy::default() });
    assert_eq!(watch.sees(3.0, &node).health(Some(SIX)).split(' ').nth(3), Some("reason=NoListener"), "unless the operator wants it");
    kept!(watch);
}

#[test]
fn fault_24_bound_to_loopback_only() {
    let node = Node::healthy().closed(80).listens(&socket(5, "127.0.0.1:80"), &[ENVOY]);
    let watch = Watch::turned(&node);
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=LoopbackOnly port=80 ports=80,443",
        &["10.0.0.11:80 down LoopbackOnly", "10.0.0.11:443 up"],
        "WARN node DOWN reason=LoopbackOnly port=80 family=ipv4 addresses=10.0.0.11 bound=127.0.0.1 up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_24_bound_to_one_address_of_two() {
    let one = socket(5, "10.0.0.12:80");
    let node = Node::with(&[A, B]).closed(80).listens(&one, &[ENVOY]).picks("10.0.0.12:80", Some(&one));
    let mut watch = Watch::of(&Node::with(&[A, B]));
    watch.sees(20.0, &node);
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=AddressesNotCovered port=80 ports=80,443",
        &["10.0.0.11:80 down AddressesNotCovered", "10.0.0.11:443 up", "10.0.0.12:80 up", "10.0.0.12:443 up"],
        "WARN node UP partial=1 of=2 reason=AddressesNotCovered port=80 family=ipv4 addresses=10.0.0.11 bound=10.0.0.12",
    );
    kept!(watch);
    let listening = watch.front(ConditionType::Listening, 80);
    assert_eq!((listening.status, &listening.addresses), (Status::False, &Concern::Some(vec![A.parse().unwrap()])));
}

#[test]
fn fault_25_a_dual_stack_socket_serves_ipv4_without_a_row_of_its_own() {
    let mut dual = socket(5, "[::]:80");
    dual.v6only = Some(false);
    let node = Node::healthy().closed(80).listens(&dual, &[ENVOY]).picks("10.0.0.11:80", Some(&dual));
    let watch = Watch::of(&node);
    assert_eq!(watch.front(ConditionType::OwnedByEnvoy, 80).status, Status::True);
    assert_eq!(watch.health(Some("::ffff:10.0.0.11")), "state=up node=worker-1 address=10.0.0.11 ports=80,443");
    kept!(watch);
}

#[test]
fn fault_25_a_v6only_socket_does_not_serve_ipv4() {
    let node = Node::healthy().closed(80).listens(&socket(5, "[::]:80"), &[ENVOY]);
    let watch = Watch::turned(&node);
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NoListener port=80 ports=80,443",
        &["10.0.0.11:80 down NoListener", "10.0.0.11:443 up"],
        "WARN node DOWN reason=NoListener port=80 family=ipv4 addresses=10.0.0.11 detail=\"no socket listens on 10.0.0.11:80\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_26_a_listener_of_8080_is_none_of_80() {
    let node = Node::healthy().closed(80).listens(&socket(5, "0.0.0.0:8080"), &[ENVOY]);
    let watch = Watch::turned(&node);
    assert_eq!(watch.node(), "down NoListener 80");
    kept!(watch);
}
