//! The transparent listeners that rules ask for: who takes what a `tproxy` of nft offers, and whom a `socket` match finds. Read only if there
//! is such a rule.

use std::collections::BTreeSet;

use gwready_core::net::Endpoint;
use gwready_core::netfilter::expr::Expr;
use gwready_core::netfilter::ruleset::Ruleset;
use gwready_core::netfilter::xt::XtMatch;

use super::follow::Wanted;
use crate::observe::sockets::SocketReader;

/// The ports whose listeners the rules ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Asked {
    /// Ports; empty: no rule asks for sockets.
    pub(super) ports: BTreeSet<u16>,
    /// A `tproxy` of nft is among the rules: it takes or leaves a connection by who listens, so an answer is good for one moment.
    /// What a `socket` match finds is the gateway's own listener, and how that is bound does not change from one moment to the next:
    /// the whole reading of every half minute is enough.
    pub(super) proxies: bool,
}

/// What the rules ask for. `wanted` are the connections that keep their port.
pub(super) fn asked_sockets(ruleset: &Ruleset, wanted: &Wanted) -> Asked {
    let mut asked = Asked::default();
    let own = || wanted.iter().map(|connection| connection.destination.port);
    for rule in ruleset.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules) {
        if rule.exprs.iter().any(|expr| matches!(expr, Expr::Tproxy { .. })) {
            asked.proxies = true;
            asked.ports.extend(own());
            asked.ports.extend(rule.exprs.iter().filter_map(|expr| match expr {
                Expr::Value { data, .. } => data.first_chunk::<2>().filter(|_| data.len() == 2).map(|bytes| u16::from_be_bytes(*bytes)),
                _ => None,
            }));
        }
        if rule.exprs.iter().any(|expr| matches!(expr, Expr::Socket { .. } | Expr::Match(XtMatch::Socket { .. }))) {
            asked.ports.extend(own());
        }
    }
    asked
}

/// The transparent listeners of these ports; none if they can't be read.
pub(super) fn transparent_listeners(reader: &mut SocketReader, ports: &BTreeSet<u16>) -> Option<Vec<Endpoint>> {
    let ports: Vec<u16> = ports.iter().copied().collect();
    let listeners = reader.read_listeners(&ports).ok()?;
    // An attribute that an old kernel does not send says nothing.
    let known = listeners.iter().all(|listener| listener.transparent.is_some());
    let transparent = listeners.iter().filter(|listener| listener.transparent == Some(true));
    known.then(|| transparent.map(|listener| Endpoint { address: listener.address, port: listener.port }).collect())
}
