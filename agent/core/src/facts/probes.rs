//! Results of the local probes. The prober runs apart from the pass; this is its table as of the pass.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::net::Endpoint;
use crate::time::Mono;

/// Who accepted the probe's connection, read from the kernel while it was open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceptor {
    /// A socket of this namespace with this inode and mark.
    Local {
        /// Inode of the accepted end; 0 = not accepted yet.
        inode: u64,
        /// Mark inherited from the listener, where readable.
        mark: Option<u32>,
    },
    /// No accepted end here: the connection left this namespace.
    Elsewhere {
        /// Where the kernel says it went.
        peer: Option<(IpAddr, u16)>,
    },
    /// The question could not be asked.
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
    /// The handshake failed with an alert or a wrong answer.
    TlsFailed(String),
    /// The probe could not be run at all (local error).
    NotRun(String),
    /// There is nothing to ask for on this port (TLS without a known server name, passthrough).
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
    /// Server name that was asked for.
    pub server_name: Option<String>,
    /// Expected statuses of an explicit probe; empty for the built-in one.
    pub expect_status: Vec<u16>,
    /// Text that names an explicit probe (`host` and `path`), empty for the built-in one.
    pub explicit: String,
}

/// All results.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeTable {
    /// The first round is over: every front was answered or ran into its deadline.
    pub first_round_done: bool,
    /// Latest results, by endpoint.
    pub results: Vec<ProbeResult>,
}
