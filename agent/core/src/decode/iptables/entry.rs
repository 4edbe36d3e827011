//! What an entry itself matches: `struct ipt_ip` and `struct ip6t_ip6`.

use crate::decode::inet_diag_attributes::u16_at;
use crate::net::Family;
use crate::netfilter::expr::address_of;
use crate::netfilter::xt::{Interface, Masked, XtEntry};

const VIA_IN: u8 = 0x01;
const VIA_OUT: u8 = 0x02;
const SOURCE: u8 = 0x08;
const DESTINATION: u8 = 0x10;
const FRAGMENT: u8 = 0x20;
const PROTOCOL: u8 = 0x40;

/// What the entry matches, and whether its jump is a goto. None: the structure is too short.
pub(super) fn decode_entry(family: Family, ip: &[u8]) -> Option<(XtEntry, bool)> {
    let address = match family {
        Family::Ipv4 => 4,
        Family::Ipv6 => 16,
    };
    let names = 4 * address;
    let tail = names + 64;
    let protocol = u16_at(ip, tail)?;
    let (flags, inverse) = match family {
        Family::Ipv4 => (*ip.get(tail + 2)?, *ip.get(tail + 3)?),
        Family::Ipv6 => (*ip.get(tail + 3)?, *ip.get(tail + 4)?),
    };
    let masked =
        |at: usize, flag: u8| masked(ip.get(at..)?.get(..address)?, ip.get(at + 2 * address..)?.get(..address)?, inverse & flag != 0);
    let interface = |at: usize, flag: u8| interface(ip.get(at..at + 16)?, ip.get(at + 32..at + 48)?, inverse & flag != 0);
    let asks_protocol = protocol != 0 && (family == Family::Ipv4 || flags & 0x01 != 0);
    let entry = XtEntry {
        source: masked(0, SOURCE),
        destination: masked(address, DESTINATION),
        input: interface(names, VIA_IN),
        output: interface(names + 16, VIA_OUT),
        protocol: match u8::try_from(protocol) {
            Ok(number) if asks_protocol => Some((number, inverse & PROTOCOL != 0)),
            _ => None,
        },
        fragment: (family == Family::Ipv4 && flags & 0x01 != 0).then_some(inverse & FRAGMENT != 0),
        traffic_class: family == Family::Ipv6 && flags & 0x02 != 0,
    };
    let goto = flags & if family == Family::Ipv4 { 0x02 } else { 0x04 } != 0;
    Some((entry, goto))
}

fn masked(address: &[u8], mask: &[u8], inverted: bool) -> Option<Masked> {
    let restricts = inverted || mask.iter().any(|byte| *byte != 0);
    restricts.then_some(Masked { address: address_of(address)?, mask: address_of(mask)?, inverted })
}

fn interface(name: &[u8], mask: &[u8], inverted: bool) -> Option<Interface> {
    let covered = mask.iter().take_while(|byte| **byte != 0).count();
    if covered == 0 && !inverted {
        return None;
    }
    let name = name.get(..covered)?;
    let end = name.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(name.get(..end.unwrap_or(covered))?).into_owned();
    Some(Interface { name: text, prefix: end.is_none(), inverted })
}
