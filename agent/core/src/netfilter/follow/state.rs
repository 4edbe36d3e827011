//! The packet on its way: what rules may change of it, and how its way can end.

use std::net::IpAddr;

use super::bits::{Doubt, Word};

/// A rule, or the policy of a chain, by its place in the ruleset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Site {
    pub(crate) table: usize,
    pub(crate) chain: usize,
    /// None: the policy.
    pub(crate) rule: Option<usize>,
}

/// Where a rule sends the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Target {
    pub(crate) address: Address,
    /// First and last port; none: any.
    pub(crate) ports: Option<(u16, u16)>,
    /// By TPROXY: the packet keeps its destination.
    pub(crate) proxy: bool,
}

/// The address of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    /// One of these.
    Range(IpAddr, IpAddr),
    /// One of this node's.
    Local,
    /// It can't be told.
    Unknown,
}

/// The packet does not go where it was going.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Taken {
    pub(crate) site: Site,
    pub(crate) to: Target,
}

/// The packet, as far as rules can change it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct State {
    pub(super) mark: Word,
    pub(super) ct_mark: Word,
    /// Destination address now; none = not known.
    pub(super) address: Option<IpAddr>,
    /// Destination port now.
    pub(super) port: Option<u16>,
    /// Taken from the endpoint.
    pub(super) taken: Option<Taken>,
    /// Exempt from connection tracking.
    pub(super) untracked: bool,
    /// A nat chain has decided on the destination; no other is asked on this hook.
    pub(super) translated: bool,
}

impl State {
    /// A new connection from the wire. Cilium's programs mark only what they send to a proxy port, and the maps tell that.
    pub(super) const fn fresh(address: IpAddr, port: u16) -> Self {
        Self {
            mark: Word::known(0),
            ct_mark: Word::known(0),
            address: Some(address),
            port: Some(port),
            taken: None,
            untracked: false,
            translated: false,
        }
    }
}

/// Where a packet stands after a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    /// At the next rule, or the next chain.
    Live,
    /// Back in the calling chain, or at the policy.
    Returned,
    /// Accepted by this base chain.
    Accepted,
}

/// What made an answer uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cause {
    /// An expression of a rule, by its number.
    Expression(Site, usize),
    /// Chains with one priority: the ruleset does not tell which comes first. One of them.
    Order(Site),
    /// More ways through the rules than are followed; here it was given up.
    TooMany(Site),
}

/// One way to end: of no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Dropped(Site),
    Redirected(Taken),
    Passed,
}

/// A doubt with its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uncertain {
    pub(super) doubt: Doubt,
    pub(super) cause: Cause,
}
