//! What `meta`, `ct` and `fib` put into a register for the packet.

use super::bits::{Byte, Doubt, Match, Word, known_bytes, unknown_bytes};
use super::connection::{Packet, octets};
use super::state::State;
use crate::net::{Endpoint, Family};
use crate::netfilter::keys::{ct, fib, meta, state as bits};
use crate::netfilter::ruleset::{BaseChain, Hook};

/// The result of a load. `Break` ends the rule without a match (`NFT_BREAK`).
pub(super) enum Load {
    Bytes(Vec<Byte>),
    Break,
}

impl Load {
    fn unknown(len: usize, doubt: Doubt) -> Self {
        Self::Bytes(unknown_bytes(len, doubt))
    }

    fn known(bytes: &[u8]) -> Self {
        Self::Bytes(known_bytes(bytes))
    }

    fn number(value: u32) -> Self {
        Self::known(&value.to_ne_bytes())
    }
}

/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
pub(super) fn nfproto(packet: &Packet<'_>) -> u8 {
    match packet.connection.family() {
        Family::Ipv4 => 2,
        Family::Ipv6 => 10,
    }
}

/// `meta KEY` (`net/netfilter/nft_meta.c`).
pub(super) fn meta(packet: &Packet<'_>, state: &State, key: u32) -> Load {
    // A property of the interface: of a named one it is simply not read, of any one it differs.
    let of_interface = if packet.ingress.is_some() { Doubt::Undecided } else { Doubt::Client };
    match key {
        meta::LEN | meta::CPU => Load::unknown(4, Doubt::Client),
        meta::SECPATH => Load::unknown(1, Doubt::Client),
        meta::PROTOCOL => Load::known(&packet.ether_type().to_be_bytes()),
        meta::MARK => Load::Bytes(state.mark.bytes()),
        meta::IIF => Load::Bytes(packet.input_index()),
        meta::IIFNAME => Load::Bytes(packet.input_name()),
        // There is no output interface on the way in.
        meta::OIF => Load::number(0),
        meta::OIFNAME => Load::known(&[0; 16]),
        meta::OIFTYPE | meta::OIFGROUP | meta::OIFKIND | meta::BRI_OIFNAME => Load::Break,
        // No socket yet, unless TPROXY gave it one.
        meta::SKUID | meta::SKGID | meta::CGROUP if state.taken.is_none() => Load::Break,
        meta::NFTRACE => Load::known(&[0]),
        meta::NFPROTO => Load::known(&[nfproto(packet)]),
        meta::L4PROTO => Load::known(&[6]),
        // PACKET_HOST.
        meta::PKTTYPE => Load::known(&[0]),
        meta::IIFTYPE => Load::unknown(2, of_interface),
        meta::IIFGROUP | meta::SDIF => Load::unknown(4, of_interface),
        meta::IIFKIND | meta::SDIFNAME | meta::BRI_IIFNAME => Load::unknown(16, of_interface),
        _ => Load::unknown(16, Doubt::Undecided),
    }
}

/// Whether the packet has its entry in connection tracking on this hook (`NF_IP_PRI_CONNTRACK`, -200).
pub(super) fn is_tracked(base: &BaseChain, state: &State) -> Match {
    match base.hook {
        _ if state.untracked => Match::No,
        Hook::Ingress => Match::No,
        Hook::Prerouting if base.priority < -200 => Match::No,
        Hook::Prerouting if base.priority == -200 => Match::UNDECIDED,
        Hook::Prerouting | Hook::Input | Hook::Other => Match::Yes,
    }
}

/// The bits of `ct state`; the untracked bit differs between nft and xt.
pub(super) fn ct_state(base: &BaseChain, state: &State, untracked: u32) -> Word {
    match is_tracked(base, state) {
        Match::Yes => Word::known(bits::NEW),
        Match::No if state.untracked => Word::known(untracked),
        Match::No => Word::known(bits::INVALID),
        Match::Maybe(doubt) => Word::unknown(doubt),
    }
}

/// The bits of `ct status` that a new connection has: nothing but what nat did. Those that say that nat is done are not modelled.
pub(super) fn ct_status(state: &State) -> Word {
    let by_nat = if state.translated && state.taken.is_some() { bits::IPS_DST_NAT } else { 0 };
    Word::unknown(Doubt::Undecided).blend(Word::known(by_nat), 0x3f)
}

