//! The synthetic connection: a client's SYN, with what is known of it and what differs between clients.

use std::net::IpAddr;

use super::bits::{Byte, Doubt, Origin, known_bytes, unknown_bytes};
use super::state::State;
use crate::net::{Endpoint, Family};
use crate::netfilter::expr::Base;

/// A new TCP connection from the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Where it goes: an address of this node, and a port.
    pub destination: Endpoint,
    /// Its client, where one is meant; none: any client. With a client, [`PassesForSome`] is about other things than its address.
    ///
    /// [`PassesForSome`]: crate::facts::steering::NetfilterPath::PassesForSome
    pub source: Option<IpAddr>,
    /// The client's port, where one is meant.
    pub source_port: Option<u16>,
    /// Interfaces on which it can come in: each is followed. Empty: any but the loopback.
    pub ingress: Vec<Ingress>,
    /// Addresses of this node, all families, besides the destination.
    pub local: Vec<IpAddr>,
    /// Addresses and ports of the transparent TCP listeners of this namespace, an unspecified address for a wildcard: those of the
    /// destination's port and of the ports that `tproxy` rules name are enough. None: not known; then a `tproxy` of nft is unclear, since
    /// it takes nothing where no such listener is, and so is what a `socket` match guards.
    pub transparent: Option<Vec<Endpoint>>,
}

/// An input interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// Index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Its addresses in the kernel's order, the primary one first; empty: not known.
    pub addresses: Vec<IpAddr>,
}

impl Connection {
    /// Any client's connection to an endpoint, by any interface.
    #[must_use]
    pub const fn to(destination: Endpoint) -> Self {
        Self { destination, source: None, source_port: None, ingress: Vec::new(), local: Vec::new(), transparent: None }
    }

    pub(super) fn is_local(&self, address: IpAddr) -> bool {
        address == self.destination.address || address.is_loopback() || self.local.contains(&address)
    }

    pub(super) fn family(&self) -> Family {
        self.destination.front().family
    }
}

/// The octets of an address in network order.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The packet of one connection on one interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) connection: &'a Connection,
    pub(super) ingress: Option<&'a Ingress>,
}

impl Packet<'_> {
    const fn address_len(family: Family) -> usize {
        match family {
            Family::Ipv4 => 4,
            Family::Ipv6 => 16,
        }
    }

    pub(super) fn source(&self) -> Vec<Byte> {
        let len = Self::address_len(self.connection.family());
        self.connection.source.map_or_else(|| unknown_bytes(len, Doubt::Client), |source| known_bytes(&octets(source)))
    }

    pub(super) fn source_port(&self) -> Vec<Byte> {
        self.connection.source_port.map_or_else(|| unknown_bytes(2, Doubt::Client), |port| known_bytes(&port.to_be_bytes()))
    }

    pub(super) fn destination(&self, state: &State) -> Vec<Byte> {
        let len = Self::address_len(self.connection.family());
        state.address.map_or_else(|| unknown_bytes(len, Doubt::Undecided), |address| known_bytes(&octets(address)))
    }

    pub(super) fn destination_port(state: &State) -> Vec<Byte> {
        state.port.map_or_else(|| unknown_bytes(2, Doubt::Undecided), |port| known_bytes(&port.to_be_bytes()))
    }

    /// Bytes of a header. What a client may choose is [`Doubt::Client`], beyond the header too.
    pub(super) fn header(&self, state: &State, base: Base, offset: usize, len: usize) -> Vec<Byte> {
        let header = match base {
            Base::Link => self.link(),
            Base::Network => self.network(state),
            Base::Transport => self.transport(state),
            Base::Inner => Vec::new(),
        };
        header.into_iter().chain(std::iter::repeat(Byte::unknown(Doubt::Client))).skip(offset).take(len).collect()
    }

    /// An Ethernet header without a tag, as the hooks of IP see it.
    fn link(&self) -> Vec<Byte> {
        let mut header = unknown_bytes(12, Doubt::Client);
        header.extend(known_bytes(&self.ether_type().to_be_bytes()));
        header
    }

    pub(super) fn ether_type(&self) -> u16 {
        match self.connection.family() {
            Family::Ipv4 => 0x0800,
            Family::Ipv6 => 0x86dd,
        }
    }

    /// No options, no extension headers, no fragment: an ordinary client's SYN.
    fn network(&self, state: &State) -> Vec<Byte> {
        let unknown = |len| unknown_bytes(len, Doubt::Client);
        let top_nibble = |value| Byte { value, known: 0xf0, ..Byte::unknown(Doubt::Client) };
        match self.connection.family() {
            Family::Ipv4 => {
                let fragment = [Byte { known: 0xbf, ..Byte::unknown(Doubt::Client) }, Byte::known(0)];
                let start = [vec![Byte::known(0x45)], unknown(5), fragment.to_vec(), unknown(1), vec![Byte::known(6)], unknown(2)];
                [start.concat(), self.source(), self.destination(state)].concat()
            }
            Family::Ipv6 => {
                let start = [vec![top_nibble(0x60)], unknown(5), vec![Byte::known(6)], unknown(1)];
                [start.concat(), self.source(), self.destination(state)].concat()
            }
        }
    }

    fn transport(&self, state: &State) -> Vec<Byte> {
        // SYN, with ECE and CWR of clients that ask for ECN.
        let flags = Byte { value: 0x02, known: 0x3f, ..Byte::unknown(Doubt::Client) };
        let numbers = [unknown_bytes(4, Doubt::Client), known_bytes(&[0; 4]), unknown_bytes(1, Doubt::Client), vec![flags]];
        [self.source_port(), Self::destination_port(state), numbers.concat(), unknown_bytes(6, Doubt::Client)].concat()
    }

    pub(super) fn input_index(&self) -> Vec<Byte> {
        match self.ingress {
            Some(ingress) => known_bytes(&ingress.index.to_ne_bytes()),
            None => {
                let mut bytes = unknown_bytes(4, Doubt::Client);
                bytes.iter_mut().take(1).for_each(|byte| byte.origin = Origin::IifIndex);
                bytes
            }
        }
    }

    /// The name in the 16 bytes of `IFNAMSIZ`.
    pub(super) fn input_name(&self) -> Vec<Byte> {
        match self.ingress {
            Some(ingress) => {
                let padded: Vec<u8> = ingress.name.bytes().take(15).chain(std::iter::repeat(0)).take(16).collect();
                known_bytes(&padded)
            }
            None => {
                let mut bytes = unknown_bytes(16, Doubt::Client);
                bytes.iter_mut().take(1).for_each(|byte| byte.origin = Origin::IifName);
                bytes
            }
        }
    }
}
