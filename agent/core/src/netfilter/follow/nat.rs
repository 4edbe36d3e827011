//! Translation of the destination: dnat, redirect, netmap, tproxy, and stateless rewriting.

use std::net::IpAddr;

use super::bits::{Byte, Match, Registers, value_of};
use super::connection::{Packet, octets};
use super::rule::Step;
use super::state::{Address, Site, Stage, State, Taken, Target};
use super::walk::{At, Walk};
use super::worlds::Worlds;
use crate::net::{Endpoint, Family};
use crate::netfilter::expr::{Base, Reg, address_of};
use crate::netfilter::keys::nat_range;
use crate::netfilter::ruleset::Hook;

/// The ports of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    /// The packet's own.
    Kept,
    /// One of these.
    Range(u16, u16),
    /// Not known.
    Unknown,
}

/// What a translation sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// None: the packet's own.
    pub(super) address: Option<Address>,
    pub(super) ports: Ports,
    /// A port of a range is chosen even if the packet's own is in it.
    pub(super) random: bool,
}

pub(super) const fn is_random(flags: u32) -> bool {
    flags & (nat_range::PROTO_RANDOM | nat_range::PROTO_RANDOM_FULLY) != 0
}

/// The address that REDIRECT takes (`net/netfilter/nf_nat_redirect.c`): the primary one of the input interface. In IPv6 it is any usable
/// one, so it is known only where there is just one.
pub(super) fn redirect_address(packet: &Packet<'_>) -> Option<Address> {
    let family = packet.connection.family();
    let link_local = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let mut own = packet.ingress.into_iter().flat_map(|ingress| &ingress.addresses);
    let mut of_family = own.by_ref().filter(|address| Family::of(**address) == family && !link_local(address));
    let first = of_family.next();
    let only = of_family.next().is_none();
    match first {
        Some(address) if only || family == Family::Ipv4 => Some(Address::Range(*address, *address)),
        _ => Some(Address::Local),
    }
}

/// `NETMAP`: the host part of the destination under another prefix.
pub(super) fn netmap(state: &State, min: IpAddr, max: IpAddr) -> Address {
    let Some(current) = state.address else { return Address::Unknown };
    let parts = octets(min).into_iter().zip(octets(max)).zip(octets(current));
    let mapped: Vec<u8> = parts.map(|((min, max), current)| (min & !(min ^ max)) | (current & (min ^ max))).collect();
    address_of(&mapped).map_or(Address::Unknown, |address| Address::Range(address, address))
}

