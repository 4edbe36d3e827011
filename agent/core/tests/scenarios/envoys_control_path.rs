//! Faults of Envoy's control path: the configuration is not what is served.

use gwready_core::condition::{ConditionType, Status};
use gwready_core::facts::probes::ProbeOutcome;
use gwready_core::reason::Reason;

use super::faults::{change_rejected, may_not_bind, no_listeners, probe_failed, third_port_not_bound};
use super::node::{ENVOY, Node};
use super::watch::Watch;
use crate::kept;

const DUPLICATE: &str =
    "error adding listener: 'team/cilium-gateway-public/listener' has duplicate address '0.0.0.0:8443' as existing listener";

#[test]
fn fault_1_a_changed_listener_is_rejected_and_its_new_port_never_opens() {
    let watch = Watch::turned(&change_rejected("cannot bind '0.0.0.0:8443': Cannot assign requested address"));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ListenerRejected port=8443 ports=80,443,8443",
        &["10.0.0.11:80 up", "10.0.0.11:443 up", "10.0.0.11:8443 down ListenerRejected"],
        "WARN node DOWN reason=ListenerRejected port=8443 family=ipv4 addresses=10.0.0.11 envoy=\"cannot bind '0.0.0.0:8443': Cannot assign requested address\" listener=team/cilium-gateway-public/listener up_for=10s",
    );
    kept!(watch);
    assert_eq!(watch.condition(ConditionType::ConfigCurrent).reason, Some(Reason::UpdateRejected));
}

#[test]
fn fault_1_while_only_old_ports_are_named_the_node_stays_and_the_rejection_is_told() {
    let node = Node::healthy().admin(|admin| {
        admin.listeners[0].error = Some("filter chain: secret shop-tls is not ready".into());
        admin.listeners[0].rejected_ports = vec![80, 443];
    });
    let watch = Watch::turned(&node);
    watch.stays_up_but_says(watch.condition(ConditionType::ConfigCurrent), Status::False, Reason::UpdateRejected);
    kept!(watch);
    assert_eq!(
        watch.body(None, None).lines().nth(1),
        Some("ConfigCurrent False UpdateRejected: Envoy rejects Gateway team/public"),
        "the balancer's log shows it too"
    );
    assert_eq!(watch.condition(ConditionType::ConfigCurrent).evidence["envoy"], "filter chain: secret shop-tls is not ready");
}

#[test]
fn fault_1_the_rejection_survives_a_restart_of_the_agent() {
    let mut watch = Watch::start(gwready_core::policy::Policy::default());
    watch.sees(3.0, &change_rejected(DUPLICATE));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ListenerRejected port=8443 ports=80,443,8443",
        &["10.0.0.11:80 up", "10.0.0.11:443 up", "10.0.0.11:8443 down ListenerRejected"],
        "WARN node DOWN reason=ListenerRejected port=8443 family=ipv4 addresses=10.0.0.11 envoy=\"has duplicate address '0.0.0.0:8443' as existing listener\" listener=team/cilium-gateway-public/listener",
    );
    kept!(watch);
}

#[test]
fn fault_3_the_first_bind_fails_because_envoy_lacks_the_capability() {
    let watch = Watch::turned(&may_not_bind());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=BindPermissionDenied port=80,443 ports=80,443",
        &["10.0.0.11:80 down BindPermissionDenied", "10.0.0.11:443 down BindPermissionDenied"],
        "WARN node DOWN reason=BindPermissionDenied port=80,443 family=ipv4 addresses=10.0.0.11 cap_effective=0x0 ip_unprivileged_port_start=1024 no_new_privs=true process=cilium-envoy[100] up_for=10s",
    );
    kept!(watch);
    let evidence = &watch.front(ConditionType::Listening, 80).evidence;
    assert_eq!((evidence["cap_effective"].as_str(), evidence["process"].as_str()), ("0x0", "cilium-envoy[100]"));
}

#[test]
fn fault_3_a_lowered_unprivileged_range_needs_no_capability() {
    let node = Node::healthy().with_process(ENVOY, |envoy| envoy.cap_effective = Some(0));
    let mut watch = Watch::of(&node);
    let closed = node.closed(80).owners(|owners| owners.unprivileged_port_start = Some(80));
    assert_eq!(watch.sees(20.0, &closed).node(), "down NoListener 80", "the capability is not the cause");
    kept!(watch);
}

