//! Requests to `NETLINK_SOCK_DIAG` for TCP: `struct inet_diag_req_v2` and the port filter program (`linux/inet_diag.h`).
//! Bodies only: the netlink header belongs to the exchange that sends them.

use std::net::{IpAddr, SocketAddr};

use super::inet_diag_attributes::push_attribute;
use crate::net::Family;

/// `SOCK_DIAG_BY_FAMILY`: netlink message type of requests and rows.
pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `TCPDIAG_GETSOCK`: the older message type of requests and rows, `struct inet_diag_req`. Its dumps are of both families in
/// one walk (`inet_diag_dump_compat` asks for `AF_UNSPEC`, which the newer request can't).
pub const TCPDIAG_GETSOCK: u16 = 18;
/// Most ports that a dump filters for in one request.
pub const MAX_FILTER_PORTS: usize = 1024;

/// State mask of LISTEN alone.
pub const STATES_LISTEN: u32 = 1 << 10;
/// State mask of every state that has a socket behind it (all but TIME_WAIT, NEW_SYN_RECV and CLOSE).
pub const STATES_CONNECTED: u32 = 0b0011_1111 & !1 | 1 << 8 | 1 << 9 | 1 << 11;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// `INET_DIAG_SKMEMINFO` as a bit of `idiag_ext` (bit number = extension - 1).
const EXT_SKMEMINFO: u8 = 1 << 6;
/// `INET_DIAG_REQ_BYTECODE`.
const REQ_BYTECODE: u16 = 1;
/// `INET_DIAG_BC_JMP`.
const BC_JMP: u8 = 1;
/// `INET_DIAG_BC_S_EQ` (Linux 4.16).
const BC_S_EQ: u8 = 11;
/// `INET_DIAG_NOCOOKIE`, both halves.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// `struct inet_diag_sockid`, as far as a request names it.
struct SockId {
    local: SocketAddr,
    remote: SocketAddr,
    ifindex: u32,
}

fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.extend_from_slice(&v4.octets());
            out.extend_from_slice(&[0; 12]);
        }
        IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
    }
}

fn encode(family: u8, states: u32, id: Option<&SockId>) -> Vec<u8> {
    let mut out = Vec::with_capacity(56);
    out.extend_from_slice(&[family, IPPROTO_TCP, EXT_SKMEMINFO, 0]);
    out.extend_from_slice(&states.to_ne_bytes());
    if let Some(id) = id {
        out.extend_from_slice(&id.local.port().to_be_bytes());
        out.extend_from_slice(&id.remote.port().to_be_bytes());
        push_address(&mut out, id.local.ip());
        push_address(&mut out, id.remote.ip());
        out.extend_from_slice(&id.ifindex.to_ne_bytes());
    } else {
        out.resize(out.len() + 40, 0);
    }
    out.extend_from_slice(&NO_COOKIE);
    out
}

/// The question "which socket gets a segment from `remote` to `local` that arrives on `ifindex`?" (without `NLM_F_DUMP`).
///
/// The kernel answers with the row its own `inet_lookup` or `inet6_lookup` finds (`inet_diag_find_one_icsk`): an existing
/// connection of that tuple, else the listener, `sk_lookup` programs included; `ENOENT` when there is none.
/// A v4-mapped address is asked as the IPv4 address that is on the wire. Mixed families have no answer: none.
#[must_use]
pub fn encode_lookup(local: SocketAddr, remote: SocketAddr, ifindex: u32) -> Option<Vec<u8>> {
    let local = SocketAddr::new(local.ip().to_canonical(), local.port());
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    let family = match (local, remote) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => AF_INET,
        (SocketAddr::V6(_), SocketAddr::V6(_)) => AF_INET6,
        _ => return None,
    };
    Some(encode(family, u32::MAX, Some(&SockId { local, remote, ifindex })))
}

