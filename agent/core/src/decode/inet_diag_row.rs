//! Rows of `NETLINK_SOCK_DIAG`: `struct inet_diag_msg` and its attributes (`linux/inet_diag.h`) to facts.
//! An attribute that the kernel left out stays absent here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::inet_diag_attributes::{AttributeError, Attributes, u32_at, u64_at};
use crate::facts::sockets::{Listener, SocketId};
use crate::net::Family;

/// Length of `struct inet_diag_msg`.
const ROW: usize = 72;
/// `INET_DIAG_SKMEMINFO`: array of `u32`, see `SK_MEMINFO_*` in `linux/sock_diag.h`.
const SKMEMINFO: u16 = 7;
/// `SK_MEMINFO_DROPS`: index into that array.
const SKMEMINFO_DROPS: usize = 8;
/// `INET_DIAG_SKV6ONLY`: `u8`.
const SKV6ONLY: u16 = 11;
/// `INET_DIAG_MARK`: `u32`, only with `CAP_NET_ADMIN`.
const MARK: u16 = 15;
/// `INET_DIAG_CGROUP_ID`: `u64`.
const CGROUP_ID: u16 = 21;
/// `INET_DIAG_SOCKOPT`: `struct inet_diag_sockopt`, bit fields.
const SOCKOPT: u16 = 22;
/// `inet_diag_sockopt.transparent`: sixth bit field of the first byte.
const SOCKOPT_TRANSPARENT: u8 = if cfg!(target_endian = "little") { 1 << 5 } else { 1 << 2 };

/// State of a TCP socket (`net/tcp_states.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpState {
    /// `TCP_ESTABLISHED`.
    Established,
    /// `TCP_SYN_SENT`.
    SynSent,
    /// `TCP_SYN_RECV` or `TCP_NEW_SYN_RECV`: the handshake is not over.
    SynRecv,
    /// `TCP_FIN_WAIT1`, `TCP_FIN_WAIT2`, `TCP_CLOSING`, `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`: being closed, still a socket.
    Closing,
    /// `TCP_TIME_WAIT`.
    TimeWait,
    /// `TCP_LISTEN`.
    Listen,
    /// `TCP_CLOSE` or a state this agent does not know.
    Other(u8),
}

impl From<u8> for TcpState {
    fn from(state: u8) -> Self {
        match state {
            1 => Self::Established,
            2 => Self::SynSent,
            3 | 12 => Self::SynRecv,
            4 | 5 | 8 | 9 | 11 => Self::Closing,
            6 => Self::TimeWait,
            10 => Self::Listen,
            other => Self::Other(other),
        }
    }
}

/// A row that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Shorter than `struct inet_diag_msg`.
    #[error("inet_diag row of {0} bytes, {ROW} expected")]
    Short(usize),
    /// Neither `AF_INET` nor `AF_INET6`.
    #[error("inet_diag row of address family {0}")]
    Family(u8),
    /// A known attribute is shorter than its type.
    #[error("inet_diag attribute {kind} has {length} bytes")]
    Attribute {
        /// `INET_DIAG_*`.
        kind: u16,
        /// Length of its payload.
        length: usize,
    },
    /// The attributes do not add up.
    #[error(transparent)]
    Attributes(#[from] AttributeError),
}

/// One TCP socket as sock_diag shows it. The attribute fields mean the same as in [`Listener`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Inode and cookie.
    pub id: SocketId,
    /// Family of the socket itself.
    pub family: Family,
    /// State.
    pub state: TcpState,
    /// Local end, as the row has it.
    pub local: SocketAddr,
    /// Remote end, as the row has it; unspecified for a listener.
    pub remote: SocketAddr,
    /// `SO_BINDTODEVICE`; 0 = none.
    pub bound_if: u32,
    /// LISTEN: connections to be accepted; else bytes to be read.
    pub receive_queue: u32,
    /// LISTEN: backlog limit; else bytes not yet acknowledged.
    pub write_queue: u32,
    /// Owner uid.
    pub uid: u32,
    /// `SO_MARK`.
    pub mark: Option<u32>,
    /// `IPV6_V6ONLY`.
    pub v6only: Option<bool>,
    /// `IP_TRANSPARENT`.
    pub transparent: Option<bool>,
    /// cgroup v2 id.
    pub cgroup_id: Option<u64>,
    /// `SK_MEMINFO_DROPS`.
    pub drops: Option<u32>,
}

