//! Values of `cilium_lb4_backends_v3` and `cilium_lb6_backends_v3`; the key is the backend id, u32 in host order.
//! Source: Cilium `bpf/lib/lb.h` (`lb4_backend`, `lb6_backend`).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::service::split;

/// State 0 in the `flags` byte: takes new connections. The others (terminating 1, quarantined 2, maintenance 3) matter to the
/// datapath only for a connection that it already knows.
pub const STATE_ACTIVE: u8 = 0;

/// One backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Backend {
    /// Address, usually of a pod.
    pub address: IpAddr,
    /// Port; 0 keeps the packet's own.
    pub port: u16,
    /// L4 protocol number.
    pub protocol: u8,
    /// State, see [`STATE_ACTIVE`].
    pub state: u8,
}

impl Backend {
    /// Decodes a value of the IPv4 map.
    #[must_use]
    pub fn decode_v4(bytes: &[u8; 12]) -> Self {
        let (address, tail) = split::<12, 4, 8>(bytes);
        Self::decode_tail(IpAddr::from(address), tail)
    }

    /// Decodes a value of the IPv6 map.
    #[must_use]
    pub fn decode_v6(bytes: &[u8; 24]) -> Self {
        let (address, tail) = split::<24, 16, 8>(bytes);
        Self::decode_tail(IpAddr::from(address), tail)
    }

    const fn decode_tail(address: IpAddr, [p0, p1, protocol, state, ..]: [u8; 8]) -> Self {
        Self { address, port: u16::from_be_bytes([p0, p1]), protocol, state }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_decode(v4: [u8; 12], v6: [u8; 24]) {
            let four = Backend::decode_v4(&v4);
            let six = Backend::decode_v6(&v6);
            prop_assert!(four.address.is_ipv4() && six.address.is_ipv6());
            prop_assert_eq!(four.port.to_be_bytes(), [v4[4], v4[5]]);
            prop_assert_eq!((six.protocol, six.state), (v6[18], v6[19]));
        }
    }
}
