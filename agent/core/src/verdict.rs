//! The verdict: up, drain or down for each endpoint, address, port and the node.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, ConditionType};
use crate::net::{Endpoint, Family};
use crate::reason::Reason;
use crate::time::{Mono, Now};

/// The answer a balancer gets. Ordered by strength: down beats drain beats up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Send clients.
    Up,
    /// Send no new clients, keep the existing ones.
    Drain,
    /// Send nobody.
    Down,
}

impl State {
    /// All three, in the order of metric labels.
    pub const ALL: [Self; 3] = [Self::Up, Self::Drain, Self::Down];

    /// Lower-case word, as in the health line and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Drain => "drain",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A state with the most causal reason for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The state.
    pub state: State,
    /// Why it is not up; none exactly when up.
    pub reason: Option<Reason>,
    /// The expected ports for which `reason` holds; empty for reasons of the whole node.
    pub ports: Vec<u16>,
}

impl Outcome {
    /// Plainly up.
    pub const UP: Self = Self { state: State::Up, reason: None, ports: Vec::new() };
}

/// The outcome of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointOutcome {
    /// Which endpoint.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// Its state and reason. `ports` holds this port if the reason is of the front.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of one judged address over all expected ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressOutcome {
    /// The judged address.
    pub address: IpAddr,
    /// Down if any of its ports is down, else drain if any drains, else up.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A required condition that was never known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blind {
    /// Which statement.
    pub kind: ConditionType,
    /// Why it can't be told.
    pub reason: Option<Reason>,
    /// One sentence for a person, raw text.
    pub message: String,
}

/// What the judge says of the node at one moment. Immutable once published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// When it was judged.
    pub judged_at: Now,
    /// End of the last good read of the socket source; staleness is measured from here when answering.
    pub observed_at: Mono,
    /// When the node entered its state. Of an earlier run of the agent if the state survived the restart unchanged.
    pub node_since: Now,
    /// The node: up while one address is up, drain if none is up and one drains, else down.
    pub node: Outcome,
    /// How many judged addresses are not up while the node is; 0 otherwise.
    pub partial: usize,
    /// Expected ports, ascending.
    pub ports: Vec<u16>,
    /// Families in use.
    pub families: Vec<Family>,
    /// Every judged address.
    pub addresses: Vec<AddressOutcome>,
    /// Every judged address × expected port.
    pub endpoints: Vec<EndpointOutcome>,
    /// Required conditions that could not be told since the agent started: counted as holding, shown loudly, and the
    /// reason why the agent itself is not ready.
    pub blind: Vec<Blind>,
    /// Every condition, in the order of [`crate::condition::ConditionType::ALL`], then by front.
    pub conditions: Vec<Condition>,
}