impl Row {
    /// The row as a listener; none in any other state than LISTEN.
    #[must_use]
    pub fn into_listener(self) -> Option<Listener> {
        (self.state == TcpState::Listen).then_some(Listener {
            id: self.id,
            family: self.family,
            address: self.local.ip(),
            port: self.local.port(),
            bound_if: self.bound_if,
            v6only: self.v6only,
            uid: self.uid,
            mark: self.mark,
            transparent: self.transparent,
            cgroup_id: self.cgroup_id,
            queue_length: self.receive_queue,
            queue_limit: self.write_queue,
            drops: self.drops,
        })
    }
}

/// Decodes the body of one `SOCK_DIAG_BY_FAMILY` message.
///
/// # Errors
/// [`RowError`] for bytes that are not such a row; no part of it is used then.
pub fn decode_row(body: &[u8]) -> Result<Row, RowError> {
    let (fixed, attributes) = body.split_first_chunk::<ROW>().ok_or(RowError::Short(body.len()))?;
    let u32_in = |offset| u32_at(fixed, offset).unwrap_or_default();
    let family = match fixed[0] {
        2 => Family::Ipv4,
        10 => Family::Ipv6,
        other => return Err(RowError::Family(other)),
    };
    let mut row = Row {
        id: SocketId { inode: u64::from(u32_in(68)), cookie: u64::from(u32_in(44)) | u64::from(u32_in(48)) << 32 },
        family,
        state: TcpState::from(fixed[1]),
        local: SocketAddr::new(address_at(fixed, 8, family), u16::from_be_bytes([fixed[4], fixed[5]])),
        remote: SocketAddr::new(address_at(fixed, 24, family), u16::from_be_bytes([fixed[6], fixed[7]])),
        bound_if: u32_in(40),
        receive_queue: u32_in(56),
        write_queue: u32_in(60),
        uid: u32_in(64),
        mark: None,
        v6only: None,
        transparent: None,
        cgroup_id: None,
        drops: None,
    };
    for attribute in Attributes::new(attributes) {
        let (kind, payload) = attribute?;
        let short = RowError::Attribute { kind, length: payload.len() };
        match kind {
            MARK => row.mark = Some(u32_at(payload, 0).ok_or(short)?),
            SKV6ONLY => row.v6only = Some(*payload.first().ok_or(short)? != 0),
            SOCKOPT => row.transparent = Some(payload.first().ok_or(short)? & SOCKOPT_TRANSPARENT != 0),
            CGROUP_ID => row.cgroup_id = Some(u64_at(payload, 0).ok_or(short)?),
            // The array grew over time: a kernel that does not count drops is not a broken row.
            SKMEMINFO => row.drops = u32_at(payload, SKMEMINFO_DROPS * 4),
            _ => {}
        }
    }
    Ok(row)
}

