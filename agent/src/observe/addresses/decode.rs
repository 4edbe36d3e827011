//! rtnetlink messages to facts, by netlink-packet-route's types. Of a link only the header and two attributes are decoded:
//! the crate refuses a whole link for one attribute of an unexpected size, and none of the others matters here.

use gwready_core::facts::addresses::{DefaultRoute, Link, LocalAddress, Scope};
use gwready_core::net::Family;
use netlink_packet_core::{DecodeError, NlasIterator, Parseable, parse_string, parse_u32};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkFlags, LinkHeader};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};

/// Length of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
/// `RT_TABLE_LOCAL`.
const TABLE_LOCAL: u32 = 255;

/// `RTM_NEWLINK`.
pub(super) fn decode_link(body: &[u8]) -> Result<Link, DecodeError> {
    let header = LinkHeader::parse(body)?;
    let mut link = Link {
        ifindex: header.index,
        name: String::new(),
        loopback: header.flags.contains(LinkFlags::Loopback),
        up: header.flags.contains(LinkFlags::Up),
        master: None,
    };
    for attribute in NlasIterator::new(body.get(LINK_HEADER..).unwrap_or_default()) {
        let attribute = attribute?;
        match attribute.kind() {
            IFLA_IFNAME => link.name = parse_string(attribute.value())?,
            IFLA_MASTER => link.master = Some(parse_u32(attribute.value())?),
            _ => {}
        }
    }
    Ok(link)
}

/// `RTM_NEWADDR`; none for a family that is not IP or a message without an address.
pub(super) fn decode_address(body: &[u8]) -> Result<Option<LocalAddress>, DecodeError> {
    let message = AddressMessage::parse(body)?;
    if family_of(message.header.family).is_none() {
        return Ok(None);
    }
    let (mut local, mut address) = (None, None);
    let mut flags = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    for attribute in &message.attributes {
        match attribute {
            // On a point-to-point link IFA_ADDRESS is the peer's; IFA_LOCAL is always ours, but not always there.
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => address = Some(*ip),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    Ok(local.or(address).map(|ip| LocalAddress {
        ip,
        ifindex: message.header.index,
        scope: match message.header.scope {
            AddressScope::Universe => Scope::Global,
            AddressScope::Site => Scope::Site,
            AddressScope::Link => Scope::Link,
            AddressScope::Host => Scope::Host,
            _ => Scope::Other,
        },
        tentative: flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed),
        deprecated: flags.contains(AddressFlags::Deprecated),
    }))
}

/// `RTM_NEWROUTE`: the links of a unicast default route in any table but `local`; none for any other route.
pub(super) fn decode_default_route(body: &[u8]) -> Result<Option<Vec<DefaultRoute>>, DecodeError> {
    if !is_default(body) {
        // Most routes of a node: not worth decoding.
        return Ok(None);
    }
    let message = RouteMessage::parse(body)?;
    let Some(family) = family_of(message.header.address_family) else {
        return Ok(None);
    };
    let mut table = u32::from(message.header.table);
    let mut links = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(full) => table = *full,
            RouteAttribute::Oif(ifindex) => links.push(*ifindex),
            RouteAttribute::MultiPath(hops) => links.extend(hops.iter().map(|hop| hop.interface_index)),
            _ => {}
        }
    }
    if message.header.kind != RouteType::Unicast || table == TABLE_LOCAL {
        return Ok(None);
    }
    Ok(Some(links.into_iter().map(|ifindex| DefaultRoute { family, ifindex }).collect()))
}

/// Whether a route message is of a route to everywhere (`rtm_dst_len` 0, the second byte of `struct rtmsg`).
pub(super) fn is_default(body: &[u8]) -> bool {
    body.get(1) == Some(&0)
}

