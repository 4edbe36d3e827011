//! Matches of iptables, and what a legacy entry itself matches.

use std::net::IpAddr;

use super::bits::{Byte, Doubt, Match, Word, equals, known_bytes, unknown_bytes, within};
use super::connection::{Packet, octets};
use super::load;
use super::state::State;
use crate::netfilter::keys::state as bits;
use crate::netfilter::ruleset::BaseChain;
use crate::netfilter::xt::{Conntrack, Interface, Masked, Ports, Tcp, XtEntry, XtMatch};

/// Matches that tell clients, or one moment from another.
const BY_CLIENT: [&str; 15] =
    ["limit", "hashlimit", "recent", "connlimit", "mac", "geoip", "ttl", "hl", "tos", "dscp", "ecn", "length", "tcpmss", "osf", "rpfilter"];
/// Matches of other protocols, of output, and of headers that an ordinary SYN does not have.
const NEVER: [&str; 16] =
    ["icmp", "icmp6", "icmpv6", "udplite", "sctp", "dccp", "ah", "esp", "ipcomp", "owner", "frag", "rt", "ipv6header", "hbh", "dst", "mh"];

const XT_SOCKET_TRANSPARENT: u8 = 1;
const XT_SOCKET_NOWILDCARD: u8 = 2;

fn masked(packet: &[Byte], wanted: &Masked) -> Match {
    let (address, mask) = (octets(wanted.address), octets(wanted.mask));
    if address.len() != packet.len() || mask.len() != packet.len() {
        return Match::No.inverted(wanted.inverted);
    }
    let kept: Vec<Byte> =
        packet.iter().zip(&mask).map(|(byte, mask)| Byte { value: byte.value & mask, known: byte.known | !mask, ..*byte }).collect();
    equals(&kept, &address).inverted(wanted.inverted)
}

fn interface(name: &[Byte], wanted: &Interface) -> Match {
    let mut bytes = wanted.name.as_bytes().to_vec();
    if !wanted.prefix {
        bytes.push(0);
    }
    equals(name, &bytes).inverted(wanted.inverted)
}

/// What the entry itself matches (`ip_packet_match`).
pub(super) fn entry(packet: &Packet<'_>, state: &State, entry: &XtEntry) -> Match {
    let no_interface = known_bytes(&[0; 16]);
    let answers = [
        entry.source.map(|wanted| masked(&packet.source(), &wanted)),
        entry.destination.map(|wanted| masked(&packet.destination(state), &wanted)),
        entry.input.as_ref().map(|wanted| interface(&packet.input_name(), wanted)),
        entry.output.as_ref().map(|wanted| interface(&no_interface, wanted)),
        entry.protocol.map(|(protocol, inverted)| Match::of((protocol == 6) != inverted)),
        entry.fragment.map(Match::of),
        entry.traffic_class.then_some(Match::CLIENT),
    ];
    answers.into_iter().flatten().fold(Match::Yes, Match::and)
}

fn port_in(port: &[Byte], first: u16, last: u16) -> Match {
    within(port, &first.to_be_bytes(), &last.to_be_bytes())
}

fn ports(port: &[Byte], wanted: Ports) -> Match {
    port_in(port, wanted.first, wanted.last).inverted(wanted.inverted)
}

/// The flags of the SYN; an ECN client's may differ in two bits.
fn tcp(packet: &Packet<'_>, state: &State, wanted: &Tcp) -> Match {
    const SYN: u32 = 0x02;
    let flags = Word::known(SYN).blend(Word::unknown(Doubt::Client), 0xc0);
    let by_flags = flags.matches(u32::from(wanted.flags_value), u32::from(wanted.flags_mask)).inverted(wanted.flags_inverted);
    let by_option = if wanted.option.is_some() { Match::CLIENT } else { Match::Yes };
    let source = ports(&packet.source_port(), wanted.source);
    source.and(ports(&Packet::destination_port(state), wanted.destination)).and(by_flags).and(by_option)
}

fn any_of(port: &[Byte], ranges: &[(u16, u16)]) -> Match {
    ranges.iter().map(|(first, last)| port_in(port, *first, *last)).fold(Match::No, Match::or)
}

/// The mask has the bit of a type of address (`1 << RTN_*`).
fn has(mask: u16, kind: u32) -> bool {
    u32::from(mask) >> kind & 1 != 0
}

fn addrtype(packet: &Packet<'_>, state: &State, source: (u16, bool), destination: (u16, bool), limits: (bool, bool)) -> Match {
    const UNICAST: u32 = 1;
    const LOCAL: u32 = 2;
    let by_source = if source.0 == 0 { Match::Yes } else { Match::of(has(source.0, UNICAST) != source.1) };
    let by_destination = if destination.0 == 0 {
        Match::Yes
    } else {
        let kind = match load::is_local(packet, state, limits.0) {
            Match::Yes => Match::of(has(destination.0, LOCAL)),
            Match::No => Match::of(has(destination.0, UNICAST)),
            unclear @ Match::Maybe(_) => unclear,
        };
        kind.inverted(destination.1)
    };
    let by_output = if limits.1 { Match::UNDECIDED } else { Match::Yes };
    by_source.and(by_destination).and(by_output)
}

