//! Nodes that come and go: drains, terminations, restarts, and how long each lasts.

use gwready_core::condition::{ConditionType, Status};
use gwready_core::reason::Reason;

use super::faults::{drained, draining, no_listeners, terminating};
use super::node::{A, Node};
use super::watch::Watch;
use crate::kept;

#[test]
fn fault_35_drain_listeners_closes_the_ports_while_admin_says_live_and_lists_them() {
    let watch = Watch::turned(&Node::healthy().closed(80).closed(443));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NoListener port=80,443 ports=80,443",
        &["10.0.0.11:80 down NoListener", "10.0.0.11:443 down NoListener"],
        "WARN node DOWN reason=NoListener port=80,443 family=ipv4 addresses=10.0.0.11 detail=\"no socket listens on 10.0.0.11:80\" up_for=10s",
    );
    kept!(watch);
    assert_eq!(watch.condition(ConditionType::EnvoyLive).evidence["state"], "LIVE");
}

#[test]
fn fault_36_healthcheck_fail_drains_while_the_ports_still_accept() {
    let mut watch = Watch::turned(&draining());
    watch.told(
        "state=drain node=worker-1 address=10.0.0.11 reason=EnvoyDraining ports=80,443",
        &["10.0.0.11:80 drain EnvoyDraining", "10.0.0.11:443 drain EnvoyDraining"],
        "INFO node DRAIN reason=EnvoyDraining addresses=10.0.0.11 detail=\"Envoy says DRAINING on /ready: somebody called /healthcheck/fail on its admin interface\" up_for=10s",
    );
    kept!(watch);
    assert_eq!(watch.sees(21.0, &draining().closed(80)).node(), "down NoListener 80", "down beats drain");
}

#[test]
fn fault_37_a_terminating_pod_drains_at_the_signal_and_is_down_when_it_is_gone() {
    let mut watch = Watch::turned(&terminating(20));
    watch.told(
        "state=drain node=worker-1 address=10.0.0.11 reason=EnvoyTerminating ports=80,443",
        &["10.0.0.11:80 drain EnvoyTerminating", "10.0.0.11:443 drain EnvoyTerminating"],
        "INFO node DRAIN reason=EnvoyTerminating addresses=10.0.0.11 pid=99 up_for=10s",
    );
    kept!(watch);
    assert_eq!(watch.sees(21.0, &terminating(20).without_envoy()).node(), "down EnvoyNotRunning");
    assert_eq!(
        watch.log(),
        "WARN node DOWN reason=EnvoyNotRunning addresses=10.0.0.11 detail=\"no cilium-envoy process in this network namespace\" drain_for=1s was=EnvoyTerminating"
    );
}

#[test]
fn fault_37_the_notice_ends_after_five_seconds_if_envoy_stays() {
    let mut watch = Watch::turned(&terminating(20));
    assert_eq!(watch.sees(24.9, &terminating(20)).node(), "drain EnvoyTerminating");
    assert_eq!(watch.sees(25.0, &terminating(20)).condition(ConditionType::EnvoyLive).status, Status::True);
    assert_eq!(watch.node(), "drain EnvoyTerminating", "and then min_up");
    assert_eq!(watch.sees(27.0, &terminating(20)).node(), "up");
    kept!(watch);
}

#[test]
fn fault_37_a_newer_envoy_ends_the_notice_of_the_old_one() {
    let mut watch = Watch::turned(&terminating(20));
    let replaced = terminating(20).owners(|owners| owners.envoy_starts = vec![super::watch::mono(21.0)]);
    assert_eq!(watch.sees(21.5, &replaced).condition(ConditionType::EnvoyLive).status, Status::True);
    kept!(watch);
}

#[test]
fn fault_38_maintenance_drains_by_an_operators_word() {
    let mut watch = Watch::turned(&drained(None));
    watch.told(
        "state=drain node=worker-1 address=10.0.0.11 reason=DrainRequested ports=80,443",
        &["10.0.0.11:80 drain DrainRequested", "10.0.0.11:443 drain DrainRequested"],
        "INFO node DRAIN reason=DrainRequested addresses=10.0.0.11 asked_by=\"uid 0\" why=\"kernel update\" until=undrain up_for=10s",
    );
    kept!(watch);
    watch.sees(30.0, &Node::healthy());
    assert_eq!(watch.node(), "drain DrainRequested", "undrained, min_up begins");
    assert_eq!(watch.sees(32.0, &Node::healthy()).log(), "INFO node UP ports=80,443 drain_for=12s was=DrainRequested");
}

