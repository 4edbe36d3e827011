//! Targets other than the standard one.

use super::bytes::{address_at, be16_at, text_at, u8_at, u16_at, u32_at};
use crate::net::Family;
use crate::netfilter::xt::{NatRange, XtTarget};

/// `NF_NAT_RANGE_MAP_IPS`.
const MAP_IPS: u32 = 1;
/// `NF_NAT_RANGE_PROTO_SPECIFIED`.
const PROTO_SPECIFIED: u32 = 2;

/// Decodes the info structure of a target by its name and revision. `family` is that of its table; none for tables of both, where
/// structures that depend on it are not known.
#[must_use]
pub fn decode_target(family: Option<Family>, name: &str, revision: u32, data: &[u8]) -> XtTarget {
    let decoded = match (name, revision, family) {
        ("DNAT", 0, Some(Family::Ipv4)) => multi_range(data).map(XtTarget::Dnat),
        ("DNAT", 1 | 2, Some(family)) => range(family, data).map(XtTarget::Dnat),
        ("REDIRECT", 0, Some(Family::Ipv4)) => multi_range(data).map(XtTarget::Redirect),
        ("REDIRECT", 0, Some(Family::Ipv6)) => range(Family::Ipv6, data).map(XtTarget::Redirect),
        ("NETMAP", 0, Some(Family::Ipv4)) => multi_range(data).map(XtTarget::Netmap),
        ("NETMAP", 0, Some(Family::Ipv6)) => range(Family::Ipv6, data).map(XtTarget::Netmap),
        ("SNAT" | "MASQUERADE", _, _) => Some(XtTarget::Snat { name: name.to_owned() }),
        ("TPROXY", 0, Some(Family::Ipv4)) => tproxy(Family::Ipv4, 12, data),
        ("TPROXY", 1, Some(family)) => tproxy(family, 24, data),
        ("MARK", 2, _) => mark(data),
        ("CONNMARK", 1 | 2, _) => connmark(revision, data),
        ("CT", 0..=2, _) => ct(data),
        ("NOTRACK", 0, _) => Some(XtTarget::Notrack),
        ("REJECT", 0, _) => u32_at(data, 0).map(|with| XtTarget::Reject { with }),
        ("LOG", 0, _) => text_at(data, 2, 30).map(|prefix| XtTarget::Log { prefix }),
        ("NFLOG", 0, _) => text_at(data, 12, 64).map(|prefix| XtTarget::Log { prefix }),
        _ => None,
    };
    decoded.unwrap_or_else(|| XtTarget::Unknown { name: name.to_owned(), revision })
}

/// `struct nf_nat_ipv4_multi_range_compat` with its one range.
fn multi_range(data: &[u8]) -> Option<NatRange> {
    let flags = u32_at(data, 4)?;
    let addresses = (address_at(data, 8, Family::Ipv4)?, address_at(data, 12, Family::Ipv4)?);
    let ports = (be16_at(data, 16)?, be16_at(data, 18)?);
    // More than one range was never accepted by a kernel with conntrack's own NAT core.
    (u32_at(data, 0)? == 1).then(|| nat_range(flags, addresses, ports))
}

/// `struct nf_nat_range` and the same fields of `nf_nat_range2`.
fn range(family: Family, data: &[u8]) -> Option<NatRange> {
    let addresses = (address_at(data, 4, family)?, address_at(data, 20, family)?);
    Some(nat_range(u32_at(data, 0)?, addresses, (be16_at(data, 36)?, be16_at(data, 38)?)))
}

fn nat_range(flags: u32, addresses: (std::net::IpAddr, std::net::IpAddr), ports: (u16, u16)) -> NatRange {
    NatRange { flags, addresses: (flags & MAP_IPS != 0).then_some(addresses), ports: (flags & PROTO_SPECIFIED != 0).then_some(ports) }
}

/// `struct xt_tproxy_target_info` and `_v1`.
fn tproxy(family: Family, port_at: usize, data: &[u8]) -> Option<XtTarget> {
    Some(XtTarget::Tproxy {
        address: address_at(data, 8, family)?,
        port: be16_at(data, port_at)?,
        mark_mask: u32_at(data, 0)?,
        mark_value: u32_at(data, 4)?,
    })
}

/// `struct xt_mark_tginfo2`.
fn mark(data: &[u8]) -> Option<XtTarget> {
    Some(XtTarget::Mark { value: u32_at(data, 0)?, mask: u32_at(data, 4)? })
}

/// `struct xt_connmark_tginfo1`, and `tginfo2` where it does not shift.
fn connmark(revision: u32, data: &[u8]) -> Option<XtTarget> {
    let mode = match revision {
        1 => u8_at(data, 12)?,
        _ if u8_at(data, 13)? == 0 => u8_at(data, 14)?,
        _ => return None,
    };
    Some(XtTarget::Connmark { ctmark: u32_at(data, 0)?, ctmask: u32_at(data, 4)?, nfmask: u32_at(data, 8)?, mode })
}

/// `struct xt_ct_target_info` and the same fields of `_v1`.
fn ct(data: &[u8]) -> Option<XtTarget> {
    /// `XT_CT_NOTRACK | XT_CT_NOTRACK_ALIAS`: either leaves the packet untracked.
    const NOTRACK: u16 = 1;
    Some(XtTarget::Ct { notrack: u16_at(data, 0)? & NOTRACK != 0, zone: u16_at(data, 2)?, helper: text_at(data, 12, 16)? })
}
