//! Keys of `cilium_lb4_source_range` and `cilium_lb6_source_range`, an LPM trie. Source: Cilium `bpf/lib/lb.h` (`lb4_src_range_key`).
//!
//! The prefix length counts 32 static bits (rev-nat index and padding) before the address bits. The trie compares the index as raw
//! bytes, in the order in which the service row has it: `38000000 001b 0000 c0000200` is 192.0.2.0/24 of index 27.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::service::split;

/// Bits of the static part of a key.
pub const STATIC_BITS: u32 = 32;

/// One range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceRange {
    /// Rev-nat index of the service it belongs to.
    pub rev_nat: u16,
    /// First address.
    pub network: IpAddr,
    /// Address bits that count.
    pub prefix: u32,
}

impl SourceRange {
    /// Decodes a key of the IPv4 trie; none if its prefix does not cover the whole index, which no lookup of the datapath would mean.
    #[must_use]
    pub fn decode_v4(bytes: &[u8; 12]) -> Option<Self> {
        let (head, address) = split::<12, 8, 4>(bytes);
        Self::decode_head(head, IpAddr::from(address))
    }

    /// Decodes a key of the IPv6 trie; none as above.
    #[must_use]
    pub fn decode_v6(bytes: &[u8; 24]) -> Option<Self> {
        let (head, address) = split::<24, 8, 16>(bytes);
        Self::decode_head(head, IpAddr::from(address))
    }

    fn decode_head([l0, l1, l2, l3, r0, r1, ..]: [u8; 8], network: IpAddr) -> Option<Self> {
        let prefix = u32::from_ne_bytes([l0, l1, l2, l3]).checked_sub(STATIC_BITS)?;
        Some(Self { rev_nat: u16::from_be_bytes([r0, r1]), network, prefix })
    }

    /// Whether a client is within the range.
    #[must_use]
    pub fn contains(&self, client: IpAddr) -> bool {
        match (self.network, client) {
            (IpAddr::V4(network), IpAddr::V4(client)) => same_prefix(&network.octets(), &client.octets(), self.prefix),
            (IpAddr::V6(network), IpAddr::V6(client)) => same_prefix(&network.octets(), &client.octets(), self.prefix),
            _ => false,
        }
    }
}

fn same_prefix(a: &[u8], b: &[u8], bits: u32) -> bool {
    let mut left = bits;
    for (x, y) in a.iter().zip(b) {
        if left == 0 {
            return true;
        }
        let taken = left.min(8);
        let mask = u8::MAX.checked_shl(8 - taken).unwrap_or(0);
        if (x ^ y) & mask != 0 {
            return false;
        }
        left -= taken;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(prefix: u32) -> SourceRange {
        SourceRange { rev_nat: 27, network: IpAddr::from([192, 0, 2, 128]), prefix }
    }

    #[test]
    fn decodes_a_row_of_the_golden_data() {
        let row = SourceRange::decode_v4(&[0x38, 0, 0, 0, 0, 0x1b, 0, 0, 192, 0, 2, 0]).unwrap();
        assert_eq!(row, SourceRange { rev_nat: 27, network: IpAddr::from([192, 0, 2, 0]), prefix: 24 });
        assert!(row.contains(IpAddr::from([192, 0, 2, 77])));
        assert!(!row.contains(IpAddr::from([192, 0, 3, 77])));
    }

    #[test]
    fn prefix_ends_within_a_byte() {
        assert!(v4(25).contains(IpAddr::from([192, 0, 2, 200])));
        assert!(!v4(25).contains(IpAddr::from([192, 0, 2, 127])));
        assert!(v4(0).contains(IpAddr::from([1, 1, 1, 1])));
        assert!(!v4(0).contains("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn a_prefix_shorter_than_the_index_is_no_range() {
        assert_eq!(SourceRange::decode_v4(&[31, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_and_compare(a: [u8; 12], b: [u8; 24], client: [u8; 4]) {
            for row in [SourceRange::decode_v4(&a), SourceRange::decode_v6(&b)].into_iter().flatten() {
                let _ = row.contains(IpAddr::from(client));
                prop_assert!(row.contains(row.network));
            }
        }
    }
}