const fn family_of(family: AddressFamily) -> Option<Family> {
    match family {
        AddressFamily::Inet => Some(Family::Ipv4),
        AddressFamily::Inet6 => Some(Family::Ipv6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use netlink_packet_core::Emitable;
    use netlink_packet_route::address::AddressHeaderFlags;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use netlink_packet_route::route::RouteNextHop;

    use super::*;

    fn emit(message: &impl Emitable) -> Vec<u8> {
        let mut body = vec![0; message.buffer_len()];
        message.emit(&mut body);
        body
    }

    fn address(change: impl FnOnce(&mut AddressMessage)) -> Option<LocalAddress> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.index = 3;
        message.attributes.push(AddressAttribute::Address("10.0.0.11".parse().unwrap()));
        change(&mut message);
        decode_address(&emit(&message)).unwrap()
    }

    fn route(change: impl FnOnce(&mut RouteMessage)) -> Option<Vec<u32>> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.kind = RouteType::Unicast;
        message.header.table = 254;
        message.attributes.push(RouteAttribute::Oif(3));
        change(&mut message);
        decode_default_route(&emit(&message)).unwrap().map(|links| links.iter().map(|link| link.ifindex).collect())
    }

    #[test]
    fn a_link_has_index_name_flags_and_master() {
        let mut message = LinkMessage::default();
        message.header.index = 7;
        message.header.flags = LinkFlags::Up | LinkFlags::Loopback;
        message.attributes = vec![LinkAttribute::IfName("eth0".into()), LinkAttribute::Controller(9)];
        let link = decode_link(&emit(&message)).unwrap();
        assert_eq!(link, Link { ifindex: 7, name: "eth0".into(), loopback: true, up: true, master: Some(9) });
        assert!(decode_link(&[0; 15]).is_err());
    }

    #[test]
    fn the_local_address_is_ours_and_the_other_is_the_peers() {
        let peer = address(|message| message.attributes.push(AddressAttribute::Local("10.9.9.9".parse().unwrap())));
        assert_eq!(peer.unwrap().ip, "10.9.9.9".parse::<IpAddr>().unwrap());
        assert_eq!(address(|_| ()).unwrap().ip, "10.0.0.11".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn flags_are_read_from_the_attribute_before_the_header() {
        let usable = address(|_| ()).unwrap();
        assert!(!usable.tentative && !usable.deprecated);
        assert!(address(|message| message.header.flags = AddressHeaderFlags::Tentative).unwrap().tentative);
        for (flag, tentative, deprecated) in
            [(AddressFlags::Tentative, true, false), (AddressFlags::Dadfailed, true, false), (AddressFlags::Deprecated, false, true)]
        {
            let read = address(|message| message.attributes.push(AddressAttribute::Flags(flag))).unwrap();
            assert_eq!((read.tentative, read.deprecated), (tentative, deprecated), "{flag:?}");
        }
    }

    #[test]
    fn every_scope_is_told_and_other_families_are_left_out() {
        for (scope, fact) in [
            (AddressScope::Universe, Scope::Global),
            (AddressScope::Site, Scope::Site),
            (AddressScope::Link, Scope::Link),
            (AddressScope::Host, Scope::Host),
            (AddressScope::Other(77), Scope::Other),
        ] {
            assert_eq!(address(|message| message.header.scope = scope).unwrap().scope, fact);
        }
        let other = address(|message| {
            message.header.family = AddressFamily::Unspec;
            message.attributes.clear();
        });
        assert_eq!(other, None);
    }

    #[test]
    fn a_default_route_names_its_link_or_all_links_of_a_multipath() {
        assert_eq!(route(|_| ()), Some(vec![3]));
        let hop = |ifindex| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = ifindex;
            hop
        };
        assert_eq!(route(|message| message.attributes = vec![RouteAttribute::MultiPath(vec![hop(3), hop(5)])]), Some(vec![3, 5]));
    }

    #[test]
    fn routes_that_are_no_way_out_are_left_out() {
        assert_eq!(route(|message| message.header.destination_prefix_length = 24), None);
        assert_eq!(route(|message| message.header.table = 255), None);
        assert_eq!(route(|message| message.header.kind = RouteType::Local), None);
        assert_eq!(route(|message| message.header.kind = RouteType::Unreachable), None);
        // 2004 does not fit the header's table field: it stands in the attribute.
        assert_eq!(route(|message| message.attributes.push(RouteAttribute::Table(255))), None);
        assert_eq!(route(|message| message.attributes.push(RouteAttribute::Table(2004))), Some(vec![3]));
    }
}