/// Dump of the sockets of `family` in any state of `states` whose local port is one of `ports`, filtered in the kernel.
///
/// None for no port at all or more than [`MAX_FILTER_PORTS`]: never a dump without a filter.
#[must_use]
pub fn encode_dump(family: Family, states: u32, ports: &[u16]) -> Option<Vec<u8>> {
    let family = match family {
        Family::Ipv4 => AF_INET,
        Family::Ipv6 => AF_INET6,
    };
    let filter = encode_port_filter(ports)?;
    let mut out = encode(family, states, None);
    push_attribute(&mut out, REQ_BYTECODE, &filter).then_some(out)
}

/// Dump of the listeners of both families whose local port is one of `ports`, filtered in the kernel; goes out as
/// [`TCPDIAG_GETSOCK`]. Half the cost of two dumps by family: the walk is over the listeners of every network namespace.
///
/// None for no port at all or more than [`MAX_FILTER_PORTS`].
#[must_use]
pub fn encode_listen_dump(ports: &[u16]) -> Option<Vec<u8>> {
    let filter = encode_port_filter(ports)?;
    // struct inet_diag_req: family, two prefix lengths, idiag_ext; 48 bytes of id that a dump ignores; states; tables.
    let mut out = vec![0, 0, 0, EXT_SKMEMINFO];
    out.resize(out.len() + 48, 0);
    out.extend_from_slice(&STATES_LISTEN.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    push_attribute(&mut out, REQ_BYTECODE, &filter).then_some(out)
}

/// Filter program "local port is one of `ports`", for `inet_diag_bc_run`.
///
/// Every operation jumps forward by `yes` or `no` bytes; the row passes when the end is reached exactly, and is left out
/// when a jump goes beyond it (`inet_diag_bc_audit` allows four bytes). Per port: compare (8 bytes, the port in the `no`
/// field of a second operation), then a jump to the end; a mismatch skips that jump. The last port needs no jump.
fn encode_port_filter(ports: &[u16]) -> Option<Vec<u8>> {
    if ports.is_empty() || ports.len() > MAX_FILTER_PORTS {
        return None;
    }
    let mut out = Vec::with_capacity(ports.len() * 12);
    let mut later = ports.len();
    for port in ports {
        later -= 1;
        push_operation(&mut out, BC_S_EQ, 8, 12);
        push_operation(&mut out, 0, 0, *port);
        if later > 0 {
            // From this jump to the end: itself, then 12 bytes per later port but 8 for the last.
            push_operation(&mut out, BC_JMP, 4, u16::try_from(later * 12).ok()?);
        }
    }
    Some(out)
}

/// `struct inet_diag_bc_op`.
fn push_operation(out: &mut Vec<u8>, code: u8, yes: u8, no: u16) {
    out.extend_from_slice(&[code, yes]);
    out.extend_from_slice(&no.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::inet_diag_attributes::{Attributes, u16_at};
    use super::*;

    /// `inet_diag_bc_run` (net/ipv4/inet_diag.c) for the two operations used here.
    fn passes(program: &[u8], port: u16) -> bool {
        let mut at = 0;
        while at < program.len() {
            let yes = match program[at] {
                BC_S_EQ => u16_at(program, at + 6) == Some(port),
                BC_JMP => false,
                other => panic!("operation {other}"),
            };
            at += if yes { usize::from(program[at + 1]) } else { usize::from(u16_at(program, at + 2).unwrap()) };
        }
        at == program.len()
    }

    /// `inet_diag_bc_audit`: jumps are aligned, go forward, end at most four bytes behind the end and hit an operation.
    fn audit(program: &[u8]) {
        let mut starts = Vec::new();
        let mut at = 0;
        while at < program.len() {
            starts.push(at);
            at += usize::from(program[at + 1]);
        }
        assert_eq!(at, program.len(), "the yes chain walks every operation");
        for &start in &starts {
            let no = usize::from(u16_at(program, start + 2).unwrap());
            let left = program.len() - start;
            assert!(no >= 4 && no <= left + 4 && no.is_multiple_of(4), "no={no} left={left}");
            assert!(no >= left || starts.contains(&(start + no)), "a jump hits an operation");
        }
    }

    proptest! {
        #[test]
        fn the_filter_lets_pass_the_listed_ports_and_no_other(
            ports in proptest::collection::vec(any::<u16>(), 1..60),
            other in any::<u16>(),
        ) {
            let program = encode_port_filter(&ports).unwrap();
            audit(&program);
            for port in &ports {
                prop_assert!(passes(&program, *port));
            }
            prop_assert_eq!(passes(&program, other), ports.contains(&other));
        }
    }

    #[test]
    fn the_longest_filter_is_valid_and_one_more_is_refused() {
        let ports: Vec<u16> = (1..=1024).collect();
        let program = encode_port_filter(&ports).unwrap();
        audit(&program);
        assert!(passes(&program, 1) && passes(&program, 1024) && !passes(&program, 1025));
        assert_eq!(encode_port_filter(&(1..=1025).collect::<Vec<_>>()), None);
    }

    #[test]
    fn no_port_is_never_a_dump_of_everything() {
        assert_eq!(encode_dump(Family::Ipv4, STATES_LISTEN, &[]), None);
        assert_eq!(encode_listen_dump(&[]), None);
    }

    #[test]
    fn a_dump_carries_family_states_and_the_filter_as_bytecode() {
        let body = encode_dump(Family::Ipv6, STATES_LISTEN, &[80, 443]).unwrap();
        assert_eq!(body[..4], [10, 6, 64, 0]);
        assert_eq!(body[4..8], 1024u32.to_ne_bytes());
        let attributes: Vec<_> = Attributes::new(&body[56..]).map(Result::unwrap).collect();
        assert_eq!(attributes, [(1, encode_port_filter(&[80, 443]).unwrap().as_slice())]);
    }

    #[test]
    fn a_listen_dump_is_the_older_request_with_the_same_filter() {
        let body = encode_listen_dump(&[80, 443]).unwrap();
        assert_eq!(body[..4], [0, 0, 0, 64]);
        assert_eq!(body[52..56], 1024u32.to_ne_bytes());
        let attributes: Vec<_> = Attributes::new(&body[60..]).map(Result::unwrap).collect();
        assert_eq!(attributes, [(1, encode_port_filter(&[80, 443]).unwrap().as_slice())]);
    }

    #[test]
    fn a_lookup_has_the_local_end_as_source_and_no_cookie() {
        let body = encode_lookup("10.0.0.11:80".parse().unwrap(), "198.51.100.1:40000".parse().unwrap(), 3).unwrap();
        assert_eq!(body.len(), 56);
        assert_eq!(body[0], AF_INET);
        assert_eq!(body[8..12], [0, 80, 156, 64]);
        assert_eq!(body[12..16], [10, 0, 0, 11]);
        assert_eq!(body[28..32], [198, 51, 100, 1]);
        assert_eq!(body[44..48], 3u32.to_ne_bytes());
        assert_eq!(body[48..], [0xff; 8]);
    }

    #[test]
    fn a_mapped_address_is_asked_as_ipv4_and_mixed_families_not_at_all() {
        let remote = "198.51.100.1:1".parse().unwrap();
        assert_eq!(
            encode_lookup("[::ffff:10.0.0.11]:80".parse().unwrap(), remote, 0),
            encode_lookup("10.0.0.11:80".parse().unwrap(), remote, 0)
        );
        assert_eq!(encode_lookup("[fd00::1]:80".parse().unwrap(), remote, 0), None);
    }

    #[test]
    fn connected_states_leave_out_those_without_a_socket_and_listen() {
        let out: Vec<u32> = (1..=12).filter(|state| STATES_CONNECTED & (1 << state) == 0).collect();
        assert_eq!(out, [6, 7, 10, 12], "TIME_WAIT, CLOSE, LISTEN, NEW_SYN_RECV");
    }
}
