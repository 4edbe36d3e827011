//! Values in the words of nft, by the kind of what they are compared with.

use std::net::IpAddr;

use crate::netfilter::expr::{address_of, hex};
use crate::render::text::sanitise;

/// What a register holds, as far as it decides how a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An IPv4 or IPv6 address, or its first bytes; of this many bytes in whole.
    Address(usize),
    /// A port or another number in network order.
    Number,
    /// A number in the machine's order.
    HostNumber,
    /// A mark: hexadecimal, machine's order.
    Mark,
    /// An interface's name.
    Name,
    /// Bits of `ct state`.
    CtState,
    /// Bits of `ct status`.
    CtStatus,
    /// TCP flags.
    TcpFlags,
    /// Types of addresses.
    AddressType,
    /// `IPPROTO_*`.
    Protocol,
    /// `NFPROTO_*`.
    Nfproto,
    /// Ethernet types.
    EtherType,
    /// `PACKET_*`.
    PacketType,
    /// 1 or 0 of `exists`.
    Existence,
    /// Anything else.
    Bytes,
}

const CT_STATE: [&str; 7] = ["invalid", "established", "related", "new", "?", "?", "untracked"];
const CT_STATUS: [&str; 6] = ["expected", "seen-reply", "assured", "confirmed", "snat", "dnat"];
const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];
const ADDRESS_TYPES: [&str; 9] =
    ["unspec", "unicast", "local", "broadcast", "anycast", "multicast", "blackhole", "unreachable", "prohibit"];
const PACKET_TYPES: [&str; 4] = ["host", "broadcast", "multicast", "other"];

impl Kind {
    /// The kind is a set of bits: `& mask != 0` is shown as the names of the bits.
    pub(super) const fn is_flags(self) -> bool {
        matches!(self, Self::CtState | Self::CtStatus | Self::TcpFlags)
    }

    /// The value as nft shows it.
    pub(super) fn show(self, bytes: &[u8]) -> String {
        let word = |words: &[&str], number: u64| {
            usize::try_from(number).ok().and_then(|at| words.get(at)).map_or_else(|| number.to_string(), |word| (*word).to_owned())
        };
        match self {
            Self::Address(whole) => address(bytes, whole),
            Self::Number => number(bytes).map_or_else(|| raw(bytes), |number| number.to_string()),
            Self::HostNumber => host(bytes).map_or_else(|| raw(bytes), |number| number.to_string()),
            Self::Mark => host(bytes).map_or_else(|| raw(bytes), |number| format!("{number:#010x}")),
            Self::Name => name(bytes),
            Self::CtState => host(bytes).map_or_else(|| raw(bytes), |number| bits(&CT_STATE, number)),
            Self::CtStatus => host(bytes).map_or_else(|| raw(bytes), |number| bits(&CT_STATUS, number)),
            Self::TcpFlags => number(bytes).map_or_else(|| raw(bytes), |number| bits(&TCP_FLAGS, number)),
            Self::AddressType => host(bytes).map_or_else(|| raw(bytes), |number| word(&ADDRESS_TYPES, number)),
            Self::PacketType => host(bytes).map_or_else(|| raw(bytes), |number| word(&PACKET_TYPES, number)),
            Self::Protocol => number(bytes).map_or_else(|| raw(bytes), protocol),
            Self::Nfproto => match bytes {
                [2, ..] => "ipv4".to_owned(),
                [10, ..] => "ipv6".to_owned(),
                _ => raw(bytes),
            },
            Self::EtherType => match bytes {
                [0x08, 0x00, ..] => "ip".to_owned(),
                [0x86, 0xdd, ..] => "ip6".to_owned(),
                [0x08, 0x06, ..] => "arp".to_owned(),
                _ => raw(bytes),
            },
            Self::Existence => if bytes.iter().all(|byte| *byte == 0) { "missing" } else { "exists" }.to_owned(),
            Self::Bytes => raw(bytes),
        }
    }
}

fn raw(bytes: &[u8]) -> String {
    format!("0x{}", hex::render(bytes))
}

fn number(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn host(bytes: &[u8]) -> Option<u64> {
    let ordered: Vec<u8> = if cfg!(target_endian = "little") { bytes.iter().rev().copied().collect() } else { bytes.to_vec() };
    number(&ordered)
}

/// The name of a protocol, by `/etc/protocols` of every system.
pub(super) fn protocol(number: u64) -> String {
    match number {
        1 => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        50 => "esp",
        51 => "ah",
        58 => "ipv6-icmp",
        132 => "sctp",
        136 => "udplite",
        _ => return number.to_string(),
    }
    .to_owned()
}

fn bits(words: &[&str], value: u64) -> String {
    let set: Vec<&str> = words.iter().enumerate().filter(|(at, _)| value >> at & 1 != 0).map(|(_, word)| *word).collect();
    if set.is_empty() { "0".to_owned() } else { set.join(",") }
}

/// An address, or its first bytes as a prefix (nft compares `10.0.0.0/8` by one byte).
fn address(bytes: &[u8], whole: usize) -> String {
    let padded: Vec<u8> = bytes.iter().copied().chain(std::iter::repeat(0)).take(whole).collect();
    match address_of(&padded) {
        Some(address) if bytes.len() >= whole => address.to_string(),
        Some(address) => format!("{address}/{}", bytes.len() * 8),
        None => raw(bytes),
    }
}

fn name(bytes: &[u8]) -> String {
    let text: Vec<u8> = bytes.iter().copied().take_while(|byte| *byte != 0).collect();
    let star = if text.len() == bytes.len() && text.len() < 16 { "*" } else { "" };
    format!("\"{}{star}\"", sanitise(&String::from_utf8_lossy(&text)))
}

/// The length of a prefix, if the mask is one.
pub(super) fn prefix_len(mask: &[u8]) -> Option<u32> {
    let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let leading = mask.iter().take_while(|byte| **byte == 0xff).count();
    let tail: u32 = mask.get(leading).map_or(0, |byte| byte.leading_ones());
    (u32::try_from(leading).ok()? * 8 + tail == ones).then_some(ones)
}

/// An address with the length of its prefix, where it is one, else its mask.
pub(super) fn masked(address: IpAddr, mask: IpAddr) -> String {
    let octets = crate::netfilter::follow::octets(mask);
    match prefix_len(&octets) {
        Some(length) if usize::try_from(length).is_ok_and(|length| length == octets.len() * 8) => address.to_string(),
        Some(length) => format!("{address}/{length}"),
        None => format!("{address}/{mask}"),
    }
}
