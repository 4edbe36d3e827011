//! Keys and values of `cilium_lb4_services_v2` and `cilium_lb6_services_v2`. Source: Cilium `bpf/lib/lb.h` (`lb4_key`, `lb4_service`).
//!
//! Addresses, the port and the rev-nat index are in network order; slot and counts in host order. The L7 proxy port is in network
//! order, whatever the comment in the C header says (seen in real rows: port 80 is `00 50 00 00`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::net::Family;

/// Key of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceKey {
    /// Frontend address; its variant is the family of the map.
    pub address: IpAddr,
    /// Frontend port.
    pub port: u16,
    /// L4 protocol number; 0 on every row of 1.16 and on wildcard rows.
    pub protocol: u8,
    /// 0 = external, 1 = internal (never consulted for packets from the wire).
    pub scope: u8,
    /// 0 = the frontend itself ("master"), 1… = its backend slots.
    pub slot: u16,
    /// Padding; a row whose padding is not zero is found by nobody.
    pub pad: u16,
}

impl ServiceKey {
    /// The external master key of a frontend.
    #[must_use]
    pub const fn master(address: IpAddr, port: u16, protocol: u8) -> Self {
        Self { address, port, protocol, scope: 0, slot: 0, pad: 0 }
    }

    /// The wildcard key of an address: port 0, protocol 0 (consulted from 1.19 on).
    #[must_use]
    pub const fn wildcard(address: IpAddr) -> Self {
        Self::master(address, 0, 0)
    }

    /// The surrogate key (0.0.0.0 or ::) of a port. Never consulted from the wire, but by bind and by the socket load balancer.
    #[must_use]
    pub const fn surrogate(family: Family, port: u16, protocol: u8) -> Self {
        let address = match family {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self::master(address, port, protocol)
    }

    /// The same frontend's key with another slot.
    #[must_use]
    pub const fn with_slot(mut self, slot: u16) -> Self {
        self.slot = slot;
        self
    }

    /// Decodes a key of the IPv4 map.
    #[must_use]
    pub fn decode_v4(bytes: &[u8; 12]) -> Self {
        let [a0, a1, a2, a3, tail @ ..] = *bytes;
        Self::decode_tail(IpAddr::from([a0, a1, a2, a3]), tail)
    }

    /// Decodes a key of the IPv6 map.
    #[must_use]
    pub fn decode_v6(bytes: &[u8; 24]) -> Self {
        let (address, tail) = split::<24, 16, 8>(bytes);
        Self::decode_tail(IpAddr::from(address), tail)
    }

    fn decode_tail(address: IpAddr, [p0, p1, s0, s1, protocol, scope, x0, x1]: [u8; 8]) -> Self {
        Self {
            address,
            port: u16::from_be_bytes([p0, p1]),
            slot: u16::from_ne_bytes([s0, s1]),
            protocol,
            scope,
            pad: u16::from_ne_bytes([x0, x1]),
        }
    }

    /// Encodes for the IPv4 map; none if the address is not IPv4.
    #[must_use]
    pub fn encode_v4(&self) -> Option<[u8; 12]> {
        let IpAddr::V4(address) = self.address else { return None };
        Some(join::<4, 8, 12>(address.octets(), self.encode_tail()))
    }

    /// Encodes for the IPv6 map; none if the address is not IPv6.
    #[must_use]
    pub fn encode_v6(&self) -> Option<[u8; 24]> {
        let IpAddr::V6(address) = self.address else { return None };
        Some(join::<16, 8, 24>(address.octets(), self.encode_tail()))
    }

    const fn encode_tail(&self) -> [u8; 8] {
        let [p0, p1] = self.port.to_be_bytes();
        let [s0, s1] = self.slot.to_ne_bytes();
        let [x0, x1] = self.pad.to_ne_bytes();
        [p0, p1, s0, s1, self.protocol, self.scope, x0, x1]
    }
}

/// Bits of `flags` (`SVC_FLAG_*`).
pub mod flag {
    /// Type bit: externalIPs.
    pub const EXTERNAL_IP: u8 = 0x01;
    /// Type bit: NodePort.
    pub const NODEPORT: u8 = 0x02;
    /// `externalTrafficPolicy: Local`.
    pub const EXT_LOCAL_SCOPE: u8 = 0x04;
    /// Type bit: HostPort.
    pub const HOSTPORT: u8 = 0x08;
    /// Session affinity.
    pub const AFFINITY: u8 = 0x10;
    /// Type bit: LoadBalancer.
    pub const LOADBALANCER: u8 = 0x20;
    /// Reachable from outside.
    pub const ROUTABLE: u8 = 0x40;
    /// Source ranges are checked.
    pub const SOURCE_RANGE: u8 = 0x80;
}

/// Bits of `flags2` (`SVC_FLAG_*`, shifted down by eight).
pub mod flag2 {
    /// Type bit: local redirect policy.
    pub const LOCAL_REDIRECT: u8 = 0x01;
    /// Redirected to an L7 proxy port.
    pub const L7_LOADBALANCER: u8 = 0x04;
    /// HostPort: loopback host address. Other types, from 1.18 on: punt to the stack if the backend is local.
    pub const LOOPBACK_OR_DELEGATE: u8 = 0x08;
    /// `internalTrafficPolicy: Local`.
    pub const INT_LOCAL_SCOPE: u8 = 0x10;
    /// A scope 1 row exists as well.
    pub const TWO_SCOPES: u8 = 0x20;
    /// On a master, from 1.17 on: the source ranges deny instead of allow.
    pub const SOURCE_RANGE_DENY: u8 = 0x40;
}

/// What kind of service a row belongs to. Exactly one type bit is set in rows of Cilium's own writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ServiceKind {
    /// A pod's hostPort.
    HostPort,
    /// A NodePort service.
    NodePort,
    /// An address in `externalIPs`.
    ExternalIP,
    /// A LoadBalancer ingress address.
    LoadBalancer,
    /// A local redirect policy.
    LocalRedirect,
    /// None of the type bits.
    ClusterIP,
}

