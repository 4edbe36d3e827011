//! The LISTEN dump with its ports filtered in the kernel. The kernel walks the listeners of every network namespace for it,
//! but sends only ours.

use std::collections::BTreeSet;

use gwready_core::decode::inet_diag_request::{MAX_FILTER_PORTS, SOCK_DIAG_BY_FAMILY, STATES_LISTEN, encode_dump};
use gwready_core::decode::inet_diag_row::{RowError, decode_row};
use gwready_core::facts::sockets::Listener;
use gwready_core::net::Family;
use rustix::io::Errno;

use crate::observe::netlink::{Dumped, Exchange, NetlinkError, TRIES};

/// Every listener of these ports, both families, sorted.
pub(super) fn read_listeners(exchange: &mut Exchange, ports: &[u16]) -> Result<Vec<Listener>, NetlinkError> {
    let mut listeners = Vec::new();
    for ports in ports.chunks(MAX_FILTER_PORTS) {
        for family in Family::ALL {
            match read_family(exchange, family, ports) {
                // A kernel without IPv6 has no handler for it, and no such listener.
                Err(NetlinkError::Refused(Errno::NOENT)) if family == Family::Ipv6 => {}
                other => listeners.extend(other?),
            }
        }
    }
    listeners.sort_by_key(|l| (l.family, l.port, l.address, l.bound_if, l.id.cookie));
    Ok(listeners)
}

/// One dump. Between two datagrams the kernel lets go of the bucket it was in and resumes by position
/// (`inet_diag_dump_icsk`): a listener that leaves meanwhile can hide another, without `NLM_F_DUMP_INTR`. So an answer of
/// several datagrams counts only when two in a row name the same sockets.
fn read_family(exchange: &mut Exchange, family: Family, ports: &[u16]) -> Result<Vec<Listener>, NetlinkError> {
    let Some(request) = encode_dump(family, STATES_LISTEN, ports) else {
        return Ok(Vec::new());
    };
    let mut before: Option<BTreeSet<u64>> = None;
    for _ in 0..=TRIES {
        let Dumped { items, datagrams } = exchange.dump(SOCK_DIAG_BY_FAMILY, &request, |_, body| {
            // None: it ceased to listen between the kernel's filter and the copy of its row.
            decode_row(body).map(gwready_core::decode::inet_diag_row::Row::into_listener) as Result<_, RowError>
        })?;
        if datagrams <= 1 {
            return Ok(items);
        }
        let cookies: BTreeSet<u64> = items.iter().map(|listener| listener.id.cookie).collect();
        if before.as_ref() == Some(&cookies) && cookies.len() == items.len() {
            return Ok(items);
        }
        before = Some(cookies);
    }
    Err(NetlinkError::Interrupted(TRIES))
}