/// `conntrack_mt` (`net/netfilter/xt_conntrack.c`).
fn conntrack(packet: &Packet<'_>, base: &BaseChain, state: &State, wanted: &Conntrack) -> Match {
    const STATE: u16 = 1;
    const PROTO: u16 = 1 << 1;
    const ORIGSRC: u16 = 1 << 2;
    const ORIGDST: u16 = 1 << 3;
    const REPLDST: u16 = 1 << 5;
    const STATUS: u16 = 1 << 6;
    const ORIGSRC_PORT: u16 = 1 << 8;
    const ORIGDST_PORT: u16 = 1 << 9;
    const REPLDST_PORT: u16 = 1 << 11;
    const DIRECTION: u16 = 1 << 12;
    let asks = |flag: u16| wanted.match_flags & flag != 0;
    let tracked = load::is_tracked(base, state);
    let translated = if tracked == Match::Yes { load::ct_status(state) } else { Word::known(0) };
    let by_state = {
        let plain = load::ct_state(base, state, bits::XT_UNTRACKED).any_of(u32::from(wanted.state_mask));
        let dnat = translated.any_of(bits::IPS_DST_NAT).and(Match::of(u32::from(wanted.state_mask) & bits::XT_DNAT != 0));
        plain.or(dnat)
    };
    let destination = packet.connection.destination;
    let by_destination = wanted.original_destination.map_or(Match::UNDECIDED, |(address, mask)| {
        masked(&known_bytes(&octets(destination.address.to_canonical())), &Masked { address, mask, inverted: false })
    });
    let by_port =
        wanted.original_destination_port.map_or(Match::UNDECIDED, |(first, last)| Match::of((first..=last).contains(&destination.port)));
    let answers = [
        (STATE, by_state),
        (PROTO, Match::of(wanted.protocol == 6)),
        (ORIGSRC | REPLDST | ORIGSRC_PORT | REPLDST_PORT, Match::CLIENT),
        (ORIGDST, by_destination),
        (ORIGDST_PORT, by_port),
        (STATUS, translated.any_of(u32::from(wanted.status_mask))),
        (DIRECTION, Match::Yes),
    ];
    let known = answers.iter().fold(0, |all, (flag, _)| all | flag) | 1 << 13;
    let asked = answers.into_iter().filter(|(flag, _)| asks(*flag));
    let rest = if asks(!known) { Match::UNDECIDED } else { Match::Yes };
    let answer = asked.fold(rest, |sum, (flag, answer)| {
        // Several questions about the client share one line: inverted or not, it is the client that decides.
        sum.and(answer.inverted(wanted.invert_flags & flag != 0))
    });
    match tracked {
        Match::Yes => answer,
        // Without an entry only the state is asked, and it must be asked.
        Match::No => Match::of(asks(STATE)).and(by_state.inverted(wanted.invert_flags & STATE != 0)),
        unclear @ Match::Maybe(_) => unclear,
    }
}

fn range(packet: &[Byte], wanted: Option<(IpAddr, IpAddr, bool)>) -> Match {
    wanted.map_or(Match::Yes, |(first, last, inverted)| within(packet, &octets(first), &octets(last)).inverted(inverted))
}

/// The answer of a match.
pub(super) fn matches(packet: &Packet<'_>, base: &BaseChain, state: &State, matched: &XtMatch) -> Match {
    match matched {
        XtMatch::Tcp(wanted) => tcp(packet, state, wanted),
        XtMatch::Udp => Match::No,
        XtMatch::Multiport { source, destination, ports, inverted } => {
            let of = |asked: bool, port: &[Byte]| if asked { any_of(port, ports) } else { Match::No };
            of(*source, &packet.source_port()).or(of(*destination, &Packet::destination_port(state))).inverted(*inverted)
        }
        XtMatch::Addrtype { source, destination, source_inverted, destination_inverted, limit_in, limit_out } => {
            addrtype(packet, state, (*source, *source_inverted), (*destination, *destination_inverted), (*limit_in, *limit_out))
        }
        XtMatch::Mark { value, mask, inverted } => state.mark.matches(*value, *mask).inverted(*inverted),
        XtMatch::Connmark { value, mask, inverted } => match load::is_tracked(base, state) {
            Match::Yes => state.ct_mark.matches(*value, *mask).inverted(*inverted),
            other => other,
        },
        XtMatch::Conntrack(wanted) => conntrack(packet, base, state, wanted),
        XtMatch::State { mask } => load::ct_state(base, state, bits::UNTRACKED).any_of(*mask),
        XtMatch::Comment(_) => Match::Yes,
        // A wildcard listener is passed over unless it is asked for (`net/netfilter/xt_socket.c`).
        XtMatch::Socket { flags } if flags & XT_SOCKET_TRANSPARENT != 0 => {
            load::transparent_socket(packet, state, flags & XT_SOCKET_NOWILDCARD != 0)
        }
        XtMatch::Socket { .. } => Match::UNDECIDED,
        XtMatch::Set { sources, .. } if !sources.is_empty() && sources.iter().all(|source| *source) => Match::CLIENT,
        XtMatch::Set { .. } => Match::UNDECIDED,
        XtMatch::Iprange { source, destination } => range(&packet.source(), *source).and(range(&packet.destination(state), *destination)),
        XtMatch::Unknown { name, .. } => match name.as_str() {
            name if BY_CLIENT.contains(&name) => Match::CLIENT,
            name if NEVER.contains(&name) => Match::No,
            // Counts and always matches.
            "nfacct" => Match::Yes,
            _ => Match::UNDECIDED,
        },
    }
}

/// What a match changes of the packet: `socket --restore-skmark` takes the mark of a socket.
pub(super) fn after(matched: &XtMatch, state: &mut State) {
    const RESTORE_SKMARK: u8 = 4;
    if matches!(matched, XtMatch::Socket { flags } if flags & RESTORE_SKMARK != 0) {
        state.mark = Word::from_bytes(&unknown_bytes(4, Doubt::Undecided));
    }
}
