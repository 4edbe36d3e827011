//! Facts: what one observation found, as plain data. No judgement here; a source that could not be read says so.
//!
//! Every source is a [`Reading`]: observed with the window of its read, or unavailable with a reason, or not read yet.

pub mod addresses;
pub mod envoy;
pub mod platform;
pub mod probes;
pub mod processes;
pub mod queues;
pub mod sockets;
pub mod steering;

use serde::{Deserialize, Serialize};

use crate::lb::facts::LbFacts;
use crate::time::Window;

/// Why a source could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The kernel or file system refused.
    Permission,
    /// It does not exist on this node.
    Absent,
    /// It exists in a layout this agent does not know.
    Layout,
    /// No answer before the deadline.
    Deadline,
    /// It changed while it was read, more often than the retries allow.
    Interrupted,
    /// Any other error; the detail says which.
    Failed,
}

impl Why {
    /// The word used as metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Absent => "absent",
            Self::Layout => "layout",
            Self::Deadline => "deadline",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// A failed read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// The kind of failure.
    pub why: Why,
    /// One sentence for a person, raw text.
    pub detail: String,
    /// When the read was tried.
    pub window: Window,
}

/// One source at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// Not read since start.
    #[default]
    NotRead,
    /// Read completely.
    Observed {
        /// What was found.
        value: T,
        /// When.
        window: Window,
    },
    /// Could not be read; the last good value is gone on purpose: missing beats wrong.
    Unavailable(Unavailable),
}

impl<T> Reading<T> {
    /// The value, if the source was read.
    #[must_use]
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Observed { value, .. } => Some(value),
            Self::NotRead | Self::Unavailable(_) => None,
        }
    }

    /// When the last read happened, good or not.
    #[must_use]
    pub const fn window(&self) -> Option<Window> {
        match self {
            Self::NotRead => None,
            Self::Observed { window, .. } => Some(*window),
            Self::Unavailable(unavailable) => Some(unavailable.window),
        }
    }

    /// The failure, if the last read failed.
    #[must_use]
    pub const fn unavailable(&self) -> Option<&Unavailable> {
        match self {
            Self::Unavailable(unavailable) => Some(unavailable),
            Self::NotRead | Self::Observed { .. } => None,
        }
    }
}

/// A drain that an operator asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRequest {
    /// Who asked: uid and, where it is known, the login name.
    pub by: String,
    /// Why, as given, raw text.
    pub reason: String,
    /// When it was asked, milliseconds since the Unix epoch (survives a restart of the agent).
    pub asked_unix_ms: u64,
    /// When it ends by itself; none = until `undrain`.
    pub until_unix_ms: Option<u64>,
}

/// Everything one pass knows. Serialised as it is into snapshot files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Local addresses, links and default routes.
    pub addresses: Reading<addresses::AddressTable>,
    /// The kernel's listener lookups and LISTEN rows.
    pub sockets: Reading<sockets::SocketTable>,
    /// Close samples of suspected accept queues, since the last pass.
    pub queues: queues::QueueSamples,
    /// Who holds the sockets, and the Envoys of this namespace.
    pub owners: Reading<processes::Owners>,
    /// Cilium's load-balancer maps, as far as the expected endpoints touch them.
    pub lb: LbFacts,
    /// sk_lookup programs on this namespace's hook.
    pub steering: Reading<steering::SkLookupPrograms>,
    /// Rules and routes of the TPROXY path.
    pub tproxy: Reading<steering::TproxyRoutes>,
    /// Netfilter's answer for the expected endpoints.
    pub netfilter: Reading<steering::NetfilterFacts>,
    /// The cilium-agent's liveness stamp.
    pub cilium_agent: Reading<platform::CiliumAgent>,
    /// Envoy's admin interface.
    pub envoy: Reading<envoy::EnvoyAdmin>,
    /// Results of the probes.
    pub probes: Reading<probes::ProbeTable>,
    /// TERM seen on its way to the Envoy or its starter (eBPF only).
    pub terminating: Option<platform::Termination>,
    /// The operator's drain.
    pub drain: Option<DrainRequest>,
}
