//! `ports: auto`: which ports a gateway node is expected to serve, learnt from Envoy's own gateway listeners.
//!
//! A port is learnt when Envoy names it, accepted or rejected: a listener that could not be opened is exactly what must not
//! be forgotten. It is unlearnt only when a live Envoy that is connected to its control plane has named other gateway
//! listeners without it for [`UNLEARN_AFTER`]: an Envoy that lost all of its listeners (an xDS wait that timed out, a node
//! label that went) proves nothing about what the node should serve.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::facts::Snapshot;
use crate::facts::envoy::{EnvoyAdmin, EnvoyListener, ServerState};
use crate::policy::{Choice, Mode, Policy};
use crate::time::Mono;

/// What is expected while nothing is known.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// How long the rest of the gateway must have been there without a port before the port is no longer expected. Longer than a
/// cilium-agent that has restarted and connected again takes to send one listener after the other; short, because a port that
/// somebody takes out of the Gateway takes every node down for so long, and F5 at stock timing (5/16) acts 11 s after at the earliest.
pub const UNLEARN_AFTER: Duration = Duration::from_secs(8);

/// Ports that Envoy's gateway listeners name now, ascending; none if Envoy could not be asked or names no gateway listener.
#[must_use]
pub fn learnt_ports(mode: Mode, snapshot: &Snapshot) -> Option<Vec<u16>> {
    let admin = snapshot.envoy.value()?;
    let ports = named(mode, admin);
    (!ports.is_empty()).then_some(ports)
}

