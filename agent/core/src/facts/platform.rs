//! The cilium-agent's liveness, and a termination of Envoy on its way.

use serde::{Deserialize, Serialize};

use crate::time::Mono;

/// Liveness stamp of `cilium_runtime_config` index 1, and datapath drop counters of `cilium_metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CiliumAgent {
    /// `CLOCK_MONOTONIC` nanoseconds written every second by a live agent.
    pub stamp: Mono,
    /// `major.minor` of the running agent where it can be read, e.g. `(1, 19)`.
    pub version: Option<(u16, u16)>,
}

/// A TERM generated for the Envoy or an ancestor up to its container's init. Source: tracepoint `signal:signal_generate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Termination {
    /// The process that the signal was for.
    pub pid: u32,
    /// Kernel time of the signal.
    pub at: Mono,
}
