//! The TPROXY path: rule, route and proxy listeners. Asks the kernel's own answers, never the whole routing table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use gwready_core::facts::Reading;
use gwready_core::facts::steering::{ProxyLookup, TproxyRoutes};
use gwready_core::lb::frontends::{L7Frontend, proxy_ports};
use gwready_core::net::Family;
use gwready_core::plan::ReadPlan;
use gwready_core::time::Window;
use netlink_packet_core::{DecodeError, Parseable};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use rustix::io::Errno;

use crate::clock;
use crate::observe::netlink::{Exchange, NetlinkError, Protocol};
use crate::observe::sockets::{MADE_UP_V4, MADE_UP_V6, SocketReader};

const DEADLINE: Duration = Duration::from_secs(1);
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
/// `RTM_F_LOOKUP_TABLE`: the answer names the table that was hit (rtnetlink.h).
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTA_DST: u16 = 1;
const RTA_MARK: u16 = 16;
/// Mark, mask and table of Cilium's rule (Cilium `pkg/proxy/routes.go`, `linux_defaults.go`).
const MARK: u32 = 0x200;
const MASK: u32 = 0xf00;
const TABLE: u32 = 2004;
/// Source port of the made-up client.
const SOURCE_PORT: u16 = 33_000;

/// Reads the TPROXY path. Blocking. Read it when rules or default routes changed, when the L7 frontends changed, and on resync.
pub struct TproxyReader {
    exchange: Exchange,
    sockets: SocketReader,
}

impl Default for TproxyReader {
    fn default() -> Self {
        Self::new()
    }
}

impl TproxyReader {
    /// A reader; nothing is opened or asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self { exchange: Exchange::new(Protocol::Route, DEADLINE), sockets: SocketReader::new() }
    }

    /// Rules, routes, and who listens on the proxy ports of these frontends, or why it could not be read; never a part.
    pub fn read(&mut self, plan: &ReadPlan, frontends: &[L7Frontend]) -> Reading<TproxyRoutes> {
        let begin = clock::mono();
        let result = self.read_all(plan, frontends);
        let window = Window { begin, end: clock::mono() };
        match result {
            Ok(value) => Reading::Observed { value, window },
            Err(error) => Reading::Unavailable(error.unavailable(window)),
        }
    }

    fn read_all(&mut self, plan: &ReadPlan, frontends: &[L7Frontend]) -> Result<TproxyRoutes, NetlinkError> {
        let mut rule = self.exchange.dump(RTM_GETRULE, &[0; 12], decode_rule)?.items;
        rule.sort_unstable();
        rule.dedup();
        let mut route = Vec::new();
        for family in Family::ALL {
            if rule.contains(&family) && self.is_routed(family)? {
                route.push(family);
            }
        }
        let ingress_if = plan.addresses.first().map_or(0, |judged| judged.ingress_if);
        let mut proxies = Vec::new();
        for (family, port) in proxy_ports(frontends) {
            let (loopback, client) = match family {
                Family::Ipv4 => (IpAddr::V4(Ipv4Addr::LOCALHOST), MADE_UP_V4),
                Family::Ipv6 => (IpAddr::V6(Ipv6Addr::LOCALHOST), MADE_UP_V6),
            };
            let (local, remote) = (SocketAddr::new(loopback, port), SocketAddr::new(client, SOURCE_PORT));
            proxies.push(ProxyLookup { family, port, picked: self.sockets.read_listener_for(local, remote, ingress_if)? });
        }
        Ok(TproxyRoutes { rule, route, proxies })
    }

    /// Where the kernel would send a packet that carries the mark: delivered locally by the rule's table, or not.
    fn is_routed(&mut self, family: Family) -> Result<bool, NetlinkError> {
        let answers = self.exchange.ask(RTM_GETROUTE, &[encode_route_question(family)], decode_answer)?;
        match answers.into_iter().next() {
            Some(Ok(routed)) => Ok(routed),
            // No route at all, or no such family.
            Some(Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::INVAL | Errno::ACCESS | Errno::AGAIN | Errno::OPNOTSUPP)) | None => {
                Ok(false)
            }
            Some(Err(errno)) => Err(NetlinkError::Refused(errno)),
        }
    }
}

/// `struct rtmsg` with destination (a made-up client: no packet is sent) and mark.
fn encode_route_question(family: Family) -> Vec<u8> {
    let (number, octets): (i32, Vec<u8>) = match MADE_UP_V6 {
        IpAddr::V6(v6) if family == Family::Ipv6 => (libc::AF_INET6, v6.octets().to_vec()),
        _ => (libc::AF_INET, Ipv4Addr::new(198, 51, 100, 1).octets().to_vec()),
    };
    let bits = if family == Family::Ipv6 { 128 } else { 32 };
    let mut body = vec![u8::try_from(number).unwrap_or_default(), bits, 0, 0, 0, 0, 0, 0];
    body.extend(RTM_F_LOOKUP_TABLE.to_ne_bytes());
    for (kind, value) in [(RTA_DST, octets), (RTA_MARK, MARK.to_ne_bytes().to_vec())] {
        let length = u16::try_from(value.len() + 4).unwrap_or_default();
        body.extend(length.to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
    }
    body
}

fn decode_answer(_kind: u16, body: &[u8]) -> Result<bool, DecodeError> {
    let message = RouteMessage::parse(body)?;
    let table = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    Ok(message.header.kind == RouteType::Local && table.unwrap_or_else(|| u32::from(message.header.table)) == TABLE)
}

/// `RTM_NEWRULE`: the family, if it is the rule for proxied traffic.
fn decode_rule(_kind: u16, body: &[u8]) -> Result<Option<Family>, DecodeError> {
    let message = RuleMessage::parse(body)?;
    let family = match message.header.family {
        AddressFamily::Inet => Family::Ipv4,
        AddressFamily::Inet6 => Family::Ipv6,
        _ => return Ok(None),
    };
    let (mut mark, mut mask, mut table) = (None, None, u32::from(message.header.table));
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::FwMark(value) => mark = Some(*value),
            RuleAttribute::FwMask(value) => mask = Some(*value),
            RuleAttribute::Table(value) => table = *value,
            _ => {}
        }
    }
    Ok((mark == Some(MARK) && mask == Some(MASK) && table == TABLE).then_some(family))
}
