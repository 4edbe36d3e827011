//! Expressions by their name. One that is not known, or lacks what it always has, keeps its name and nothing else: it stays in the
//! rule as something that can't be decided. Attribute numbers: `include/uapi/linux/netfilter/nf_tables.h`.

use super::attributes::Nest;
use super::data::data;
use super::wire::find;
use crate::decode::inet_diag_attributes::Attributes;
use crate::decode::xt::{decode_match, decode_target};
use crate::net::Family;
use crate::netfilter::expr::{Base, BitwiseOp, CmpOp, Data, Expr, Nat};
use crate::netfilter::ruleset::TableFamily;

const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;

/// Decodes one expression (the nest of a list element). None: it has no name, which is no expression at all.
pub(super) fn decode_expression(family: TableFamily, nest: &[u8]) -> Option<Expr> {
    let name = Nest(nest).text(EXPR_NAME)?;
    // notrack and others without attributes have no nest.
    let nest = Nest(find(nest, EXPR_DATA).unwrap_or_default());
    let decoded = packet(&name, nest).or_else(|| compared(&name, nest)).or_else(|| acting(&name, nest)).or_else(|| limited(&name, nest));
    Some(decoded.or_else(|| compat(family, &name, nest)).unwrap_or(Expr::Unknown { name }))
}

/// Whether an element's or dynset's expression can end the match.
pub(super) fn is_conditional(nest: &[u8]) -> bool {
    let name = Nest(nest).text(EXPR_NAME);
    !matches!(name.as_deref(), Some("counter" | "last"))
}

/// Those that read something into a register, or write it back.
fn packet(name: &str, nest: Nest<'_>) -> Option<Expr> {
    Some(match name {
        "payload" => payload(nest)?,
        "inner" => inner(nest)?,
        "meta" => match nest.reg(1) {
            Some(dreg) => Expr::Meta { key: nest.number(2)?, dreg },
            None => Expr::MetaSet { key: nest.number(2)?, sreg: nest.reg(3)? },
        },
        "ct" => match nest.reg(1) {
            Some(dreg) => Expr::Ct { key: nest.number(2)?, dreg, reply: nest.byte(3).map(|direction| direction != 0) },
            None => Expr::CtSet { key: nest.number(2)?, sreg: nest.reg(4)? },
        },
        "fib" => Expr::Fib { result: nest.number(2)?, flags: nest.number(3)?, dreg: nest.reg(1)? },
        "socket" => Expr::Socket { key: nest.number(1)?, level: nest.number_or_0(3), dreg: nest.reg(2)? },
        "rt" => Expr::Rt { key: nest.number(2)?, dreg: nest.reg(1)? },
        "hash" => Expr::Hash {
            sreg: nest.reg(1),
            len: nest.number_or_0(3),
            dreg: nest.reg(2)?,
            modulus: nest.number(4)?,
            offset: nest.number_or_0(6),
        },
        "numgen" => {
            Expr::Numgen { dreg: nest.reg(1)?, modulus: nest.number(2)?, offset: nest.number_or_0(4), random: nest.number(3)? == 1 }
        }
        "exthdr" => Expr::Exthdr {
            op: nest.number_or_0(6),
            kind: nest.byte(2)?,
            offset: nest.number_or_0(3),
            len: nest.number_or_0(4),
            present: nest.number_or_0(5) & 1 != 0,
            dreg: nest.reg(1),
        },
        "osf" => Expr::Osf { dreg: nest.reg(1)? },
        _ => return None,
    })
}

fn payload(nest: Nest<'_>) -> Option<Expr> {
    let base = match nest.number(2)? {
        0 => Base::Link,
        1 => Base::Network,
        2 => Base::Transport,
        _ => Base::Inner,
    };
    let (offset, len) = (nest.number(3)?, nest.number(4)?);
    Some(match nest.reg(1) {
        Some(dreg) => Expr::Payload { base, offset, len, dreg },
        None => Expr::PayloadWrite { base, offset, len, sreg: nest.reg(5)? },
    })
}

/// `inner`: a payload expression that looks into a tunnel.
fn inner(nest: Nest<'_>) -> Option<Expr> {
    const INNER_EXPR: u16 = 5;
    let wrapped = nest.bytes(INNER_EXPR)?;
    if Nest(wrapped).text(EXPR_NAME)? != "payload" {
        return None;
    }
    let nest = Nest(find(wrapped, EXPR_DATA)?);
    Some(Expr::Payload { base: Base::Inner, offset: nest.number(3)?, len: nest.number(4)?, dreg: nest.reg(1)? })
}