impl<'a> Walk<'_, 'a> {
    /// A translation of the destination ends the chain with accept; only the first one counts (`nf_nat_setup_info`).
    pub(super) fn translate(&mut self, at: At<'a>, number: usize, change: &Change, state: &State) -> Worlds {
        let accepted = |state: State| Worlds::at(Stage::Accepted, state);
        if at.base.chain.hook != Hook::Prerouting || state.translated {
            return accepted(state.clone());
        }
        let own = self.packet.connection.destination;
        let own_address = own.address.to_canonical();
        let address = match change.address {
            None => state.address,
            Some(Address::Range(min, max)) if min == max => Some(min),
            Some(_) => None,
        };
        let (port, ports) = match (change.ports, state.port) {
            (Ports::Kept, port) => (port, port.map(|port| (port, port))),
            (Ports::Range(min, max), _) if min == max => (Some(min), Some((min, max))),
            (Ports::Range(min, max), Some(port)) if !change.random && (min..=max).contains(&port) => (Some(port), Some((port, port))),
            (Ports::Range(min, max), _) => (None, Some((min, max))),
            (Ports::Unknown, _) => (None, None),
        };
        let shown = change.address.or(address.map(|address| Address::Range(address, address))).unwrap_or(Address::Unknown);
        let taken = Taken { site: at.site, to: Target { address: shown, ports, proxy: false } };
        let moved = State { address, port, translated: true, taken: Some(taken), ..state.clone() };
        // A socket that TPROXY chose stays chosen (`skb_steal_sock`).
        let chosen = state.taken.filter(|taken| taken.to.proxy);
        let same = State { address: Some(own_address), port: Some(own.port), translated: true, taken: chosen, ..state.clone() };
        let may_be_own = |range: Option<Address>| match range {
            Some(Address::Range(min, max)) => (min..=max).contains(&own_address),
            _ => true,
        };
        let other_address = address.map_or_else(|| !may_be_own(change.address), |address| address != own_address);
        let other_port = port.map_or_else(|| ports.is_some_and(|(min, max)| !(min..=max).contains(&own.port)), |port| port != own.port);
        if other_address || other_port {
            accepted(moved)
        } else if address.is_some() && port.is_some() {
            accepted(same)
        } else {
            Self::either(at.site, number, accepted(moved), &accepted(same))
        }
    }

    /// `tproxy` (`net/netfilter/nft_tproxy.c`): takes the packet if a transparent socket listens there, else the rule does not match.
    pub(super) fn nft_tproxy(
        &mut self,
        at: At<'a>,
        family: u8,
        (address, port): (Option<Reg>, Option<Reg>),
        regs: &Registers,
        state: &mut State,
    ) -> Step<'a> {
        let connection = self.packet.connection;
        let (own_family, len) = match connection.family() {
            Family::Ipv4 => (2, 4),
            Family::Ipv6 => (10, 16),
        };
        if family != 0 && family != own_family {
            return Step::Go(Match::No);
        }
        let address = address.map(|reg| value_of(regs.load(reg, len)).and_then(|bytes| address_of(&bytes)));
        let port = match port.map(|reg| value_of(regs.load(reg, 2))) {
            None => Some(connection.destination.port),
            Some(bytes) => bytes.and_then(|bytes| <[u8; 2]>::try_from(bytes).ok()).map(u16::from_be_bytes),
        };
        let own = connection.destination;
        if port == Some(own.port) && address.is_none_or(|address| address == Some(own.address.to_canonical())) {
            // The listener of the endpoint itself.
            return Step::Go(Match::UNDECIDED);
        }
        let shown = match address {
            Some(Some(address)) => Address::Range(address, address),
            Some(None) => Address::Unknown,
            None => Address::Local,
        };
        let to = Target { address: shown, ports: port.map(|port| (port, port)), proxy: true };
        let answer = self.listens(address.flatten(), port);
        if answer != Match::No {
            state.taken = Some(Taken { site: at.site, to });
        }
        Step::Go(answer)
    }

    /// Whether a transparent socket listens there.
    fn listens(&self, address: Option<IpAddr>, port: Option<u16>) -> Match {
        let connection = self.packet.connection;
        let (Some(listeners), Some(port)) = (&connection.transparent, port) else { return Match::UNDECIDED };
        let fits = |listener: &&Endpoint| {
            let any = listener.address.is_unspecified();
            let family = Family::of(listener.address) == connection.family() || (any && listener.address.is_ipv6());
            listener.port == port && family && (any || address.is_none_or(|address| address == listener.address))
        };
        match listeners.iter().filter(fits).count() {
            0 => Match::No,
            _ if address.is_none() && listeners.iter().filter(fits).all(|listener| !listener.address.is_unspecified()) => Match::UNDECIDED,
            _ => Match::Yes,
        }
    }
}

/// A rule writes into the packet. Only the destination matters. False: it is written with something that is not known.
pub(super) fn rewrite(packet: &Packet<'_>, site: Site, state: &mut State, (base, offset): (Base, usize), bytes: &[Byte]) -> bool {
    let family = packet.connection.family();
    let address_at = match family {
        Family::Ipv4 => 16..20,
        Family::Ipv6 => 24..40,
    };
    let written = offset..offset.saturating_add(bytes.len());
    let touches = |field: &std::ops::Range<usize>| written.start < field.end && field.start < written.end;
    let whole = |field: &std::ops::Range<usize>| {
        let from = field.start.checked_sub(offset)?;
        value_of(bytes.get(from..from + field.len())?)
    };
    match base {
        Base::Network if touches(&address_at) => state.address = whole(&address_at).and_then(|bytes| address_of(&bytes)),
        Base::Transport if touches(&(2..4)) => {
            state.port = whole(&(2..4)).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok()).map(u16::from_be_bytes);
        }
        _ => return true,
    }
    let own = packet.connection.destination;
    let unchanged = state.address == Some(own.address.to_canonical()) && state.port == Some(own.port);
    let address = state.address.map_or(Address::Unknown, |address| Address::Range(address, address));
    let to = Target { address, ports: state.port.map(|port| (port, port)), proxy: false };
    state.taken = (!unchanged).then_some(Taken { site, to });
    state.address.is_some() && state.port.is_some()
}
