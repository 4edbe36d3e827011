//! The verdict step's second half: effects of conditions become outcomes of endpoints, addresses and the node.

use std::net::IpAddr;

use crate::condition::ConditionType;
use crate::net::Endpoint;
use crate::reason::Reason;
use crate::verdict::{AddressOutcome, EndpointOutcome, Outcome, State};

use super::resolve::Effect;

/// The outcome of one endpoint from the effects of the node's conditions and its own: the strongest state, and within it
/// the most causal reason. A reason that a condition of the node gives concerns no port in particular.
#[must_use]
pub fn endpoint_outcome<'a>(endpoint: Endpoint, effects: impl IntoIterator<Item = &'a (ConditionType, Effect)>) -> Outcome {
    let worst = effects.into_iter().filter_map(|(kind, effect)| match effect {
        Effect::Against { state, reason } => Some((std::cmp::Reverse(*state), *reason, kind.is_per_front())),
        Effect::Fine | Effect::Kept | Effect::Blind => None,
    });
    match worst.min() {
        None => Outcome::UP,
        Some((state, reason, per_front)) => {
            Outcome { state: state.0, reason: Some(reason), ports: if per_front { vec![endpoint.port] } else { Vec::new() } }
        }
    }
}

/// Joins outcomes that must all be up: the strongest state wins, and within it the most causal reason with every port
/// for which it holds.
#[must_use]
pub fn join_all<'a>(outcomes: impl IntoIterator<Item = &'a Outcome> + Clone) -> Outcome {
    let state = outcomes.clone().into_iter().map(|outcome| outcome.state).max().unwrap_or(State::Up);
    with_state(outcomes, state)
}

/// Outcomes of the addresses: down if any port is down, else drain if any drains.
#[must_use]
pub fn address_outcomes(addresses: impl IntoIterator<Item = IpAddr>, endpoints: &[EndpointOutcome]) -> Vec<AddressOutcome> {
    addresses
        .into_iter()
        .map(|address| {
            let own: Vec<&Outcome> = endpoints.iter().filter(|e| e.endpoint.address == address).map(|e| &e.outcome).collect();
            AddressOutcome { address, outcome: join_all(own) }
        })
        .collect()
}

/// The node: up while one address is up, drain if none is up and one drains, else down. Without any judged address
/// nothing is covered: down.
#[must_use]
pub fn node_outcome(addresses: &[AddressOutcome]) -> Outcome {
    let Some(state) = addresses.iter().map(|a| a.outcome.state).min() else {
        return Outcome { state: State::Down, reason: Some(Reason::AddressesNotCovered), ports: Vec::new() };
    };
    with_state(addresses.iter().map(|a| &a.outcome), state)
}

fn with_state<'a>(outcomes: impl IntoIterator<Item = &'a Outcome> + Clone, state: State) -> Outcome {
    if state == State::Up {
        return Outcome::UP;
    }
    let same = move |outcome: &&'a Outcome| outcome.state == state;
    let reason = outcomes.clone().into_iter().filter(same).filter_map(|outcome| outcome.reason).min();
    let held = outcomes.into_iter().filter(same).filter(|outcome| outcome.reason == reason);
    let (mut ports, mut whole_node) = (Vec::new(), false);
    for outcome in held {
        whole_node |= outcome.ports.is_empty();
        ports.extend_from_slice(&outcome.ports);
    }
    ports.sort_unstable();
    ports.dedup();
    Outcome { state, reason, ports: if whole_node { Vec::new() } else { ports } }
}

#[cfg(test)]
mod tests {
    use super::super::testing::endpoint;
    use super::*;

    fn outcome(state: State, reason: Reason, ports: &[u16]) -> Outcome {
        Outcome { state, reason: Some(reason), ports: ports.to_vec() }
    }

    fn against(state: State, reason: Reason) -> Effect {
        Effect::Against { state, reason }
    }

    #[test]
    fn down_beats_drain_and_the_most_causal_reason_is_reported() {
        let effects = [
            (ConditionType::InService, against(State::Drain, Reason::DrainRequested)),
            (ConditionType::Responding, against(State::Down, Reason::ProbeRefused)),
            (ConditionType::Listening, against(State::Down, Reason::NoListener)),
        ];
        assert_eq!(endpoint_outcome(endpoint("10.0.0.1:80"), &effects), outcome(State::Down, Reason::NoListener, &[80]));
        assert_eq!(endpoint_outcome(endpoint("10.0.0.1:80"), &effects[..1]), outcome(State::Drain, Reason::DrainRequested, &[]));
        assert_eq!(endpoint_outcome(endpoint("10.0.0.1:80"), &effects[..0]), Outcome::UP);
    }