#[test]
fn fault_38_a_drain_for_a_time_ends_by_itself() {
    let until = drained(Some(1_800_000_060_000));
    let mut watch = Watch::turned(&until);
    assert!(watch.log().contains("until=2027-01-15T08:01:00.000Z"), "{}", watch.log());
    assert_eq!(watch.sees(59.9, &until).node(), "drain DrainRequested");
    assert_eq!(watch.sees(60.0, &until).condition(ConditionType::InService).status, Status::True);
    assert_eq!(watch.sees(62.0, &until).node(), "up");
    kept!(watch);
}

#[test]
fn fault_39_the_cilium_agent_is_dead_and_the_maps_stand_still() {
    let mut node = Node::healthy();
    node.agent_age = std::time::Duration::from_secs(11);
    let watch = Watch::turned(&node);
    watch.stays_up_but_says(watch.condition(ConditionType::CiliumAgentAlive), Status::False, Reason::CiliumAgentStale);
    kept!(watch);
    assert!(watch.body(None, None).contains("\nCiliumAgentAlive False CiliumAgentStale: "));
}

#[test]
fn fault_41_a_new_node_is_down_from_its_first_answer() {
    let mut watch = Watch::start(gwready_core::policy::Policy::default());
    assert_eq!(watch.health(Some(A)), "state=down node=worker-1 address=all reason=Starting ports=80,443", "before any pass");
    let mut half = Node::healthy();
    half.snapshot.envoy = gwready_core::facts::Reading::NotRead;
    watch.sees(1.0, &half);
    assert_eq!(watch.health(Some(A)), "state=down node=worker-1 address=all reason=Starting ports=80,443");
    assert_eq!(watch.condition(ConditionType::Observed).message, "not seen yet: envoy");
    assert_eq!(watch.log(), "", "starting is no transition");
    watch.sees(1.2, &Node::healthy());
    watch.told(
        "state=up node=worker-1 address=10.0.0.11 ports=80,443",
        &["10.0.0.11:80 up", "10.0.0.11:443 up"],
        "INFO node UP ports=80,443 down_for=200ms was=Starting",
    );
    kept!(watch);
}

#[test]
fn fault_41_a_new_node_waits_for_the_first_probe_of_every_front() {
    let mut waiting = Node::healthy();
    if let gwready_core::facts::Reading::Observed { value: table, .. } = &mut waiting.snapshot.probes {
        table.first_round_done = false;
    }
    let mut watch = Watch::start(gwready_core::policy::Policy::default());
    assert_eq!(watch.sees(1.0, &waiting).node(), "down Starting");
    assert_eq!(watch.sees(2.0, &Node::healthy()).node(), "up");
    kept!(watch);
}

#[test]
fn fault_41_a_front_that_has_never_passed_is_failed_by_its_first_probe() {
    let outcome = gwready_core::facts::probes::ProbeOutcome::Timeout;
    let node = super::faults::probe_failed(443, outcome, 1).with_probe("10.0.0.11:443", |probe| probe.never_passed = true);
    let mut watch = Watch::start(gwready_core::policy::Policy::default());
    assert_eq!(watch.sees(3.0, &node).node(), "down ProbeTimeout 443");
    kept!(watch);
}

#[test]
fn fault_42_the_node_lost_its_label_and_its_address_is_still_published() {
    let mut watch = Watch::turned(&no_listeners());
    assert_eq!(watch.node(), "down NoListener 80,443");
    assert_eq!(watch.sees(900.0, &no_listeners()).node(), "down NoListener 80,443", "the ports are not forgotten");
    assert_eq!(watch.health(Some(A)), "state=down node=worker-1 address=10.0.0.11 reason=NoListener port=80,443 ports=80,443");
    kept!(watch);
}
