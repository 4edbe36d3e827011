//! Steering besides the LB maps: sk_lookup programs, the TPROXY path, netfilter.

use serde::{Deserialize, Serialize};

use crate::facts::sockets::Listener;
use crate::net::{Endpoint, Family};

/// Programs on the sk_lookup hook of this network namespace. Source: `BPF_PROG_QUERY` (needs `CAP_NET_ADMIN`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SkLookupPrograms {
    /// Kernel program ids, in the order in which they run.
    pub ids: Vec<u32>,
}

/// The way of marked packets to the proxy, per family. Source: rtnetlink, and the kernel's own listener lookup.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TproxyRoutes {
    /// Families that have the rule `fwmark 0x200/0xf00 lookup 2004`.
    pub rule: Vec<Family>,
    /// Families whose table 2004 has a `local default dev lo`.
    pub route: Vec<Family>,
    /// Who listens on the proxy ports in use. A port that is not here was not looked up.
    pub proxies: Vec<ProxyLookup>,
}

impl TproxyRoutes {
    /// The lookup of one proxy port, if it was made.
    #[must_use]
    pub fn proxy(&self, family: Family, port: u16) -> Option<&ProxyLookup> {
        self.proxies.iter().find(|proxy| proxy.family == family && proxy.port == port)
    }
}

/// What the kernel's listener lookup answers for 127.0.0.1 (or ::1) and a proxy port: the same question that the TPROXY target
/// asks (`net/netfilter/xt_TPROXY.c`, `on-ip` of Cilium's rules), so a specific bind wins over a wildcard one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyLookup {
    /// Family of the clients.
    pub family: Family,
    /// Proxy port.
    pub port: u16,
    /// The socket that the target would hand the connection to.
    pub picked: Option<Listener>,
}

/// What netfilter does with a new connection to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetfilterPath {
    /// Reaches the socket.
    Passes,
    /// Reaches the socket for some clients, for sure; others are dropped or sent elsewhere (by their address, a rate, a limit).
    PassesForSome {
        /// What happens to the others, and the rule.
        but: String,
    },
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