impl ServiceKind {
    /// The word in messages and evidence.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HostPort => "HostPort",
            Self::NodePort => "NodePort",
            Self::ExternalIP => "ExternalIP",
            Self::LoadBalancer => "LoadBalancer",
            Self::LocalRedirect => "LocalRedirect",
            Self::ClusterIP => "ClusterIP",
        }
    }
}

/// Value of one row, master or slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    /// Bytes 0..4, whose meaning depends on the row: see [`Service::backend_id`] and [`Service::proxy_port`].
    pub union: [u8; 4],
    /// Masters: number of usable slots.
    pub count: u16,
    /// Rev-nat index: the service's number, also the key of its source ranges.
    pub rev_nat: u16,
    /// See [`flag`].
    pub flags: u8,
    /// See [`flag2`].
    pub flags2: u8,
    /// Masters, from 1.17 on: quarantined slots. Padding before.
    pub quarantined: u16,
}

impl Service {
    /// Decodes a value of either map.
    #[must_use]
    pub const fn decode(bytes: &[u8; 12]) -> Self {
        let [u0, u1, u2, u3, c0, c1, r0, r1, flags, flags2, q0, q1] = *bytes;
        Self {
            union: [u0, u1, u2, u3],
            count: u16::from_ne_bytes([c0, c1]),
            rev_nat: u16::from_be_bytes([r0, r1]),
            flags,
            flags2,
            quarantined: u16::from_ne_bytes([q0, q1]),
        }
    }

    /// Encodes a value of either map.
    #[must_use]
    pub const fn encode(&self) -> [u8; 12] {
        let [u0, u1, u2, u3] = self.union;
        let [c0, c1] = self.count.to_ne_bytes();
        let [r0, r1] = self.rev_nat.to_be_bytes();
        let [q0, q1] = self.quarantined.to_ne_bytes();
        [u0, u1, u2, u3, c0, c1, r0, r1, self.flags, self.flags2, q0, q1]
    }

    /// The kind, by type bits.
    #[must_use]
    pub const fn kind(&self) -> ServiceKind {
        if self.has(flag::HOSTPORT) {
            ServiceKind::HostPort
        } else if self.has(flag::NODEPORT) {
            ServiceKind::NodePort
        } else if self.has(flag::EXTERNAL_IP) {
            ServiceKind::ExternalIP
        } else if self.has(flag::LOADBALANCER) {
            ServiceKind::LoadBalancer
        } else if self.has2(flag2::LOCAL_REDIRECT) {
            ServiceKind::LocalRedirect
        } else {
            ServiceKind::ClusterIP
        }
    }

