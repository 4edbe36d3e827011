//! Words for what needs no register: verdicts, simple statements, and the kinds of what `meta` and `ct` load.

use super::value::Kind;
use crate::netfilter::expr::{Expr, Verdict};
use crate::netfilter::keys::{ct, meta};
use crate::render::text::sanitise;

pub(super) fn size(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

pub(super) fn verdict_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Queue => "queue".to_owned(),
        Verdict::Continue => "continue".to_owned(),
        Verdict::Return => "return".to_owned(),
        Verdict::Jump(chain) => format!("jump {}", sanitise(chain)),
        Verdict::Goto(chain) => format!("goto {}", sanitise(chain)),
        Verdict::Other(number) => format!("verdict {number}"),
    }
}

/// Statements that need no register.
pub(super) fn simple_statement(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Masq => "masquerade".to_owned(),
        Expr::Limit { rate, per, over, bytes, .. } => {
            let unit = match per {
                1 => "second",
                60 => "minute",
                3_600 => "hour",
                86_400 => "day",
                _ => "week",
            };
            format!("limit rate {}{rate}{}/{unit}", if *over { "over " } else { "" }, if *bytes { " bytes" } else { "" })
        }
        Expr::Quota { bytes, over } => format!("quota {}{bytes} bytes", if *over { "over " } else { "" }),
        Expr::Connlimit { count, over } => format!("ct count {}{count}", if *over { "over " } else { "" }),
        Expr::Log { prefix: Some(prefix) } => format!("log prefix \"{}\"", sanitise(prefix)),
        Expr::Log { prefix: None } => "log".to_owned(),
        Expr::Reject { kind: 1, .. } => "reject with tcp reset".to_owned(),
        Expr::Reject { .. } => "reject".to_owned(),
        Expr::Queue { number, bypass } => format!("queue{} to {number}", if *bypass { " flags bypass" } else { "" }),
        Expr::Notrack => "notrack".to_owned(),
        Expr::Synproxy => "synproxy".to_owned(),
        Expr::FlowOffload => "flow add".to_owned(),
        Expr::Objref { name, kind } => format!("object {kind} name \"{}\"", sanitise(name)),
        Expr::ObjrefMap { set, .. } => format!("object map @{}", sanitise(set)),
        Expr::Dynset { set, delete, .. } => format!("{} @{}", if *delete { "delete" } else { "add" }, sanitise(set)),
        Expr::Unknown { name } => format!("[{}]", sanitise(name)),
        // Counters count and say nothing of the way.
        _ => return None,
    })
}

pub(super) const fn meta_kind(key: u32) -> Kind {
    match key {
        meta::MARK => Kind::Mark,
        meta::IIFNAME | meta::OIFNAME | meta::BRI_IIFNAME | meta::BRI_OIFNAME | meta::IIFKIND | meta::OIFKIND | meta::SDIFNAME => {
            Kind::Name
        }
        meta::L4PROTO => Kind::Protocol,
        meta::NFPROTO => Kind::Nfproto,
        meta::PROTOCOL => Kind::EtherType,
        meta::PKTTYPE => Kind::PacketType,
        meta::SECPATH => Kind::Existence,
        _ => Kind::HostNumber,
    }
}

pub(super) const fn meta_len(key: u32) -> usize {
    match meta_kind(key) {
        Kind::Name => 16,
        Kind::Protocol | Kind::Nfproto | Kind::PacketType | Kind::Existence => 1,
        Kind::EtherType => 2,
        _ => 4,
    }
}

pub(super) const fn ct_kind(key: u32) -> Kind {
    match key {
        ct::STATE => Kind::CtState,
        ct::STATUS => Kind::CtStatus,
        ct::MARK => Kind::Mark,
        ct::PROTOCOL => Kind::Protocol,
        ct::PROTO_SRC | ct::PROTO_DST => Kind::Number,
        ct::SRC_IP | ct::DST_IP => Kind::Address(4),
        ct::SRC_IP6 | ct::DST_IP6 => Kind::Address(16),
        _ => Kind::Bytes,
    }
}