#[test]
fn fault_4_the_port_was_taken_and_envoy_never_tries_again() {
    let watch = Watch::turned(&super::faults::another_proxy());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ForeignOwner port=80 ports=80,443",
        &["10.0.0.11:80 down ForeignOwner", "10.0.0.11:443 up"],
        "WARN node DOWN reason=ForeignOwner port=80 family=ipv4 addresses=10.0.0.11 thief=\"pod web/nginx-1 (nginx[412])\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_7_a_passthrough_port_is_folded_into_443_and_never_opened() {
    let watch = Watch::turned(&third_port_not_bound());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NoListener port=8443 ports=80,443,8443",
        &["10.0.0.11:80 up", "10.0.0.11:443 up", "10.0.0.11:8443 down NoListener"],
        "WARN node DOWN reason=NoListener port=8443 family=ipv4 addresses=10.0.0.11 detail=\"no socket listens on 10.0.0.11:8443\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_8_port_80_accepts_and_closes_after_https_was_added() {
    let mut watch = Watch::of(&Node::healthy());
    for (failures, expected) in [(1, "up"), (2, "up"), (3, "down ProbeReset 80")] {
        let failed = probe_failed(80, ProbeOutcome::Reset, failures);
        assert_eq!(watch.sees(20.0 + 2.0 * f64::from(failures), &failed).node(), expected, "{failures} failures");
    }
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ProbeReset port=80 ports=80,443",
        &["10.0.0.11:80 down ProbeReset", "10.0.0.11:443 up"],
        "WARN node DOWN reason=ProbeReset port=80 family=ipv4 addresses=10.0.0.11 failures=3 probed=10.0.0.11:80 up_for=16s",
    );
    kept!(watch);
}

#[test]
fn fault_9_the_certificate_is_missing_and_the_handshake_is_reset() {
    let missing = ProbeOutcome::TlsFailed("closed after ClientHello; secrets not ready: 1".into());
    let watch = Watch::turned(&probe_failed(443, missing, 3));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=TlsFailed port=443 ports=80,443",
        &["10.0.0.11:80 up", "10.0.0.11:443 down TlsFailed"],
        "WARN node DOWN reason=TlsFailed port=443 family=ipv4 addresses=10.0.0.11 failures=3 probed=10.0.0.11:443 server_name=shop.example why=\"closed after ClientHello; secrets not ready: 1\" up_for=10s",
    );
    kept!(watch);
    assert_eq!(watch.front(ConditionType::Responding, 443).evidence["server_name"], "shop.example");
}

#[test]
fn fault_9_without_a_name_to_ask_for_nothing_is_concluded() {
    let no_name = ProbeOutcome::NotJudgeable("closed after a ClientHello without a server name".into());
    let watch = Watch::turned(&probe_failed(443, no_name, 0));
    watch.stays_up_but_says(watch.front(ConditionType::Responding, 443), Status::Unknown, Reason::NotJudged);
    kept!(watch);
}

#[test]
fn fault_10_envoy_has_lost_its_control_plane_and_serves_an_old_configuration() {
    let watch = Watch::turned(&Node::healthy().admin(|admin| admin.control_plane_connected = Some(false)));
    watch.stays_up_but_says(watch.condition(ConditionType::ConfigCurrent), Status::False, Reason::XdsDisconnected);
    kept!(watch);
}

#[test]
fn fault_11_envoy_is_live_without_any_gateway_listener() {
    let watch = Watch::turned(&no_listeners());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NoListener port=80,443 ports=80,443",
        &["10.0.0.11:80 down NoListener", "10.0.0.11:443 down NoListener"],
        "WARN node DOWN reason=NoListener port=80,443 family=ipv4 addresses=10.0.0.11 detail=\"no socket listens on 10.0.0.11:80\" up_for=10s",
    );
    kept!(watch);
    assert_eq!(watch.condition(ConditionType::EnvoyLive).status, Status::True, "which is what its own health port goes by");
}
