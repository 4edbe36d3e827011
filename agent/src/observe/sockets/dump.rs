//! The LISTEN dump with its ports filtered in the kernel. The kernel walks the listeners of every network namespace for it,
//! but sends only ours.

use std::collections::BTreeSet;

use gwready_core::decode::inet_diag_request::{MAX_FILTER_PORTS, TCPDIAG_GETSOCK, encode_listen_dump};
use gwready_core::decode::inet_diag_row::{Row, decode_row};
use gwready_core::facts::sockets::Listener;

use crate::observe::netlink::{Dumped, Exchange, NetlinkError, TRIES};

/// Every listener of these ports, both families, sorted.
pub(super) fn read_listeners(exchange: &mut Exchange, ports: &[u16]) -> Result<Vec<Listener>, NetlinkError> {
    let mut listeners = Vec::new();
    for ports in ports.chunks(MAX_FILTER_PORTS) {
        listeners.extend(read_chunk(exchange, ports)?);
    }
    listeners.sort_by_key(|l| (l.family, l.port, l.address, l.bound_if, l.id.cookie));
    Ok(listeners)
}

/// One dump. Between two datagrams the kernel lets go of the bucket it was in and resumes by position
/// (`inet_diag_dump_icsk`): a listener that leaves meanwhile can hide another, without `NLM_F_DUMP_INTR`. So an answer of
/// several datagrams counts only when two in a row name the same sockets.
fn read_chunk(exchange: &mut Exchange, ports: &[u16]) -> Result<Vec<Listener>, NetlinkError> {
    let Some(request) = encode_listen_dump(ports) else {
        return Ok(Vec::new());
    };
    let mut before: Option<BTreeSet<u64>> = None;
    for _ in 0..=TRIES {
        // A row that is no listener ceased to listen between the kernel's filter and the copy of it.
        let Dumped { items, datagrams } = exchange.dump(TCPDIAG_GETSOCK, &request, |_, body| decode_row(body).map(Row::into_listener))?;
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
