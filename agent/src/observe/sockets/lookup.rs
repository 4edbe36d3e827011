//! The exact lookup: the kernel's own answer to "which socket gets this SYN?", for clients that do not exist.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use gwready_core::decode::inet_diag_request::{SOCK_DIAG_BY_FAMILY, encode_lookup};
use gwready_core::decode::inet_diag_row::{Row, decode_row};
use gwready_core::facts::sockets::{Group, Listener, Lookup};
use gwready_core::net::Endpoint;
use rustix::io::Errno;

use crate::observe::netlink::{Exchange, NetlinkError, TRIES};

/// The made-up IPv4 client: TEST-NET-2 (RFC 5737), never a real one.
pub const MADE_UP_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
/// The made-up IPv6 client: documentation prefix (RFC 3849).
pub const MADE_UP_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// First made-up source port. The ports are fixed, so that the same table gives the same answer.
const FIRST_SOURCE_PORT: u16 = 33_000;
/// Distance between source ports; leaves room for the ones tried instead of a port that is in use.
const SOURCE_PORT_STEP: u16 = 127;
/// Lookups for a group whose members look like those of one process, over all its endpoints: the rows tell who they are.
const LOOKUPS_ALIKE: u16 = 4;
/// Lookups for a group of members that differ: enough to tell shares of some per cent.
const LOOKUPS_MIXED: u16 = 64;

#[derive(Clone, Copy)]
struct Question {
    endpoint: Endpoint,
    ingress_if: u32,
    source_port: u16,
}

/// One lookup of the kernel's: local end, made-up remote end, interface on which the SYN arrives.
pub(super) type Tuple = (SocketAddr, SocketAddr, u32);

/// Listeners by `SO_REUSEPORT` group.
pub(super) type Groups<'a> = HashMap<Group, Vec<&'a Listener>>;

pub(super) fn groups_of(listeners: &[Listener]) -> Groups<'_> {
    let mut groups = Groups::new();
    for listener in listeners {
        groups.entry(listener.group()).or_default().push(listener);
    }
    groups
}

/// One lookup per endpoint, more where the picked socket is a member of a group or of another port.
pub(super) fn read_lookups(
    exchange: &mut Exchange,
    endpoints: impl Iterator<Item = (Endpoint, u32)>,
    listeners: &[Listener],
) -> Result<Vec<Lookup>, NetlinkError> {
    let groups = groups_of(listeners);
    let first: Vec<Question> =
        endpoints.map(|(endpoint, ingress_if)| Question { endpoint, ingress_if, source_port: FIRST_SOURCE_PORT }).collect();
    let answered = ask(exchange, first)?;
    let mut endpoints_of: HashMap<Group, u16> = HashMap::new();
    for picked in answered.iter().filter_map(|lookup| lookup.picked.as_ref()) {
        *endpoints_of.entry(picked.group()).or_default() += 1;
    }
    let mut further = Vec::new();
    for lookup in &answered {
        let Some(picked) = &lookup.picked else { continue };
        let found_by = endpoints_of.get(&picked.group()).copied().unwrap_or(1);
        for n in 1..lookups_for(picked, &lookup.endpoint, &groups, found_by) {
            further.push(Question { endpoint: lookup.endpoint, ingress_if: lookup.ingress_if, source_port: source_port(n) });
        }
    }
    let mut lookups = answered;
    lookups.extend(ask(exchange, further)?);
    let position: HashMap<Endpoint, usize> = lookups.iter().enumerate().rev().map(|(at, lookup)| (lookup.endpoint, at)).collect();
    lookups.sort_by_key(|lookup| (position.get(&lookup.endpoint).copied(), lookup.source_port));
    Ok(lookups)
}

/// How many source ports an endpoint needs, by the socket that its first one found, which so many endpoints found.
fn lookups_for(picked: &Listener, endpoint: &Endpoint, groups: &Groups<'_>, found_by: u16) -> u16 {
    if picked.port != endpoint.port {
        // An sk_lookup program chose it: what it does with other clients can't be told from one.
        return LOOKUPS_MIXED;
    }
    let members = groups.get(&picked.group()).map_or(&[][..], Vec::as_slice);
    let traits = |l: &Listener| (l.uid, l.cgroup_id, l.mark, l.transparent);
    match members {
        [] | [_] => 1,
        [first, rest @ ..] if rest.iter().all(|member| traits(member) == traits(first)) => LOOKUPS_ALIKE.div_ceil(found_by),
        _ => LOOKUPS_MIXED,
    }
}

/// Asks all questions, in their order. A made-up client whose connection exists says nothing about listeners: another source
/// port is tried.
fn ask(exchange: &mut Exchange, mut questions: Vec<Question>) -> Result<Vec<Lookup>, NetlinkError> {
    let mut rows = ask_rows(exchange, &questions)?;
    for _ in 0..TRIES {
        let taken: Vec<usize> =
            rows.iter().enumerate().filter(|(_, row)| row.as_ref().is_some_and(is_connection)).map(|(at, _)| at).collect();
        if taken.is_empty() {
            break;
        }
        for &at in &taken {
            if let Some(question) = questions.get_mut(at) {
                question.source_port = question.source_port.saturating_add(1);
            }
        }
        let again: Vec<Question> = taken.iter().filter_map(|&at| questions.get(at).copied()).collect();
        for (&at, row) in taken.iter().zip(ask_rows(exchange, &again)?) {
            if let Some(slot) = rows.get_mut(at) {
                *slot = row;
            }
        }
    }
    if rows.iter().flatten().any(is_connection) {
        return Err(NetlinkError::Interrupted(TRIES));
    }
    let lookup = |(question, row): (Question, Option<Row>)| Lookup {
        endpoint: question.endpoint,
        ingress_if: question.ingress_if,
        source_port: question.source_port,
        picked: row.and_then(Row::into_listener),
    };
    Ok(questions.into_iter().zip(rows).map(lookup).collect())
}

