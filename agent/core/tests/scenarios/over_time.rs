//! Series over time: what is held, for how long, and how a node comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use gwready_core::condition::{ConditionType, Status};
use gwready_core::facts::Why;
use gwready_core::memory::Subject;
use gwready_core::policy::{Fallback, Policy, Requirement};
use gwready_core::reason::Reason;

use super::faults::{host_port, probe_failed, terminating};
use super::node::{A, B, Node, endpoint, lost};
use super::watch::Watch;
use crate::kept;

/// The second at which the node is first up, looked at every half second.
fn up_again(watch: &mut Watch, from: u32) -> f64 {
    (0..80).map(|half| f64::from(from) + f64::from(half) / 2.0).find(|at| watch.sees(*at, &Node::healthy()).node() == "up").unwrap()
}

#[test]
fn each_recovery_within_five_minutes_takes_twice_as_long_up_to_thirty_seconds() {
    let mut watch = Watch::of(&Node::healthy());
    let mut at = 20;
    for wait in [2, 4, 8, 16, 30, 30] {
        watch.sees(f64::from(at), &host_port());
        assert_eq!(watch.node(), "down HostPort 80", "worse counts at once");
        let back = up_again(&mut watch, at + 1);
        assert_eq!(back, f64::from(at + 1 + wait));
        at += 1 + wait + 1;
    }
    kept!(watch);
}

#[test]
fn five_quiet_minutes_make_the_next_recovery_quick_again() {
    let mut watch = Watch::of(&Node::healthy());
    for start in [20, 40] {
        watch.sees(f64::from(start), &host_port());
        up_again(&mut watch, start + 1);
    }
    watch.sees(400.0, &host_port());
    assert_eq!(up_again(&mut watch, 401), 403.0);
    kept!(watch);
}

#[test]
fn while_it_waits_the_node_shows_the_reason_that_it_had() {
    let mut watch = Watch::turned(&host_port());
    watch.sees(21.0, &Node::healthy());
    assert_eq!(watch.health(Some(A)), "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443");
    assert_eq!(watch.front(ConditionType::NotIntercepted, 80).status, Status::True, "the condition itself is already true");
    assert_eq!(watch.log(), "");
    assert_eq!(watch.sees(23.0, &Node::healthy()).log(), "INFO node UP ports=80,443 down_for=3s was=HostPort");
    kept!(watch);
}

#[test]
fn another_reason_for_the_same_state_is_a_line_of_its_own() {
    let mut watch = Watch::turned(&host_port());
    watch.sees(25.0, &Node::healthy().without_envoy());
    assert!(watch.log().starts_with("WARN node DOWN reason=EnvoyNotRunning "), "{}", watch.log());
    assert!(watch.log().ends_with(" down_for=5s was=HostPort"), "{}", watch.log());
    assert_eq!(watch.sees(26.0, &Node::healthy().without_envoy()).log(), "");
    kept!(watch);
}

#[test]
fn the_state_of_the_node_keeps_its_since_whatever_the_reason() {
    let mut watch = Watch::turned(&host_port());
    watch.sees(25.0, &Node::healthy().closed(443)).sees(30.0, &host_port());
    assert_eq!(watch.verdict().node_since.mono, super::watch::mono(20.0));
    assert_eq!(watch.front(ConditionType::NotIntercepted, 80).since, super::watch::mono(30.0), "a condition keeps its own");
    kept!(watch);
}

fn without_maps() -> Node {
    let mut node = Node::healthy();
    node.snapshot.lb.v4 = lost(Why::Permission, "EPERM");
    node
}

fn without_owners() -> Node {
    let mut node = Node::healthy();
    node.snapshot.owners = lost(Why::Permission, "EPERM");
    node
}

#[test]
fn a_source_that_is_lost_keeps_a_true_for_hold_and_then_opens_or_closes_by_condition() {
    let mut open = Watch::of(&Node::healthy());
    assert_eq!(open.sees(20.0, &without_maps()).node(), "up");
    assert_eq!(open.sees(900.0, &without_maps()).node(), "up", "NotIntercepted stays open");
    kept!(open, "opens");
    let mut closed = Watch::of(&Node::healthy());
    assert_eq!(closed.sees(20.0, &without_owners()).node(), "up");
    assert_eq!(closed.sees(50.0, &without_owners()).node(), "up", "exactly hold");
    assert_eq!(closed.sees(50.1, &without_owners()).node(), "down Unidentified 80,443");
    kept!(closed, "closes");
}