/// In host-network mode a port that is bound to loopback alone counts: it is expected, and served to nobody. Behind a load
/// balancer it is a proxy port, at which no client arrives.
fn named(mode: Mode, admin: &EnvoyAdmin) -> Vec<u16> {
    let gateways = admin.listeners.iter().filter(|listener| listener.is_gateway());
    let of = |listener: &EnvoyListener| {
        let loopback: &[u16] = if mode == Mode::HostNetwork { &listener.loopback_ports } else { &[] };
        [&listener.ports, &listener.rejected_ports, loopback].concat()
    };
    let mut ports: Vec<u16> = gateways.flat_map(of).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Updates the ports seen (with when each was last named) from one snapshot. Ports named now are added; ports that a whole
/// gateway configuration has left out for [`UNLEARN_AFTER`] go.
pub fn remember_ports(seen: &mut BTreeMap<u16, Mono>, mode: Mode, snapshot: &Snapshot, now: Mono) {
    let Some(admin) = snapshot.envoy.value() else { return };
    let named = named(mode, admin);
    let whole = admin.state == ServerState::Live && admin.control_plane_connected != Some(false) && !named.is_empty();
    for port in &named {
        seen.insert(*port, now);
    }
    if whole {
        seen.retain(|_, last| now.since(*last) < UNLEARN_AFTER);
    } else {
        // Nothing is held against a port while Envoy has nothing to say.
        seen.values_mut().for_each(|last| *last = now);
    }
}

/// The expected ports, ascending: as configured, else those named now and those in `remembered`, else [`DEFAULT_PORTS`].
#[must_use]
pub fn expected_ports(policy: &Policy, snapshot: &Snapshot, remembered: &[u16]) -> Vec<u16> {
    let mut ports = match &policy.ports {
        Choice::Only(ports) => ports.clone(),
        Choice::Auto => {
            let mut ports = learnt_ports(policy.mode, snapshot).unwrap_or_default();
            ports.extend(remembered.iter().filter(|port| **port != 0));
            if ports.is_empty() { DEFAULT_PORTS.to_vec() } else { ports }
        }
    };
    ports.sort_unstable();
    ports.dedup();
    ports
}

#[cfg(test)]
mod tests {
    use super::super::serving_testing::{admin, gateway, unread};
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn learn(seen: &mut BTreeMap<u16, Mono>, listeners: Vec<EnvoyListener>, second: u64) {
        remember_ports(seen, Mode::HostNetwork, &admin(listeners), Mono(second * SECOND));
    }

    fn ports(seen: &BTreeMap<u16, Mono>) -> Vec<u16> {
        seen.keys().copied().collect()
    }

    #[test]
    fn what_envoy_names_is_expected_rejected_listeners_too() {
        let rejected = EnvoyListener { rejected_ports: vec![8443], ..gateway("b", &[]) };
        let snapshot = admin(vec![
            gateway("a", &[80]),
            rejected,
            EnvoyListener { ports: vec![9964], name: "envoy-metrics".into(), ..EnvoyListener::default() },
        ]);
        assert_eq!(learnt_ports(Mode::HostNetwork, &snapshot), Some(vec![80, 8443]));
        assert_eq!(expected_ports(&Policy::default(), &snapshot, &[]), [80, 8443]);
        assert_eq!(expected_ports(&Policy::default(), &snapshot, &[443]), [80, 443, 8443]);
    }

    #[test]
    fn nothing_known_means_80_and_443() {
        assert_eq!(expected_ports(&Policy::default(), &unread(), &[]), [80, 443]);
        assert_eq!(expected_ports(&Policy::default(), &admin(vec![]), &[]), [80, 443]);
    }

    #[test]
    fn a_gateway_with_only_port_80_is_not_judged_by_443() {
        assert_eq!(expected_ports(&Policy::default(), &admin(vec![gateway("a", &[80])]), &[]), [80]);
        assert_eq!(expected_ports(&Policy::default(), &unread(), &[80]), [80]);
    }

    #[test]
    fn a_gateway_on_loopback_names_its_port_and_no_other() {
        let bound = |public: &[u16], loopback: &[u16]| {
            let listener = EnvoyListener { loopback_ports: loopback.to_vec(), ..gateway("a", public) };
            let health = EnvoyListener { name: "envoy-health".into(), loopback_ports: vec![9878], ..EnvoyListener::default() };
            admin(vec![listener, health])
        };
        assert_eq!(expected_ports(&Policy::default(), &bound(&[], &[80]), &[]), [80], "not 443 too");
        assert_eq!(expected_ports(&Policy::default(), &bound(&[443], &[80]), &[]), [80, 443]);
        let behind = Policy { mode: Mode::LoadBalancer, ..Policy::default() };
        assert_eq!(expected_ports(&behind, &bound(&[], &[14_567]), &[]), [80, 443], "a proxy port is none of the clients'");
        let mut seen = BTreeMap::new();
        remember_ports(&mut seen, Mode::LoadBalancer, &bound(&[], &[14_567]), Mono(0));
        assert!(seen.is_empty());
        remember_ports(&mut seen, Mode::HostNetwork, &bound(&[], &[80]), Mono(0));
        assert_eq!(ports(&seen), [80]);
    }

    #[test]
    fn configured_ports_are_taken_as_they_are() {
        let policy = Policy { ports: Choice::Only(vec![8080, 80]), ..Policy::default() };
        assert_eq!(expected_ports(&policy, &admin(vec![gateway("a", &[443])]), &[443]), [80, 8080]);
    }

    #[test]
    fn a_port_that_the_rest_of_the_gateway_no_longer_has_is_unlearnt_after_a_while() {
        let mut seen = BTreeMap::new();
        learn(&mut seen, vec![gateway("a", &[80]), gateway("b", &[8443])], 0);
        learn(&mut seen, vec![gateway("a", &[80])], 7);
        assert_eq!(ports(&seen), [80, 8443]);
        learn(&mut seen, vec![gateway("a", &[80])], 8);
        assert_eq!(ports(&seen), [80]);
    }

    #[test]
    fn an_envoy_without_any_gateway_listener_unlearns_nothing() {
        let mut seen = BTreeMap::new();
        learn(&mut seen, vec![gateway("a", &[80, 443])], 0);
        for second in (60..600).step_by(60) {
            learn(&mut seen, vec![], second);
        }
        assert_eq!(ports(&seen), [80, 443]);
        learn(&mut seen, vec![gateway("a", &[80])], 547);
        assert_eq!(ports(&seen), [80, 443], "the time begins when Envoy has something to say again");
    }

    #[test]
    fn an_envoy_that_cannot_be_asked_unlearns_nothing() {
        let mut seen = BTreeMap::from([(8080, Mono(0))]);
        remember_ports(&mut seen, Mode::HostNetwork, &unread(), Mono(3600 * SECOND));
        assert_eq!(ports(&seen), [8080]);
    }
}
