//! Who takes what a `tproxy` of nft offers: the transparent listeners of the ports that such rules name. Read only if there is one.

use std::collections::BTreeSet;

use gwready_core::net::Endpoint;
use gwready_core::netfilter::expr::Expr;
use gwready_core::netfilter::ruleset::Ruleset;

use super::follow::Wanted;
use crate::observe::sockets::SocketReader;

/// Ports that a `tproxy` may lead to; empty: no rule has one. `wanted` are the ports of connections that keep theirs.
pub(super) fn proxy_ports(ruleset: &Ruleset, wanted: &Wanted) -> BTreeSet<u16> {
    let mut ports = BTreeSet::new();
    for rule in ruleset.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules) {
        if !rule.exprs.iter().any(|expr| matches!(expr, Expr::Tproxy { .. })) {
            continue;
        }
        ports.extend(wanted.iter().map(|connection| connection.destination.port));
        ports.extend(rule.exprs.iter().filter_map(|expr| match expr {
            Expr::Value { data, .. } => data.first_chunk::<2>().filter(|_| data.len() == 2).map(|bytes| u16::from_be_bytes(*bytes)),
            _ => None,
        }));
    }
    ports
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
