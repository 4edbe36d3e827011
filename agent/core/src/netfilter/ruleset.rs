//! Tables, chains and rules of one network namespace: nf_tables and legacy iptables in one shape, so that one follower serves both.
//!
//! # How a decoder fills it
//!
//! **nf_tables** (`net/netfilter/nf_tables_api.c`, `linux/netfilter/nf_tables.h`): one [`Table`] per `NFT_MSG_NEWTABLE` of family ip, ip6,
//! inet or netdev, in the order of the dump. Chains, sets and rules go into their table. Rules keep the order of the dump, which is the
//! order of evaluation; their `position` attribute is not needed. An expression that the decoder does not know becomes
//! [`Expr::Unknown`] with its name; an attribute that is missing where the kernel always sends one is an error of the read, not a
//! guess. Rules of one generation only: a dump that was interrupted (`NLM_F_DUMP_INTR`) or whose generation id changed is no ruleset.
//!
//! **iptables-nft** is nf_tables: its matches and targets come as expressions `match` and `target` ([`Expr::Match`], [`Expr::Target`],
//! bytes of `NFTA_MATCH_INFO` and `NFTA_TARGET_INFO`); everything else, `-j ACCEPT` too, comes as native expressions.
//!
//! **Legacy iptables** (`IPT_SO_GET_ENTRIES`, `linux/netfilter_ipv4/ip_tables.h`, and ip6): one [`Table`] per table raw, mangle, nat, filter,
//! security that is loaded, with [`Table::legacy`] true. The blob is cut into chains at the hook entries, and at the `ERROR` targets
//! that name user chains. A built-in chain is a base chain with its `policy` (the standard verdict of its underflow entry, which is
//! no rule of the chain) and the priority of its table and hook ([`legacy_priority`]). A user chain's closing `RETURN` is no rule either.
//! Each entry is a [`Rule`]: first one [`Expr::Entry`] (left out if it restricts nothing), then [`Expr::Match`] for each match, then the
//! target. A standard target is an [`Expr::Immediate`] with a verdict: -`NF_ACCEPT`-1 accept, -`NF_DROP`-1 drop, `XT_RETURN` return, an
//! offset a jump (or a goto with `IPT_F_GOTO`) to the chain at that offset, the offset of the next entry nothing at all. Any other
//! target is an [`Expr::Target`]. `handle` of a legacy rule is its number in its chain, from 1, as `iptables -L --line-numbers` counts.

use serde::{Deserialize, Serialize};

use super::expr::Expr;
use super::set::Set;

/// All rules that can touch a connection on its way in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ruleset {
    /// Tables in the order in which they were read; legacy ones may come first or last.
    pub tables: Vec<Table>,
}

/// Family of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableFamily {
    /// `NFPROTO_IPV4`.
    Ip,
    /// `NFPROTO_IPV6`.
    Ip6,
    /// `NFPROTO_INET`: both.
    Inet,
    /// `NFPROTO_NETDEV`: ingress of single devices.
    Netdev,
}

impl TableFamily {
    /// From `nfgen_family`. None for families that the model leaves out (arp, bridge): skip their tables.
    #[must_use]
    pub const fn from_kernel(nfproto: u8) -> Option<Self> {
        match nfproto {
            1 => Some(Self::Inet),
            2 => Some(Self::Ip),
            5 => Some(Self::Netdev),
            10 => Some(Self::Ip6),
            _ => None,
        }
    }

    /// The word that nft uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Inet => "inet",
            Self::Netdev => "netdev",
        }
    }
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Family.
    pub family: TableFamily,
    /// Name, raw text.
    pub name: String,
    /// `NFT_TABLE_F_DORMANT`: its base chains are not registered.
    pub dormant: bool,
    /// A table of legacy iptables.
    pub legacy: bool,
    /// Chains, in the order of the dump.
    pub chains: Vec<Chain>,
    /// Sets and maps.
    pub sets: Vec<Set>,
}

/// One chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Name, unique in its table (also of an anonymous chain of `jump { … }`).
    pub name: String,
    /// `NFTA_CHAIN_HANDLE`; 0 for legacy chains.
    pub handle: u64,
    /// What makes it a base chain; none for a chain that is only jumped to.
    pub base: Option<BaseChain>,
    /// Rules in order of evaluation.
    pub rules: Vec<Rule>,
}

/// The hook that a base chain hangs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseChain {
    /// Hook.
    pub hook: Hook,
    /// `NFTA_HOOK_PRIORITY`; ascending is the order of evaluation.
    pub priority: i32,
    /// `NFTA_CHAIN_TYPE`.
    pub kind: ChainKind,
    /// What happens at the end of the chain.
    pub policy: Policy,
    /// Devices of an ingress hook (`NFTA_HOOK_DEV`, `NFTA_HOOK_DEVS`); empty elsewhere.
    pub devices: Vec<String>,
}

/// A hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// `NF_NETDEV_INGRESS`, `NF_INET_INGRESS`.
    Ingress,
    /// `NF_INET_PRE_ROUTING`.
    Prerouting,
    /// `NF_INET_LOCAL_IN`.
    Input,
    /// Forward, output, postrouting, egress: not on the way in.
    Other,
}

impl Hook {
    /// From `NFTA_HOOK_HOOKNUM`, whose meaning depends on the family (`linux/netfilter.h`).
    #[must_use]
    pub const fn from_kernel(family: TableFamily, number: u32) -> Self {
        match (family, number) {
            (TableFamily::Netdev, 0) | (TableFamily::Inet, 5) => Self::Ingress,
            (TableFamily::Netdev, _) => Self::Other,
            (_, 0) => Self::Prerouting,
            (_, 1) => Self::Input,
            _ => Self::Other,
        }
    }
}

/// Type of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainKind {
    /// `filter`, and any type that is not known.
    Filter,
    /// `nat`: sees the first packet of a connection, until one chain has translated it.
    Nat,
    /// `route`.
    Route,
}

/// Policy of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// `NF_ACCEPT`; also where the kernel sends none.
    Accept,
    /// `NF_DROP`.
    Drop,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rule {
    /// `NFTA_RULE_HANDLE`; of a legacy rule its number in its chain.
    pub handle: u64,
    /// Expressions in order.
    pub exprs: Vec<Expr>,
    /// `comment` of nft (`NFTNL_UDATA_RULE_COMMENT` in `NFTA_RULE_USERDATA`, without the closing zero), raw text; none if there is none.
    /// The comment of iptables is a match: [`super::xt::XtMatch::Comment`].
    pub comment: Option<String>,
}

/// Priority of a legacy table on a hook (`linux/netfilter_ipv4.h`; the same numbers in IPv6). None: the table has no chain there.
#[must_use]
pub fn legacy_priority(table: &str, hook: Hook) -> Option<i32> {
    match (table, hook) {
        ("raw", Hook::Prerouting) => Some(-300),
        ("mangle", Hook::Prerouting | Hook::Input) => Some(-150),
        ("nat", Hook::Prerouting) => Some(-100),
        ("filter", Hook::Input) => Some(0),
        ("security", Hook::Input) => Some(50),
        ("nat", Hook::Input) => Some(100),
        _ => None,
    }
}