    #[test]
    fn the_same_reason_from_node_and_front_names_no_port() {
        let effects = [
            (ConditionType::Listening, against(State::Down, Reason::EnvoyNotRunning)),
            (ConditionType::EnvoyLive, against(State::Down, Reason::EnvoyNotRunning)),
        ];
        assert!(endpoint_outcome(endpoint("10.0.0.1:80"), &effects).ports.is_empty());
    }

    #[test]
    fn an_address_lists_every_port_for_which_the_reason_holds() {
        let ports = [outcome(State::Down, Reason::NoListener, &[443]), outcome(State::Down, Reason::NoListener, &[80]), Outcome::UP];
        assert_eq!(join_all(&ports), outcome(State::Down, Reason::NoListener, &[80, 443]));
    }

    #[test]
    fn the_node_is_up_while_one_address_is() {
        let address = |ip: &str, outcome: Outcome| AddressOutcome { address: ip.parse().unwrap(), outcome };
        let down = address("10.0.0.1", outcome(State::Down, Reason::HostPort, &[80]));
        let drain = address("10.0.0.2", outcome(State::Drain, Reason::EnvoyDraining, &[]));
        let up = address("10.0.0.3", Outcome::UP);
        assert_eq!(node_outcome(&[down.clone(), drain.clone(), up]), Outcome::UP);
        assert_eq!(node_outcome(&[down.clone(), drain]).state, State::Drain);
        assert_eq!(node_outcome(&[down]), outcome(State::Down, Reason::HostPort, &[80]));
        assert_eq!(node_outcome(&[]).state, State::Down);
    }

    /// Up, drain and down with a reason each, as an endpoint of port 80 can have them.
    fn any_outcome() -> [Outcome; 5] {
        [
            Outcome::UP,
            outcome(State::Drain, Reason::DrainRequested, &[]),
            outcome(State::Drain, Reason::EnvoyDraining, &[]),
            outcome(State::Down, Reason::HostPort, &[80]),
            outcome(State::Down, Reason::Stale, &[]),
        ]
    }

    #[test]
    fn every_pair_of_ports_makes_an_address_of_the_worse_and_every_pair_of_addresses_a_node_of_the_better() {
        let at = |ip: &str, outcome: &Outcome| AddressOutcome { address: ip.parse().unwrap(), outcome: outcome.clone() };
        for a in any_outcome() {
            for b in any_outcome() {
                let address = join_all([&a, &b]);
                assert_eq!(address.state, a.state.max(b.state));
                let node = node_outcome(&[at("10.0.0.1", &a), at("10.0.0.2", &b)]);
                assert_eq!(node.state, a.state.min(b.state));
                for (joined, state) in [(&address, a.state.max(b.state)), (&node, a.state.min(b.state))] {
                    let reasons = [&a, &b].into_iter().filter(|one| one.state == state).filter_map(|one| one.reason);
                    assert_eq!(joined.reason, reasons.min(), "the most causal of those that have the state");
                    assert_eq!(joined.ports == [80], joined.reason == Some(Reason::HostPort));
                }
                assert_eq!(join_all([&b, &a]), address, "the order of ports does not matter");
                assert_eq!(node_outcome(&[at("10.0.0.2", &b), at("10.0.0.1", &a)]), node, "nor that of addresses");
            }
        }
    }

    #[test]
    fn joining_one_outcome_changes_nothing_and_joining_none_is_up() {
        for one in any_outcome() {
            assert_eq!(join_all([&one]), one);
            assert_eq!(join_all([&one, &one]), one);
        }
        assert_eq!(join_all([]), Outcome::UP);
    }

    #[test]
    fn an_address_takes_its_own_endpoints_only_and_one_without_any_is_up() {
        let own = |at: &str, outcome: Outcome| EndpointOutcome { endpoint: endpoint(at), outcome };
        let endpoints = [
            own("10.0.0.1:80", outcome(State::Down, Reason::HostPort, &[80])),
            own("10.0.0.1:443", outcome(State::Drain, Reason::DrainRequested, &[])),
            own("10.0.0.2:80", outcome(State::Drain, Reason::DrainRequested, &[])),
        ];
        let ips = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|ip| ip.parse().unwrap());
        let states: Vec<State> = address_outcomes(ips, &endpoints).iter().map(|address| address.outcome.state).collect();
        assert_eq!(states, [State::Down, State::Drain, State::Up]);
    }

    #[test]
    fn what_is_kept_blind_or_fine_never_counts_against() {
        let effects = [Effect::Fine, Effect::Kept, Effect::Blind].map(|effect| (ConditionType::Listening, effect));
        assert_eq!(endpoint_outcome(endpoint("10.0.0.1:80"), &effects), Outcome::UP);
    }
}
