//! Fields of the info structures. Multi-byte fields are in the machine's order unless the header says `__be`.

use std::net::IpAddr;

pub(super) use crate::decode::inet_diag_attributes::{u16_at, u32_at};
use crate::net::Family;
use crate::netfilter::expr::address_of;

/// One byte.
pub(super) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

/// `__be16`.
pub(super) fn be16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    u16_at(bytes, offset).map(u16::from_be)
}

/// `union nf_inet_addr`: the first 4 or all 16 of its bytes.
pub(super) fn address_at(bytes: &[u8], offset: usize, family: Family) -> Option<IpAddr> {
    let length = match family {
        Family::Ipv4 => 4,
        Family::Ipv6 => 16,
    };
    address_of(bytes.get(offset..offset.checked_add(length)?)?)
}

/// Text of a field of fixed length, up to its first NUL.
pub(super) fn text_at(bytes: &[u8], offset: usize, length: usize) -> Option<String> {
    let field = bytes.get(offset..)?;
    let field = field.get(..length).unwrap_or(field);
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    field.get(..end).map(|text| String::from_utf8_lossy(text).into_owned())
}