#[test]
fn the_operator_can_close_and_open_what_is_lost() {
    let mut policy = Policy { hold: Duration::from_secs(3), ..Policy::default() };
    policy.unknown.insert(ConditionType::NotIntercepted, Fallback::Closed);
    policy.unknown.insert(ConditionType::OwnedByEnvoy, Fallback::Open);
    let mut watch = Watch::with(policy.clone(), &Node::healthy());
    assert_eq!(watch.sees(20.0, &without_maps()).node(), "up");
    assert_eq!(watch.sees(23.1, &without_maps()).node(), "down MapsUnreadable 80,443");
    let mut watch = Watch::with(policy, &Node::healthy());
    assert_eq!(watch.sees(20.0, &without_owners()).sees(900.0, &without_owners()).node(), "up");
    kept!(watch);
}

#[test]
fn a_false_stays_false_until_its_source_is_read_again() {
    let mut watch = Watch::turned(&host_port());
    for second in [21.0, 60.0, 86_400.0] {
        assert_eq!(watch.sees(second, &without_maps()).node(), "down HostPort 80", "at {second}");
    }
    assert_eq!(watch.sees(86_410.0, &Node::healthy()).sees(86_412.0, &Node::healthy()).node(), "up");
    kept!(watch);
}

#[test]
fn what_is_only_remembered_does_not_bring_a_node_back() {
    let mut watch = Watch::of(&Node::healthy());
    let mut closed = without_maps().closed(80);
    assert_eq!(watch.sees(20.0, &closed).node(), "down NoListener 80");
    closed = without_maps();
    assert_eq!(watch.sees(25.0, &closed).sees(40.0, &closed).node(), "down NoListener 80", "NotIntercepted is not proven now");
    assert_eq!(watch.sees(41.0, &Node::healthy()).sees(43.0, &Node::healthy()).node(), "up");
    kept!(watch);
}

#[test]
fn an_agent_that_never_saw_the_maps_is_open_and_says_so() {
    let mut watch = Watch::start(Policy::default());
    watch.sees(3.0, &without_maps());
    assert_eq!(watch.node(), "up");
    let blind: Vec<_> = watch.verdict().blind.iter().map(|blind| (blind.kind, blind.reason)).collect();
    assert_eq!(blind, [(ConditionType::NotIntercepted, Some(Reason::MapsUnreadable))]);
    assert_eq!(watch.body(None, None).lines().nth(1), Some("NotIntercepted 80/ipv4 Unknown MapsUnreadable: EPERM"));
    assert!(watch.sees(4.0, &Node::healthy()).verdict().blind.is_empty());
    kept!(watch);
}

#[test]
fn advisory_and_required_are_the_operators_choice() {
    let mut policy = Policy::default();
    policy.require.insert(ConditionType::NotIntercepted, Requirement::Advisory);
    policy.require.insert(ConditionType::ConfigCurrent, Requirement::Required);
    let mut watch = Watch::with(policy.clone(), &Node::healthy());
    assert_eq!(watch.sees(20.0, &host_port()).node(), "up");
    assert_eq!(watch.front(ConditionType::NotIntercepted, 80).status, Status::False, "and it is still told");
    let disconnected = Node::healthy().admin(|admin| admin.control_plane_connected = Some(false));
    assert_eq!(watch.sees(21.0, &disconnected).node(), "down XdsDisconnected");
    kept!(watch);
}

#[test]
fn the_way_to_the_proxy_ports_counts_where_it_is_required() {
    let required = [(ConditionType::TproxyPath, Requirement::Required)];
    for (require, expected) in [(BTreeMap::new(), "up"), (BTreeMap::from(required), "down ProxyPortClosed")] {
        let mut watch = Watch::with(Policy { require: require.clone(), ..Policy::default() }, &Node::healthy());
        let mut node = Node::healthy();
        let window = node.snapshot.lb.l7.window().unwrap();
        let frontend = gwready_core::lb::frontends::L7Frontend {
            endpoint: endpoint("192.0.2.7:80"),
            proxy_port: 13_000,
            routable: true,
            load_balancer: true,
        };
        node.snapshot.lb.l7 = gwready_core::facts::Reading::Observed { value: vec![frontend], window };
        let proxies =
            vec![gwready_core::facts::steering::ProxyLookup { family: gwready_core::net::Family::Ipv4, port: 13_000, picked: None }];
        node.snapshot.tproxy = gwready_core::facts::Reading::Observed {
            value: gwready_core::facts::steering::TproxyRoutes { proxies, ..Default::default() },
            window,
        };
        assert_eq!(watch.sees(20.0, &node).node(), expected, "{require:?}");
        kept!(watch, if require.is_empty() { "advisory" } else { "required" });
    }
}