/// `__be32[4]` at `offset`; IPv4 uses the first.
fn address_at(fixed: &[u8; ROW], offset: usize, family: Family) -> IpAddr {
    let mut octets = [0; 16];
    if let Some(bytes) = fixed.get(offset..offset.saturating_add(16)) {
        octets.copy_from_slice(bytes);
    }
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::from(octets)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::inet_diag_attributes::push_attribute;
    use super::*;

    fn fixed(family: u8, state: u8) -> Vec<u8> {
        let mut body = vec![family, state, 0, 0, 0x01, 0xbb, 0, 0];
        let mut source = [0; 16];
        source[..4].copy_from_slice(&[10, 0, 0, 11]);
        body.extend_from_slice(&source);
        body.extend_from_slice(&[0; 16]);
        for word in [3u32, 0x11, 0x22, 0, 5, 4096, 1337, 77_001] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        body
    }

    fn with(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = fixed(2, 10);
        for (kind, payload) in attributes {
            assert!(push_attribute(&mut body, *kind, payload));
        }
        body
    }

    #[test]
    fn every_fixed_field_lands_in_its_place() {
        let listener = decode_row(&fixed(2, 10)).unwrap().into_listener().unwrap();
        assert_eq!(
            listener,
            Listener {
                id: SocketId { inode: 77_001, cookie: 0x22_0000_0011 },
                family: Family::Ipv4,
                address: "10.0.0.11".parse().unwrap(),
                port: 443,
                bound_if: 3,
                v6only: None,
                uid: 1337,
                mark: None,
                transparent: None,
                cgroup_id: None,
                queue_length: 5,
                queue_limit: 4096,
                drops: None,
            }
        );
    }

    #[test]
    fn absent_attributes_stay_absent_and_zero_is_a_value() {
        let absent = decode_row(&with(&[])).unwrap();
        assert_eq!((absent.mark, absent.transparent, absent.cgroup_id, absent.drops), (None, None, None, None));
        let zero = decode_row(&with(&[(15, &[0; 4]), (22, &[0; 2]), (21, &[0; 8]), (7, &[0; 36]), (11, &[0])])).unwrap();
        assert_eq!((zero.mark, zero.transparent, zero.cgroup_id, zero.drops), (Some(0), Some(false), Some(0), Some(0)));
        assert_eq!(zero.v6only, Some(false));
    }

    #[test]
    fn attributes_carry_mark_transparent_cgroup_drops_and_v6only() {
        let mut memory = [0; 36];
        memory[32..].copy_from_slice(&9u32.to_ne_bytes());
        let mark = 0xb00u32.to_ne_bytes();
        let cgroup = 0x1_0000_0007u64.to_ne_bytes();
        let row = decode_row(&with(&[(7, &memory), (15, &mark), (21, &cgroup), (22, &[0b10_0000, 0]), (11, &[1]), (99, b"new")]));
        let row = row.unwrap();
        assert_eq!((row.drops, row.mark, row.cgroup_id), (Some(9), Some(0xb00), Some(0x1_0000_0007)));
        assert_eq!((row.transparent, row.v6only), (Some(true), Some(true)));
    }

    #[test]
    fn other_option_bits_are_not_taken_for_transparent() {
        assert_eq!(decode_row(&with(&[(22, &[0b1101_1111, 0xff])])).unwrap().transparent, Some(false));
    }

    #[test]
    fn ipv6_addresses_are_kept_as_bound_mapped_ones_too() {
        let mut body = fixed(10, 10);
        let mapped: Ipv6Addr = "::ffff:10.0.0.11".parse().unwrap();
        body[8..24].copy_from_slice(&mapped.octets());
        let row = decode_row(&body).unwrap();
        assert_eq!(row.local.ip(), IpAddr::V6(mapped));
        assert_eq!(row.family, Family::Ipv6);
    }

    #[test]
    fn only_listen_is_a_listener() {
        for state in (0..=13).filter(|&state| state != 10) {
            assert_eq!(decode_row(&fixed(2, state)).unwrap().into_listener(), None, "state {state}");
        }
    }

    #[test]
    fn rows_that_are_none_are_errors() {
        assert_eq!(decode_row(&[0; 71]), Err(RowError::Short(71)));
        assert_eq!(decode_row(&fixed(1, 10)), Err(RowError::Family(1)));
        assert_eq!(decode_row(&with(&[(15, &[1, 2])])), Err(RowError::Attribute { kind: 15, length: 2 }));
        let mut cut = with(&[(15, &[0; 4])]);
        cut.truncate(78);
        assert!(matches!(decode_row(&cut), Err(RowError::Attributes(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_row_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode_row(&bytes);
        }

        #[test]
        fn any_attributes_give_a_row_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400), v6 in any::<bool>()) {
            let mut body = fixed(if v6 { 10 } else { 2 }, 10);
            body.extend_from_slice(&bytes);
            let _ = decode_row(&body);
        }
    }
}