    /// Whether a bit of `flags` is set.
    #[must_use]
    pub const fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// Whether a bit of `flags2` is set.
    #[must_use]
    pub const fn has2(&self, bit: u8) -> bool {
        self.flags2 & bit != 0
    }

    /// Slot rows: the id of the backend.
    #[must_use]
    pub const fn backend_id(&self) -> u32 {
        u32::from_ne_bytes(self.union)
    }

    /// Masters with the L7 flag: the port to which the datapath redirects. None without the flag, and where all four bytes are
    /// zero ("no redirect"). Only the first two bytes are the port, but all four decide whether there is a redirect.
    #[must_use]
    pub const fn proxy_port(&self) -> Option<u16> {
        let [high, low, _, _] = self.union;
        if self.has2(flag2::L7_LOADBALANCER) && self.backend_id() != 0 { Some(u16::from_be_bytes([high, low])) } else { None }
    }

    /// Masters of any type but HostPort: the L7 delegate bit.
    #[must_use]
    pub fn is_delegate(&self) -> bool {
        self.has2(flag2::LOOPBACK_OR_DELEGATE) && self.kind() != ServiceKind::HostPort
    }
}

/// Splits an array in two; the sizes must add up.
pub(super) fn split<const N: usize, const A: usize, const B: usize>(bytes: &[u8; N]) -> ([u8; A], [u8; B]) {
    const { assert!(A + B == N) };
    (std::array::from_fn(|i| bytes[i]), std::array::from_fn(|i| bytes[A + i]))
}

/// Joins two arrays; the sizes must add up.
pub(super) fn join<const A: usize, const B: usize, const N: usize>(head: [u8; A], tail: [u8; B]) -> [u8; N] {
    const { assert!(A + B == N) };
    std::array::from_fn(|i| if i < A { head[i] } else { tail[i - A] })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_v4_row_round_trips(key: [u8; 12], value: [u8; 12]) {
            prop_assert_eq!(ServiceKey::decode_v4(&key).encode_v4(), Some(key));
            prop_assert_eq!(ServiceKey::decode_v4(&key).encode_v6(), None);
            prop_assert_eq!(Service::decode(&value).encode(), value);
        }

        #[test]
        fn any_v6_key_round_trips(head: [u8; 16], tail: [u8; 8]) {
            let key: [u8; 24] = join(head, tail);
            prop_assert_eq!(ServiceKey::decode_v6(&key).encode_v6(), Some(key));
            prop_assert_eq!(ServiceKey::decode_v6(&key).encode_v4(), None);
        }
    }

    #[test]
    fn the_proxy_port_is_in_network_order_and_needs_the_flag() {
        let mut row = Service { union: [0, 80, 0, 0], count: 0, rev_nat: 1, flags: 0x60, flags2: 0x04, quarantined: 0 };
        assert_eq!(row.proxy_port(), Some(80));
        row.union = [0, 0, 1, 0];
        assert_eq!(row.proxy_port(), Some(0), "any of the four bytes makes it a redirect");
        row.union = [0; 4];
        assert_eq!(row.proxy_port(), None);
        row.union = [0, 80, 0, 0];
        row.flags2 = 0;
        assert_eq!(row.proxy_port(), None);
    }

    #[test]
    fn kinds_by_type_bit() {
        let kind = |flags, flags2| Service { union: [0; 4], count: 0, rev_nat: 0, flags, flags2, quarantined: 0 }.kind();
        assert_eq!(kind(0x48, 0), ServiceKind::HostPort);
        assert_eq!(kind(0x42, 0x04), ServiceKind::NodePort);
        assert_eq!(kind(0x51, 0), ServiceKind::ExternalIP);
        assert_eq!(kind(0x60, 0), ServiceKind::LoadBalancer);
        assert_eq!(kind(0x40, 0x01), ServiceKind::LocalRedirect);
        assert_eq!(kind(0x40, 0), ServiceKind::ClusterIP);
    }

    #[test]
    fn the_delegate_bit_means_loopback_on_a_host_port() {
        let row = |flags| Service { union: [0; 4], count: 0, rev_nat: 0, flags, flags2: 0x08, quarantined: 0 };
        assert!(!row(0x48).is_delegate());
        assert!(row(0x60).is_delegate());
    }
}
