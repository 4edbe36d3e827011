//! Conditions: typed statements about a front or the node, with status, reason, message, evidence and the addresses they concern.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::net::Front;
use crate::reason::Reason;
use crate::time::Mono;

/// What a condition states. Names follow Kubernetes conditions: True is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionType {
    /// Node: the socket source was read within `stale_after`.
    Observed,
    /// Node: one cilium-envoy runs here, not draining, terminating or restarting in a loop.
    EnvoyLive,
    /// Front: for every judged address the kernel's own lookup finds a listener.
    Listening,
    /// Front: that socket, and every member of its group, belongs to one live cilium-envoy.
    OwnedByEnvoy,
    /// Front: nothing between the wire and that socket takes new connections.
    NotIntercepted,
    /// Front: queues move and the owner is not stopped.
    Accepting,
    /// Front: the local probe was answered by Envoy.
    Responding,
    /// Node: the way to the L7 proxy ports is complete.
    TproxyPath,
    /// Node, advisory: Envoy took its last listener update and is connected to its control plane.
    ConfigCurrent,
    /// Node, advisory: the cilium-agent's liveness stamp is fresh.
    CiliumAgentAlive,
    /// Node: nobody asked for a drain.
    InService,
}

impl ConditionType {
    /// Every type, in the order of tables and documents.
    pub const ALL: [Self; 11] = [
        Self::Observed,
        Self::EnvoyLive,
        Self::Listening,
        Self::OwnedByEnvoy,
        Self::NotIntercepted,
        Self::Accepting,
        Self::Responding,
        Self::TproxyPath,
        Self::ConfigCurrent,
        Self::CiliumAgentAlive,
        Self::InService,
    ];

    /// The word, as it stands in configuration and every output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observed => "Observed",
            Self::EnvoyLive => "EnvoyLive",
            Self::Listening => "Listening",
            Self::OwnedByEnvoy => "OwnedByEnvoy",
            Self::NotIntercepted => "NotIntercepted",
            Self::Accepting => "Accepting",
            Self::Responding => "Responding",
            Self::TproxyPath => "TproxyPath",
            Self::ConfigCurrent => "ConfigCurrent",
            Self::CiliumAgentAlive => "CiliumAgentAlive",
            Self::InService => "InService",
        }
    }

    /// The type with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// True for conditions judged per front, false for those of the node.
    #[must_use]
    pub const fn is_per_front(self) -> bool {
        matches!(self, Self::Listening | Self::OwnedByEnvoy | Self::NotIntercepted | Self::Accepting | Self::Responding)
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Three-valued truth. Unknown is never folded into one of the others before the verdict step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Proven.
    True,
    /// Disproven.
    False,
    /// Evidence is missing.
    Unknown,
}

impl Status {
    /// All three, in the order of the metric labels.
    pub const ALL: [Self; 3] = [Self::True, Self::False, Self::Unknown];

    /// Lower-case word, as in metric labels and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Unknown => "unknown",
        }
    }
}

/// Named facts behind a finding, e.g. `thief` → `nginx[412]`. Ordered, so that output is stable.
/// Values are raw: whoever prints them passes them through [`crate::render::text::sanitise`].
pub type Evidence = BTreeMap<String, String>;

/// What one judge says of one subject (an endpoint, or the node): the unit that memory and policy work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What is stated.
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: Status,
    /// Why not, or a remark on a True (`NotUsed`).
    pub reason: Option<Reason>,
    /// One sentence for a person, raw text.
    pub message: String,
    /// Structured facts behind it.
    pub evidence: Evidence,
    /// Only for Unknown: what was proven before was about something that is gone (another socket), so a remembered True
    /// no longer counts.
    #[serde(default)]
    pub lapses: bool,
    /// Only for Unknown: what is seen speaks against the statement, though it does not prove the contrary. Counts as a False that is
    /// remembered, also where nothing was ever known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disproves: bool,
    /// Only for Unknown, where a condition joins several sources: reasons whose own source was read and no longer shows them, so that a
    /// remembered False for one of these no longer counts though another source is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refutes: Vec<Reason>,
}

impl Finding {
    /// The statement holds.
    #[must_use]
    pub fn holds(kind: ConditionType) -> Self {
        Self {
            kind,
            status: Status::True,
            reason: None,
            message: String::new(),
            evidence: Evidence::new(),
            lapses: false,
            disproves: false,
            refutes: Vec::new(),
        }
    }

    /// The statement is disproven, for this reason.
    #[must_use]
    pub fn fails(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Status::False,
            reason: Some(reason),
            message: message.into(),
            evidence: Evidence::new(),
            lapses: false,
            disproves: false,
            refutes: Vec::new(),
        }
    }

    /// Evidence is missing, for this reason.
    #[must_use]
    pub fn unknown(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Status::Unknown,
            reason: Some(reason),
            message: message.into(),
            evidence: Evidence::new(),
            lapses: false,
            disproves: false,
            refutes: Vec::new(),
        }
    }

    /// Marks that earlier proof no longer applies.
    #[must_use]
    pub const fn lapsing(mut self) -> Self {
        self.lapses = true;
        self
    }

    /// Marks that earlier proof no longer applies, and that the absence of any is no excuse.
    #[must_use]
    pub const fn disproving(mut self) -> Self {
        self.disproves = true;
        self.lapsing()
    }

    /// Marks reasons that no longer hold, whatever else is unknown.
    #[must_use]
    pub fn refuting(mut self, reasons: impl IntoIterator<Item = Reason>) -> Self {
        self.refutes.extend(reasons);
        self
    }

    /// Adds one fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.evidence.insert(name.to_owned(), value.to_string());
        self
    }
}

/// The addresses a condition concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Concern {
    /// Every judged address (of the family, for a front condition).
    All,
    /// These only.
    Some(Vec<IpAddr>),
}

/// One condition as published: findings of a front's addresses joined, or a node's finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What is stated.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// The front, or none for a condition of the node.
    pub front: Option<Front>,
    /// Whether it holds: False if it fails for any address, else Unknown if unknown for any.
    pub status: Status,
    /// Most causal reason among the addresses that have this status.
    pub reason: Option<Reason>,
    /// One sentence for a person, raw text.
    pub message: String,
    /// Structured facts behind it.
    pub evidence: Evidence,
    /// Which addresses have this status.
    pub addresses: Concern,
    /// When status and reason last changed.
    pub since: Mono,
}
