//! Results of the local probes. The prober runs apart from the pass; this is its table as of the pass.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::net::Endpoint;
use crate::time::Mono;

/// Who accepted the probe's connection, read from the kernel while it was open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceptor {
    /// A socket of this namespace.
    Local {
        /// Inode of the accepted end; 0 = not accepted yet.
        inode: u64,
        /// Mark inherited from the listener, where readable.
        mark: Option<u32>,
        /// Inode of the listener that the kernel's lookup picked for the probe's own source port just before it connected.
        listener: Option<u64>,
    },
    /// The kernel-side destination of the probe's own socket is not what it asked for: a socket load balancer translated it.
    Translated {
        /// Where it went, where that could be found.
        to: Option<(IpAddr, u16)>,
        /// Inode of the accepted end, if that is in this namespace.
        inode: Option<u64>,
        /// Mark of the accepted end, where readable.
        mark: Option<u32>,
    },
    /// The destination is as asked for, but no accepted end exists here: the connection left this namespace.
    Elsewhere,
    /// The question could not be asked, or there was no connection.
    Unknown,
}

/// How one probe ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// Answered by HTTP with this status.
    Answered {
        /// HTTP status.
        status: u16,
        /// The `server` header, raw text.
        server: Option<String>,
    },
    /// A ServerHello arrived.
    TlsAnswered {
        /// Expiry of the leaf certificate, seconds since the Unix epoch, where it could be read.
        not_after: Option<i64>,
    },
    /// Connection refused.
    Refused,
    /// Accepted, then reset or closed without an answer.
    Reset,
    /// No answer before the deadline.
    Timeout,
    /// The handshake failed with an alert, a wrong answer, or a close although the server name is one that Envoy serves.
    TlsFailed(String),
    /// The probe could not be run at all (local error).
    NotRun(String),
    /// The connection was accepted, and that is all that may be asked (no server name known, passthrough), or it may not be tried.
    NotJudgeable(String),
}

/// The last results of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Which endpoint.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// Result of the latest probe.
    pub outcome: ProbeOutcome,
    /// Who took it.
    pub acceptor: Acceptor,
    /// When it ended.
    pub at: Mono,
    /// How many probes in a row have failed, this one included; 0 after a success.
    pub failures: u32,
    /// No probe of this front has passed since the prober started: a failure counts in full.
    pub never_passed: bool,
    /// Server name that was asked for.
    pub server_name: Option<String>,
    /// Expected statuses of an explicit probe; empty for the built-in one.
    pub expect_status: Vec<u16>,
    /// Text that names an explicit probe (`host` and `path`), empty for the built-in one.
    pub explicit: String,
}

impl ProbeResult {
    /// Whether the latest probe failed as such, whoever took it. `NotRun` and `NotJudgeable` are no failures: they say nothing.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        match &self.outcome {
            ProbeOutcome::Refused | ProbeOutcome::Reset | ProbeOutcome::Timeout | ProbeOutcome::TlsFailed(_) => true,
            ProbeOutcome::Answered { status, .. } => !self.expect_status.is_empty() && !self.expect_status.contains(status),
            ProbeOutcome::TlsAnswered { .. } | ProbeOutcome::NotRun(_) | ProbeOutcome::NotJudgeable(_) => false,
        }
    }
}

/// All results.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeTable {
    /// The first round is over: every front was answered or ran into its deadline.
    pub first_round_done: bool,
    /// Latest results, by endpoint.
    pub results: Vec<ProbeResult>,
}
