//! Gauges of the verdict: states and conditions, one-hot.

use gwready_core::condition::Status;
use gwready_core::reason::Reason;
use gwready_core::verdict::{Outcome, State, Verdict};

use super::catalog as of;
use super::sample::Family;

/// So many addresses have series of their own.
const ADDRESSES: usize = 32;
const STATES: [&str; 3] = [State::Up.as_str(), State::Drain.as_str(), State::Down.as_str()];
const STATUSES: [&str; 3] = [Status::True.as_str(), Status::False.as_str(), Status::Unknown.as_str()];

/// All of them.
pub(super) fn families(verdict: &Verdict) -> Vec<Family> {
    vec![node_state(verdict), port_state(verdict), address_state(verdict), condition_status(verdict), condition_reason(verdict)]
}

fn node_state(verdict: &Verdict) -> Family {
    let mut family = Family::new(&of::NODE_STATE);
    family.push_one_hot(&[], &STATES, verdict.node.state.as_str());
    family
}

/// A port is judged as the node is: up while one address serves it, drain if none is up and one drains, else down.
fn port_state(verdict: &Verdict) -> Family {
    let mut family = Family::new(&of::PORT_STATE);
    for port in &verdict.ports {
        let outcomes = verdict.endpoints.iter().filter(|endpoint| endpoint.endpoint.port == *port).map(|endpoint| &endpoint.outcome);
        let state = best(outcomes).unwrap_or(verdict.node.state);
        family.push_one_hot(&[&port.to_string()], &STATES, state.as_str());
    }
    family
}

fn best<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<State> {
    outcomes.map(|outcome| outcome.state).min()
}

fn address_state(verdict: &Verdict) -> Family {
    let mut family = Family::new(&of::ADDRESS_STATE);
    for judged in verdict.addresses.iter().take(ADDRESSES) {
        family.push_one_hot(&[&judged.address.to_string()], &STATES, judged.outcome.state.as_str());
    }
    if let Some(worst) = verdict.addresses.iter().skip(ADDRESSES).map(|judged| judged.outcome.state).max() {
        family.push_one_hot(&["other"], &STATES, worst.as_str());
    }
    family
}

fn condition_status(verdict: &Verdict) -> Family {
    let mut family = Family::new(&of::CONDITION_STATUS);
    for condition in &verdict.conditions {
        let (port, family_word) = place(condition.front);
        family.push_one_hot(&[condition.kind.as_str(), &port, family_word], &STATUSES, condition.status.as_str());
    }
    family
}

fn condition_reason(verdict: &Verdict) -> Family {
    let mut family = Family::new(&of::CONDITION_REASON);
    for condition in &verdict.conditions {
        let (port, family_word) = place(condition.front);
        // A remark on True counts too (`Overloaded`); that a path is not used is no remark that anybody waits for.
        if let Some(reason) = condition.reason.filter(|reason| *reason != Reason::NotUsed) {
            family.push(&[condition.kind.as_str(), &port, family_word, reason.as_str()], 1.0);
        }
    }
    family
}

fn place(front: Option<gwready_core::net::Front>) -> (String, &'static str) {
    front.map_or((String::new(), ""), |front| (front.port.to_string(), front.family.as_str()))
}
