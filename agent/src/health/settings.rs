//! What the health port is told by the configuration, ready to use.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How a node that is not up answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unready {
    /// 503 with the state line.
    #[default]
    Status,
    /// Close without a byte, whatever was asked: for monitors with an empty receive string, which take any byte for up.
    Close,
}

/// Where to listen and how to answer.
#[derive(Debug, Clone)]
pub struct HealthSettings {
    /// Health port. An unspecified IPv6 address serves IPv4 too, and falls back to 0.0.0.0 where there is no IPv6.
    pub listen: SocketAddr,
    /// HAProxy agent-check port, if any.
    pub agent_check: Option<SocketAddr>,
    /// How a node that is not up answers.
    pub unready: Unready,
    /// Bounds on what a client may cost.
    pub limits: Limits,
    /// Run first on the serving thread: drops its capabilities.
    pub on_thread_start: Option<fn()>,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 9680)),
            agent_check: None,
            unready: Unready::default(),
            limits: Limits::default(),
            on_thread_start: None,
        }
    }
}

/// What the agent has open without any client (maps, programs, netlink, processes): 56 were counted on a node at work.
const OWN_DESCRIPTORS: u64 = 80;

/// So many connections may be open in any case: with fewer, a flood would push out a probe that has not asked yet.
const FEWEST: usize = 16;

/// Bounds on what a client may cost. The defaults are documented in `docs/load-balancers.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once; for one more, the peer that holds most loses the one that would have expired next.
    pub connections: usize,
    /// From accept to the end of the request.
    pub header_timeout: Duration,
    /// A request whose last blank line is missing is answered this long after its last byte.
    pub quiet: Duration,
    /// How long a client may take to close after it was answered.
    pub drain: Duration,
    /// Bytes read and thrown away after the answer.
    pub drain_bytes: usize,
    /// Wait after an accept that failed for want of descriptors or memory.
    pub accept_pause: Duration,
    /// How long a retiring agent waits for a successor to take over.
    pub retire_patience: Duration,
    /// From being steered away to closing: time for handshakes under way.
    pub retire_grace: Duration,
    /// How long a retiring agent serves connections it has accepted.
    pub finish: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            header_timeout: Duration::from_secs(5),
            quiet: Duration::from_millis(200),
            drain: Duration::from_secs(2),
            drain_bytes: 256 * 1024,
            accept_pause: Duration::from_millis(10),
            retire_patience: Duration::from_secs(2),
            retire_grace: Duration::from_millis(50),
            finish: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// Lowers the connection limit to half of the descriptors that the agent does not need itself, so that a flood leaves the
    /// observer its own.
    #[must_use]
    pub fn within_descriptors(mut self, soft_limit: u64) -> Self {
        let half = usize::try_from(soft_limit.saturating_sub(OWN_DESCRIPTORS) / 2).unwrap_or(usize::MAX);
        self.connections = self.connections.min(half.max(FEWEST));
        self
    }
}
