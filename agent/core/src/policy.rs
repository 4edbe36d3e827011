//! Policy: the effective configuration of the judgement. The agent crate reads and validates the file; this is the result.

use std::collections::BTreeMap;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::condition::ConditionType;
use crate::net::Family;

/// How the gateway gets its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Envoy listens on the node's own ports.
    #[default]
    HostNetwork,
    /// Cilium's datapath redirects load-balancer frontends to Envoy's proxy ports (TPROXY).
    LoadBalancer,
}

/// A list given by the operator, or learnt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice<T> {
    /// Learn it from the node.
    #[default]
    Auto,
    /// Exactly these.
    Only(Vec<T>),
}

/// One entry of `addresses.include` or `addresses.exclude`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressMatch {
    /// Addresses within this network.
    Net(IpNet),
    /// Addresses of this interface.
    Interface(String),
}

/// Whether a condition that is False takes the node out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requirement {
    /// False means down.
    Required,
    /// Shown, logged and counted only.
    Advisory,
}

/// What a condition that was True becomes when it stays Unknown for longer than `hold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// Still counts as True, loudly.
    Open,
    /// Counts as False.
    Closed,
}

/// Everything the judge needs to know besides facts. Defaults are DESIGN 4.5.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How the gateway gets its traffic.
    pub mode: Mode,
    /// Expected ports.
    pub ports: Choice<u16>,
    /// Families that are judged.
    pub families: Choice<Family>,
    /// Addresses judged besides the automatic ones.
    pub include: Vec<AddressMatch>,
    /// Addresses never judged; wins over `include`.
    pub exclude: Vec<AddressMatch>,
    /// Base name of the Envoy executable.
    pub envoy_exe: String,
    /// Everything must hold this long before a recovery counts.
    pub min_up: Duration,
    /// How long an Unknown keeps the last known status before `unknown` decides.
    pub hold: Duration,
    /// Age of the socket source at which `Observed` turns False.
    pub stale_after: Duration,
    /// How long a non-empty queue may stand still.
    pub queue_grace: Duration,
    /// Whether the built-in probes run.
    pub probe_enabled: bool,
    /// Consecutive probe failures that count.
    pub probe_fall: u32,
    /// Overrides of [`Policy::default_requirement`].
    pub require: BTreeMap<ConditionType, Requirement>,
    /// Overrides of [`Policy::default_fallback`].
    pub unknown: BTreeMap<ConditionType, Fallback>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            ports: Choice::Auto,
            families: Choice::Auto,
            include: Vec::new(),
            exclude: Vec::new(),
            envoy_exe: "cilium-envoy".to_owned(),
            min_up: Duration::from_secs(2),
            hold: Duration::from_secs(30),
            stale_after: Duration::from_secs(5),
            queue_grace: Duration::from_secs(2),
            probe_enabled: true,
            probe_fall: 3,
            require: BTreeMap::new(),
            unknown: BTreeMap::new(),
        }
    }
}

impl Policy {
    /// Requirement of a condition where the operator says nothing.
    #[must_use]
    pub const fn default_requirement(mode: Mode, kind: ConditionType) -> Requirement {
        match (kind, mode) {
            (ConditionType::ConfigCurrent | ConditionType::CiliumAgentAlive, _) | (ConditionType::TproxyPath, Mode::HostNetwork) => {
                Requirement::Advisory
            }
            _ => Requirement::Required,
        }
    }

    /// Fallback of a condition where the operator says nothing: closed for the two that prove who serves, else open.
    #[must_use]
    pub const fn default_fallback(kind: ConditionType) -> Fallback {
        match kind {
            ConditionType::Listening | ConditionType::OwnedByEnvoy => Fallback::Closed,
            _ => Fallback::Open,
        }
    }

    /// Effective requirement.
    #[must_use]
    pub fn requirement(&self, kind: ConditionType) -> Requirement {
        self.require.get(&kind).copied().unwrap_or_else(|| Self::default_requirement(self.mode, kind))
    }

    /// Effective fallback.
    #[must_use]
    pub fn fallback(&self, kind: ConditionType) -> Fallback {
        self.unknown.get(&kind).copied().unwrap_or_else(|| Self::default_fallback(kind))
    }
}
