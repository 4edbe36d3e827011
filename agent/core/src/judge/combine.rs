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
}
