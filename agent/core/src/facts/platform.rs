//! The cilium-agent's liveness and version, its drop counters, and a termination of Envoy on its way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::lb::settings::{Generation, Settings};
use crate::time::Mono;

/// Liveness stamp of `cilium_runtime_config` index 1, and what files below `<run_dir>/state` tell of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CiliumAgent {
    /// `CLOCK_MONOTONIC` nanoseconds written every second by a live agent; 0 = never written.
    pub stamp: Mono,
    /// `major.minor` of the running agent where it can be read, e.g. `(1, 19)`.
    pub version: Option<(u16, u16)>,
    /// 1.17 and 1.18: whether keys carry the real protocol, where `node_config.h` tells.
    pub protocol_differentiation: Option<bool>,
}

impl CiliumAgent {
    /// The rule's settings, as far as they are known; the newest generation where the version is not.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let generation = self.version.map_or(Settings::default().generation, |(major, minor)| Generation::of_release(major, minor));
        Settings { protocol_differentiation: self.protocol_differentiation.unwrap_or(true), ..Settings::of(generation) }
    }
}

/// Packets that the datapath dropped since the map was made, by reason label (`lb::metrics::LABELS`). Source: `cilium_metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DatapathDrops {
    /// Packets per label; a label that is not here counted none.
    pub packets: BTreeMap<String, u64>,
}

/// A TERM generated for the Envoy or an ancestor up to its container's init. Source: tracepoint `signal:signal_generate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Termination {
    /// The process that the signal was for.
    pub pid: u32,
    /// Kernel time of the signal.
    pub at: Mono,
}