pub(super) fn is_connection(row: &Row) -> bool {
    row.state != gwready_core::decode::inet_diag_row::TcpState::Listen
}

fn ask_rows(exchange: &mut Exchange, questions: &[Question]) -> Result<Vec<Option<Row>>, NetlinkError> {
    let tuples: Vec<Tuple> = questions.iter().map(|q| tuple(q.endpoint, q.ingress_if, q.source_port)).collect();
    read_rows(exchange, &tuples)
}

/// The question for a made-up client of `endpoint`.
pub(super) const fn tuple(endpoint: Endpoint, ingress_if: u32, source_port: u16) -> Tuple {
    let client = match endpoint.address {
        IpAddr::V4(_) => MADE_UP_V4,
        IpAddr::V6(_) => MADE_UP_V6,
    };
    (SocketAddr::new(endpoint.address, endpoint.port), SocketAddr::new(client, source_port), ingress_if)
}

/// The `n`-th made-up source port.
pub(super) const fn source_port(n: u16) -> u16 {
    FIRST_SOURCE_PORT.saturating_add(n.saturating_mul(SOURCE_PORT_STEP))
}

/// The socket of exactly this tuple, else its listener.
pub(super) fn read_row(exchange: &mut Exchange, local: SocketAddr, remote: SocketAddr, ifindex: u32) -> Result<Option<Row>, NetlinkError> {
    Ok(read_rows(exchange, &[(local, remote, ifindex)])?.pop().flatten())
}

/// As [`read_row`], many at once: (local, remote, interface).
pub(super) fn read_rows(exchange: &mut Exchange, tuples: &[Tuple]) -> Result<Vec<Option<Row>>, NetlinkError> {
    let mixed = || NetlinkError::Malformed("local and remote address of different families".to_owned());
    let requests: Result<Vec<_>, _> =
        tuples.iter().map(|(local, remote, ifindex)| encode_lookup(*local, *remote, *ifindex).ok_or_else(mixed)).collect();
    let answers = exchange.ask(SOCK_DIAG_BY_FAMILY, &requests?, |_, body| decode_row(body))?;
    answers
        .into_iter()
        .map(|answer| match answer {
            Ok(row) => Ok(Some(row)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(NetlinkError::Refused(errno)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use gwready_core::facts::sockets::SocketId;

    use super::*;

    fn listener(cookie: u64, address: &str, mark: Option<u32>) -> Listener {
        let address: IpAddr = address.parse().unwrap();
        Listener { mark, ..Listener::bound_to(SocketId { inode: cookie, cookie }, SocketAddr::new(address, 80)) }
    }

    fn count(picked: &Listener, port: u16, listeners: &[Listener]) -> u16 {
        lookups_for(picked, &Endpoint { address: "10.0.0.11".parse().unwrap(), port }, &groups_of(listeners), 1)
    }

    #[test]
    fn the_endpoints_of_a_group_alike_share_its_lookups() {
        let group = [listener(1, "0.0.0.0", None), listener(2, "0.0.0.0", None)];
        let endpoint = Endpoint { address: "10.0.0.11".parse().unwrap(), port: 80 };
        let count = |found_by| lookups_for(&group[0], &endpoint, &groups_of(&group), found_by);
        assert_eq!([1, 2, 3, 4, 100].map(count), [4, 2, 2, 1, 1]);
    }

    #[test]
    fn a_socket_alone_needs_one_lookup() {
        let alone = listener(1, "0.0.0.0", None);
        let elsewhere = listener(2, "10.0.0.11", None);
        assert_eq!(count(&alone, 80, &[alone.clone(), elsewhere]), 1);
    }

    #[test]
    fn members_alike_need_few_and_members_that_differ_need_many() {
        let (a, b, c) = (listener(1, "0.0.0.0", Some(0xb00)), listener(2, "0.0.0.0", Some(0xb00)), listener(3, "0.0.0.0", Some(0)));
        assert_eq!(count(&a, 80, &[a.clone(), b.clone()]), LOOKUPS_ALIKE);
        assert_eq!(count(&a, 80, &[a.clone(), b, c]), LOOKUPS_MIXED);
    }

    #[test]
    fn v6only_and_dual_stack_are_no_group() {
        let only = Listener { v6only: Some(true), ..listener(1, "::", None) };
        let dual = Listener { v6only: Some(false), ..listener(2, "::", None) };
        assert_eq!(count(&only, 80, &[only.clone(), dual]), 1);
    }

    #[test]
    fn a_socket_of_another_port_was_chosen_by_a_program_and_needs_many() {
        let other = listener(1, "0.0.0.0", None);
        assert_eq!(count(&other, 443, &[]), LOOKUPS_MIXED);
    }

    #[test]
    fn every_source_port_and_its_replacements_are_different() {
        let last = FIRST_SOURCE_PORT + (LOOKUPS_MIXED - 1) * SOURCE_PORT_STEP;
        assert!(u32::from(SOURCE_PORT_STEP) > TRIES);
        assert!(last.checked_add(SOURCE_PORT_STEP).is_some());
    }
}