/// Those that compute with and compare registers.
fn compared(name: &str, nest: Nest<'_>) -> Option<Expr> {
    Some(match name {
        "cmp" => Expr::Cmp { op: CmpOp::from_kernel(nest.number(2)?)?, sreg: nest.reg(1)?, data: nest.value(3)? },
        "range" => Expr::Range { sreg: nest.reg(1)?, inverted: range_is_inverted(nest)?, from: nest.value(3)?, to: nest.value(4)? },
        "bitwise" => Expr::Bitwise { sreg: nest.reg(1)?, dreg: nest.reg(2)?, len: nest.number(3)?, op: bitwise(nest)? },
        "byteorder" => Expr::Byteorder { sreg: nest.reg(1)?, dreg: nest.reg(2)?, len: nest.number(4)?, size: nest.number(5)? },
        "lookup" => Expr::Lookup {
            set: nest.text(1)?,
            sreg: nest.reg(2)?,
            dest: if nest.has(3) { Some(nest.dest(3)?) } else { None },
            inverted: nest.number_or_0(5) & 1 != 0,
        },
        "immediate" => match (nest.dest(1)?, data(nest.bytes(2)?)?) {
            (crate::netfilter::expr::Dest::Verdict, Data::Verdict(verdict)) => Expr::Immediate(verdict),
            (crate::netfilter::expr::Dest::Data(dreg), Data::Value(data)) => Expr::Value { dreg, data },
            _ => return None,
        },
        _ => return None,
    })
}

fn range_is_inverted(nest: Nest<'_>) -> Option<bool> {
    match nest.number(2)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn bitwise(nest: Nest<'_>) -> Option<BitwiseOp> {
    let shift = || nest.value(7)?.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes));
    Some(match nest.number_or_0(6) {
        0 => BitwiseOp::MaskXor { mask: nest.value(4)?, xor: nest.value(5)? },
        1 => BitwiseOp::ShiftLeft(shift()?),
        2 => BitwiseOp::ShiftRight(shift()?),
        _ => BitwiseOp::Other,
    })
}

/// Those that do something with the packet.
fn acting(name: &str, nest: Nest<'_>) -> Option<Expr> {
    Some(match name {
        "nat" => Expr::Nat(Nat {
            destination: nest.number(1)? == 1,
            family: nest.small(2)?,
            address_min: nest.reg(3),
            address_max: nest.reg(4),
            port_min: nest.reg(5),
            port_max: nest.reg(6),
            flags: nest.number_or_0(7),
        }),
        "redir" => Expr::Redir { port_min: nest.reg(1), port_max: nest.reg(2), flags: nest.number_or_0(3) },
        "tproxy" => Expr::Tproxy { family: nest.small(1)?, address: nest.reg(2), port: nest.reg(3) },
        "masq" => Expr::Masq,
        "log" => Expr::Log { prefix: nest.text(2) },
        "reject" => Expr::Reject { kind: nest.number(1)?, code: nest.byte(2).unwrap_or(0) },
        "queue" => {
            let half = |kind: u16| nest.bytes(kind).and_then(|bytes| bytes.first_chunk::<2>()).map(|bytes| u16::from_be_bytes(*bytes));
            Expr::Queue { number: half(1).unwrap_or(0), bypass: half(3).unwrap_or(0) & 1 != 0 }
        }
        "notrack" => Expr::Notrack,
        "synproxy" => Expr::Synproxy,
        "flow_offload" => Expr::FlowOffload,
        "counter" => Expr::Counter,
        "last" => Expr::Last,
        _ => return None,
    })
}

/// Those that keep a state of their own.
fn limited(name: &str, nest: Nest<'_>) -> Option<Expr> {
    Some(match name {
        "limit" => Expr::Limit {
            rate: nest.long(1)?,
            per: nest.long(2)?,
            burst: nest.number_or_0(3),
            bytes: nest.number_or_0(4) == 1,
            over: nest.number_or_0(5) & 1 != 0,
        },
        "quota" => Expr::Quota { bytes: nest.long(1)?, over: nest.number_or_0(2) & 1 != 0 },
        "connlimit" => Expr::Connlimit { count: nest.number(1)?, over: nest.number_or_0(2) & 1 != 0 },
        "objref" => match nest.text(2) {
            Some(name) => Expr::Objref { kind: nest.number(1)?, name },
            None => Expr::ObjrefMap { set: nest.text(4)?, sreg: nest.reg(3)? },
        },
        "dynset" => dynset(nest)?,
        _ => return None,
    })
}

fn dynset(nest: Nest<'_>) -> Option<Expr> {
    const DELETE: u32 = 2;
    let listed = Attributes::new(nest.bytes(10).unwrap_or_default()).map_while(Result::ok).map(|(_, one)| one);
    let conditional = nest.bytes(7).into_iter().chain(listed).any(is_conditional);
    Some(Expr::Dynset {
        set: nest.text(1)?,
        sreg_key: nest.reg(4)?,
        conditional,
        inverted: nest.number_or_0(9) & 1 != 0,
        delete: nest.number(3)? == DELETE,
    })
}

/// Matches and targets of iptables-nft.
fn compat(family: TableFamily, name: &str, nest: Nest<'_>) -> Option<Expr> {
    let family = match family {
        TableFamily::Ip => Some(Family::Ipv4),
        TableFamily::Ip6 => Some(Family::Ipv6),
        TableFamily::Inet | TableFamily::Netdev => None,
    };
    let known = |kind: &str| name == kind;
    if !known("match") && !known("target") {
        return None;
    }
    let (extension, revision, info) = (nest.text(1)?, nest.number(2)?, nest.bytes(3).unwrap_or_default());
    Some(if known("match") {
        Expr::Match(decode_match(family, &extension, revision, info))
    } else {
        Expr::Target(decode_target(family, &extension, revision, info))
    })
}
