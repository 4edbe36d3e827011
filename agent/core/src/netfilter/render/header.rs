//! Names of header fields.

use super::value::Kind;
use crate::netfilter::expr::Base;
use crate::netfilter::ruleset::TableFamily;

/// The field at an offset, and how its value is shown.
pub(super) fn field(family: TableFamily, protocol: Option<u8>, base: Base, offset: u32, len: u32) -> (String, Kind) {
    // In a table of both families the network header is IPv6's only where the offset or the length says so; IPv4 has 20 bytes.
    let six = family == TableFamily::Ip6 || (family != TableFamily::Ip && (offset >= 20 || len > 8 || (offset == 8 && len > 4)));
    let transport = match protocol {
        Some(6) => "tcp",
        Some(17) => "udp",
        _ => "th",
    };
    let (text, kind) = match (base, offset) {
        (Base::Network, 12) if !six && len <= 4 => ("ip saddr", Kind::Address(4)),
        (Base::Network, 16) if !six && len <= 4 => ("ip daddr", Kind::Address(4)),
        (Base::Network, 8) if six => ("ip6 saddr", Kind::Address(16)),
        (Base::Network, 24) if six => ("ip6 daddr", Kind::Address(16)),
        (Base::Network, 9) if !six => ("ip protocol", Kind::Protocol),
        (Base::Network, 6) if six => ("ip6 nexthdr", Kind::Protocol),
        (Base::Network, 8) => ("ip ttl", Kind::Number),
        (Base::Network, 6) => ("ip frag-off", Kind::Number),
        (Base::Network, 2) if !six => ("ip length", Kind::Number),
        (Base::Network, 1) if !six => ("ip dscp", Kind::Number),
        (Base::Transport, 0) if len == 2 => return (format!("{transport} sport"), Kind::Number),
        (Base::Transport, 2) if len == 2 => return (format!("{transport} dport"), Kind::Number),
        (Base::Transport, 13) if transport != "udp" => ("tcp flags", Kind::TcpFlags),
        (Base::Transport, 0) if len == 1 && protocol == Some(1) => ("icmp type", Kind::Number),
        (Base::Link, 0) if len == 6 => ("ether daddr", Kind::Bytes),
        (Base::Link, 6) if len == 6 => ("ether saddr", Kind::Bytes),
        (Base::Link, 12) if len == 2 => ("ether type", Kind::EtherType),
        _ => {
            let name = match base {
                Base::Link => "ll",
                Base::Network => "nh",
                Base::Transport => "th",
                Base::Inner => "ih",
            };
            return (format!("@{name},{},{}", u64::from(offset) * 8, u64::from(len) * 8), Kind::Bytes);
        }
    };
    (text.to_owned(), kind)
}