#[test]
fn fall_counts_failures_in_a_row_and_the_operator_sets_it() {
    let reset = || gwready_core::facts::probes::ProbeOutcome::Reset;
    let mut watch = Watch::with(Policy { probe_fall: 5, ..Policy::default() }, &Node::healthy());
    assert_eq!(watch.sees(20.0, &probe_failed(80, reset(), 4)).node(), "up");
    assert_eq!(watch.sees(22.0, &Node::healthy()).sees(24.0, &probe_failed(80, reset(), 1)).node(), "up");
    assert_eq!(watch.sees(26.0, &probe_failed(80, reset(), 5)).node(), "down ProbeReset 80");
    kept!(watch);
}

#[test]
fn probes_that_are_switched_off_are_neither_waited_for_nor_judged() {
    let mut node = Node::healthy();
    node.snapshot.probes = gwready_core::facts::Reading::NotRead;
    let mut watch = Watch::start(Policy { probe_enabled: false, ..Policy::default() });
    assert_eq!(watch.sees(1.0, &node).node(), "up");
    assert_eq!(watch.front(ConditionType::Responding, 80).status, Status::True);
    kept!(watch);
}

#[test]
fn an_address_that_appears_later_proves_itself_and_the_node_stays_up_meanwhile() {
    let mut watch = Watch::of(&Node::healthy());
    watch.sees(20.0, &Node::with(&[A, B]));
    assert_eq!(watch.health(Some(B)), "state=down node=worker-1 address=10.0.0.12 reason=Starting ports=80,443");
    assert_eq!(watch.health(None), "state=up node=worker-1 address=all partial=1 ports=80,443");
    watch.sees(22.0, &Node::with(&[A, B]));
    assert_eq!(watch.health(Some(B)), "state=up node=worker-1 address=10.0.0.12 ports=80,443");
    kept!(watch);
}

#[test]
fn an_address_that_is_gone_is_forgotten_with_its_past() {
    let both = Node::with(&[A, B]).frontend("10.0.0.12:80", super::faults::HOST_PORT, &["10.42.1.7:80"]);
    let mut watch = Watch::of(&Node::with(&[A, B]));
    watch.sees(20.0, &both).sees(21.0, &Node::healthy()).sees(22.0, &Node::healthy());
    assert_eq!(watch.ports(), ["10.0.0.11:80 up", "10.0.0.11:443 up"]);
    let gone = Subject { kind: ConditionType::NotIntercepted, endpoint: Some(endpoint("10.0.0.12:80")) };
    assert_eq!(watch.memory.known.get(&gone), None);
    assert_eq!(watch.health(Some(B)), "state=up node=worker-1 address=all ports=80,443", "a question about it is one about the node");
    kept!(watch);
}

#[test]
fn a_node_without_any_judged_address_covers_nothing() {
    let mut node = Node::healthy();
    if let gwready_core::facts::Reading::Observed { value: table, .. } = &mut node.snapshot.addresses {
        table.addresses.clear();
    }
    let mut watch = Watch::turned(&node);
    assert_eq!(watch.node(), "down AddressesNotCovered");
    assert_eq!(watch.sees(21.0, &Node { snapshot: node.without_envoy().snapshot, ..Node::healthy() }).node(), "down EnvoyNotRunning");
    kept!(watch);
}

#[test]
fn an_envoy_that_is_replaced_gracefully_goes_drain_down_up() {
    let mut watch = Watch::of(&Node::healthy());
    let mut seen = vec![];
    let steps = [(20.0, terminating(20)), (21.0, terminating(20).without_envoy()), (23.0, Node::healthy()), (25.0, Node::healthy())];
    for (at, node) in steps {
        seen.push(watch.sees(at, &node).node());
    }
    assert_eq!(seen, ["drain EnvoyTerminating", "down EnvoyNotRunning", "down EnvoyNotRunning", "up"]);
    kept!(watch);
}
