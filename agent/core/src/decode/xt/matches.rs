//! Matches.

use super::bytes::{address_at, be16_at, text_at, u8_at, u16_at, u32_at};
use crate::net::Family;
use crate::netfilter::xt::{Conntrack, Ports, Tcp, XtMatch};

/// Decodes the info structure of a match by its name and revision. `family` is that of its table; none for tables of both, where
/// fields that are addresses are not known.
#[must_use]
pub fn decode_match(family: Option<Family>, name: &str, revision: u32, data: &[u8]) -> XtMatch {
    let decoded = match (name, revision) {
        ("tcp", 0) => tcp(data),
        ("udp", 0) => Some(XtMatch::Udp),
        ("multiport", 0 | 1) => multiport(revision, data),
        ("addrtype", 0 | 1) => addrtype(revision, data),
        ("mark", 1) => masked(data).map(|(value, mask, inverted)| XtMatch::Mark { value, mask, inverted }),
        ("connmark", 1) => masked(data).map(|(value, mask, inverted)| XtMatch::Connmark { value, mask, inverted }),
        ("conntrack", 1..=3) => conntrack(family, revision, data),
        ("state", 0) => u32_at(data, 0).map(|mask| XtMatch::State { mask }),
        ("comment", 0) => text_at(data, 0, 256).map(XtMatch::Comment),
        ("socket", 0) => Some(XtMatch::Socket { flags: 0 }),
        ("socket", 1..=3) => u8_at(data, 0).map(|flags| XtMatch::Socket { flags }),
        ("set", 1..=4) => set(data),
        ("iprange", 1) => family.and_then(|family| iprange(family, data)),
        _ => None,
    };
    decoded.unwrap_or_else(|| XtMatch::Unknown { name: name.to_owned(), revision })
}

/// `struct xt_tcp`.
fn tcp(data: &[u8]) -> Option<XtMatch> {
    let inverse = u8_at(data, 11)?;
    let ports = |at: usize, flag: u8| -> Option<Ports> {
        Some(Ports { first: u16_at(data, at)?, last: u16_at(data, at + 2)?, inverted: inverse & flag != 0 })
    };
    let option = u8_at(data, 8)?;
    Some(XtMatch::Tcp(Tcp {
        source: ports(0, 1)?,
        destination: ports(4, 2)?,
        option: (option != 0).then_some((option, inverse & 8 != 0)),
        flags_mask: u8_at(data, 9)?,
        flags_value: u8_at(data, 10)?,
        flags_inverted: inverse & 4 != 0,
    }))
}

/// `struct xt_multiport` and `xt_multiport_v1`.
fn multiport(revision: u32, data: &[u8]) -> Option<XtMatch> {
    const MOST: usize = 15;
    let kind = u8_at(data, 0)?;
    let count = usize::from(u8_at(data, 1)?).min(MOST);
    let port = |index: usize| u16_at(data, 2 + 2 * index);
    let mut ports = Vec::with_capacity(count);
    let mut index = 0;
    while index < count {
        let first = port(index)?;
        // A flag says that the next one is the end of a range.
        let range = revision == 1 && u8_at(data, 32 + index)? != 0 && index + 1 < count;
        ports.push((first, if range { port(index + 1)? } else { first }));
        index += if range { 2 } else { 1 };
    }
    let inverted = revision == 1 && u8_at(data, 47)? != 0;
    Some(XtMatch::Multiport { source: kind != 1, destination: kind != 0, ports, inverted })
}

/// `struct xt_addrtype_info` and `xt_addrtype_info_v1`.
fn addrtype(revision: u32, data: &[u8]) -> Option<XtMatch> {
    let (source, destination, word) = (u16_at(data, 0)?, u16_at(data, 2)?, u32_at(data, 4)?);
    Some(if revision == 0 {
        XtMatch::Addrtype {
            source,
            destination,
            source_inverted: word != 0,
            destination_inverted: u32_at(data, 8)? != 0,
            limit_in: false,
            limit_out: false,
        }
    } else {
        XtMatch::Addrtype {
            source,
            destination,
            source_inverted: word & 1 != 0,
            destination_inverted: word & 2 != 0,
            limit_in: word & 4 != 0,
            limit_out: word & 8 != 0,
        }
    })
}

/// `struct xt_mark_mtinfo1` and `xt_connmark_mtinfo1`: value, mask, inverted.
fn masked(data: &[u8]) -> Option<(u32, u32, bool)> {
    Some((u32_at(data, 0)?, u32_at(data, 4)?, u8_at(data, 8)? != 0))
}

/// `struct xt_conntrack_mtinfo1` to `3`.
fn conntrack(family: Option<Family>, revision: u32, data: &[u8]) -> Option<XtMatch> {
    const ORIGDST: u16 = 1 << 3;
    const ORIGDST_PORT: u16 = 1 << 9;
    let match_flags = u16_at(data, 146)?;
    let (state_mask, status_mask) = match revision {
        1 => (u16::from(u8_at(data, 150)?), u16::from(u8_at(data, 151)?)),
        _ => (u16_at(data, 150)?, u16_at(data, 152)?),
    };
    let ports = match revision {
        3 => (u16_at(data, 140)?, u16_at(data, 156)?),
        _ => (be16_at(data, 140)?, be16_at(data, 140)?),
    };
    let original_destination = if match_flags & ORIGDST == 0 {
        None
    } else {
        let family = family?;
        Some((address_at(data, 32, family)?, address_at(data, 48, family)?))
    };
    Some(XtMatch::Conntrack(Conntrack {
        match_flags,
        invert_flags: u16_at(data, 148)?,
        state_mask,
        status_mask,
        protocol: u16_at(data, 136)?,
        original_destination,
        original_destination_port: (match_flags & ORIGDST_PORT != 0).then_some(ports),
    }))
}

/// `struct xt_set_info`, the begin of every revision from 1.
fn set(data: &[u8]) -> Option<XtMatch> {
    const MOST_DIMENSIONS: u8 = 6;
    let flags = u8_at(data, 3)?;
    let dimensions = u8_at(data, 2)?.min(MOST_DIMENSIONS);
    let sources = (1..=dimensions).map(|dimension| flags & (1 << dimension) != 0).collect();
    Some(XtMatch::Set { index: u16_at(data, 0)?, sources, inverted: flags & 1 != 0 })
}

/// `struct xt_iprange_mtinfo`.
fn iprange(family: Family, data: &[u8]) -> Option<XtMatch> {
    let flags = u8_at(data, 64)?;
    let range = |at: usize| Some((address_at(data, at, family)?, address_at(data, at + 16, family)?));
    let (source, destination) = (range(0)?, range(32)?);
    Some(XtMatch::Iprange {
        source: (flags & 0x1 != 0).then_some((source.0, source.1, flags & 0x10 != 0)),
        destination: (flags & 0x2 != 0).then_some((destination.0, destination.1, flags & 0x20 != 0)),
    })
}
