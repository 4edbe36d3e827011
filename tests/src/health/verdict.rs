//! Verdicts to publish: one node with ports 80 and 443, everything in one state.

use std::net::IpAddr;
use std::time::Duration;

use gwready::clock;
use gwready_core::net::{Endpoint, Family};
use gwready_core::reason::Reason;
use gwready_core::render::health::{AnswerSettings, Scope};
use gwready_core::verdict::{AddressOutcome, EndpointOutcome, Outcome, State, Verdict};

/// Settings of node `worker-1`, whose verdicts do not go stale while a test runs.
#[must_use]
pub fn answers() -> AnswerSettings {
    AnswerSettings {
        node_name: "worker-1".to_owned(),
        stale_after: Duration::from_secs(3600),
        scope: Scope::Address,
        detail: true,
        starting_ports: vec![80, 443],
    }
}

/// Everything in `state`: up, drain by request, or down by a HostPort on 80. Observed now.
#[must_use]
pub fn verdict(state: State, judged: &[IpAddr]) -> Verdict {
    let outcome = match state {
        State::Up => Outcome::UP,
        State::Drain => Outcome { state, reason: Some(Reason::DrainRequested), ports: Vec::new() },
        State::Down => Outcome { state, reason: Some(Reason::HostPort), ports: vec![80] },
    };
    let endpoint = |address: IpAddr, port: u16| {
        let fine = state == State::Down && port != 80;
        EndpointOutcome { endpoint: Endpoint { address, port }, outcome: if fine { Outcome::UP } else { outcome.clone() } }
    };
    let now = clock::now();
    Verdict {
        judged_at: now,
        observed_at: now.mono,
        node: outcome.clone(),
        partial: 0,
        ports: vec![80, 443],
        families: vec![Family::Ipv4],
        addresses: judged.iter().map(|&address| AddressOutcome { address, outcome: outcome.clone() }).collect(),
        endpoints: judged.iter().flat_map(|&address| [endpoint(address, 80), endpoint(address, 443)]).collect(),
        conditions: Vec::new(),
        blind: Vec::new(),
        node_since: now,
    }
}