/// `ct KEY` (`net/netfilter/nft_ct.c`).
pub(super) fn ct(packet: &Packet<'_>, base: &BaseChain, state: &State, key: u32, reply: bool) -> Load {
    if key == ct::STATE {
        return Load::Bytes(ct_state(base, state, bits::UNTRACKED).bytes());
    }
    match is_tracked(base, state) {
        Match::Yes => {}
        Match::No => return Load::Break,
        Match::Maybe(doubt) => return Load::unknown(16, doubt),
    }
    let own = packet.connection.destination;
    match key {
        ct::DIRECTION => Load::known(&[0]),
        ct::STATUS => Load::Bytes(ct_status(state).bytes()),
        ct::MARK => Load::Bytes(state.ct_mark.bytes()),
        ct::L3PROTOCOL => Load::known(&[nfproto(packet)]),
        ct::PROTOCOL => Load::known(&[6]),
        ct::SRC | ct::SRC_IP | ct::SRC_IP6 if !reply => Load::Bytes(packet.source()),
        ct::DST | ct::DST_IP | ct::DST_IP6 if !reply => Load::known(&octets(own.address)),
        ct::PROTO_SRC if !reply => Load::Bytes(packet.source_port()),
        ct::PROTO_DST if !reply => Load::known(&own.port.to_be_bytes()),
        ct::SRC | ct::SRC_IP | ct::SRC_IP6 => Load::Bytes(packet.destination(state)),
        ct::DST | ct::DST_IP | ct::DST_IP6 => Load::Bytes(packet.source()),
        ct::PROTO_SRC => Load::Bytes(Packet::destination_port(state)),
        ct::PROTO_DST => Load::Bytes(packet.source_port()),
        _ => Load::unknown(16, Doubt::Undecided),
    }
}

/// The destination is an address of this node; with `by_interface`, of the input interface.
pub(super) fn is_local(packet: &Packet<'_>, state: &State, by_interface: bool) -> Match {
    let Some(address) = state.address else { return Match::UNDECIDED };
    if !packet.connection.is_local(address) {
        return Match::UNDECIDED;
    }
    match (by_interface, packet.ingress) {
        (true, Some(ingress)) if ingress.addresses.contains(&address) => Match::Yes,
        (true, Some(ingress)) if !ingress.addresses.is_empty() => Match::No,
        (true, _) => Match::UNDECIDED,
        (false, _) => Match::Yes,
    }
}

/// Whether the destination's socket is a transparent one, bound to its very address unless `wildcard` ones count too.
/// A `socket` match finds the listener, since a new connection has no socket of its own.
pub(super) fn transparent_socket(packet: &Packet<'_>, state: &State, wildcard: bool) -> Match {
    let (Some(listeners), Some(port), Some(address)) = (&packet.connection.transparent, state.port, state.address) else {
        return Match::UNDECIDED;
    };
    let fits = |at: &Endpoint| at.port == port && (at.address == address || (wildcard && at.address.is_unspecified()));
    // One that fits may still stand behind another listener.
    if listeners.iter().any(fits) { Match::UNDECIDED } else { Match::No }
}

/// `fib` (`net/ipv4/netfilter/nft_fib_ipv4.c`): the type of the destination or of the client, or the way back to the client.
pub(super) fn fib(packet: &Packet<'_>, state: &State, result: u32, flags: u32) -> Load {
    const UNICAST: u32 = 1;
    const LOCAL: u32 = 2;
    let of_client = flags & fib::SADDR != 0;
    let way_back = if of_client { Doubt::Client } else { Doubt::Undecided };
    match result {
        // A client on the wire never has an address of this node.
        fib::RESULT_ADDRTYPE if of_client => Load::number(UNICAST),
        fib::RESULT_ADDRTYPE => match is_local(packet, state, flags & fib::IIF != 0) {
            Match::Yes => Load::number(LOCAL),
            Match::No => Load::number(UNICAST),
            Match::Maybe(doubt) => Load::unknown(4, doubt),
        },
        _ if flags & fib::PRESENT != 0 => Load::unknown(1, way_back),
        fib::RESULT_OIFNAME => Load::unknown(16, way_back),
        _ => Load::unknown(4, way_back),
    }
}
