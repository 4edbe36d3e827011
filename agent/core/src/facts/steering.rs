//! Steering besides the LB maps: sk_lookup programs, the TPROXY rule and route, netfilter.

use serde::{Deserialize, Serialize};

use crate::net::{Endpoint, Family};

/// Programs on the sk_lookup hook of this network namespace. Source: `BPF_PROG_QUERY` (needs `CAP_NET_ADMIN`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SkLookupPrograms {
    /// Kernel program ids, in the order in which they run.
    pub ids: Vec<u32>,
}

/// The way of marked packets to the proxy, per family. Source: rtnetlink.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TproxyRoutes {
    /// Families that have the rule `fwmark 0x200/0xf00 lookup 2004`.
    pub rule: Vec<Family>,
    /// Families whose table 2004 has a `local default dev lo`.
    pub route: Vec<Family>,
}

/// What netfilter does with a new connection to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetfilterPath {
    /// Reaches the socket.
    Passes,
    /// Goes elsewhere, for sure.
    Redirected {
        /// Where to, as text.
        to: String,
        /// The rule as `nft list ruleset` shows it, with table, chain and handle.
        rule: String,
    },
    /// Is dropped for every client, for sure.
    Dropped {
        /// The rule, as above.
        rule: String,
    },
    /// Can't be told.
    Unclear {
        /// The expression that could not be decided, and its rule.
        because: String,
    },
}

/// Netfilter's answer per endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetfilterFacts {
    /// One entry per judged endpoint.
    pub paths: Vec<(Endpoint, NetfilterPath)>,
}
