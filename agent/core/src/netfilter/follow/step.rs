//! One expression of nf_tables, on the registers and the packet.

use super::bits::{Bounded, Byte, Doubt, Match, Registers, Word, compare, unknown_bytes, value_of, within};
use super::load::{self, Load};
use super::rule::Step;
use super::state::{Address, End, Stage, State};
use super::walk::{At, Walk};
use super::worlds::Worlds;
use super::{nat, xt_match};
use crate::net::Family;
use crate::netfilter::expr::{Base, BitwiseOp, Expr, Nat, Reg, address_of};
use crate::netfilter::keys::{ct, meta};
use crate::netfilter::ruleset::Hook;

const fn size(len: u32) -> usize {
    if len > 64 { 64 } else { len as usize }
}

fn put(regs: &mut Registers, dreg: Reg, load: Load) -> Match {
    match load {
        Load::Bytes(bytes) => regs.store(dreg, &bytes),
        Load::Break => return Match::No,
    }
    Match::Yes
}

fn put_unknown(regs: &mut Registers, dreg: Reg, len: usize, doubt: Doubt) -> Match {
    put(regs, dreg, Load::Bytes(unknown_bytes(len, doubt)))
}

impl<'a> Walk<'_, 'a> {
    pub(super) fn step(&mut self, at: At<'a>, number: usize, expr: &'a Expr, regs: &mut Registers, state: &mut State) -> Step<'a> {
        let base = at.base.chain;
        match expr {
            Expr::Payload { .. } | Expr::Meta { .. } | Expr::Ct { .. } | Expr::Fib { .. } | Expr::Socket { .. } | Expr::Rt { .. } => {
                Step::Go(self.load(at, expr, regs, state))
            }
            Expr::Hash { .. } | Expr::Numgen { .. } | Expr::Exthdr { .. } | Expr::Osf { .. } => Step::Go(generate(expr, regs)),
            Expr::Bitwise { .. } | Expr::Byteorder { .. } | Expr::Value { .. } => Step::Go(transform(expr, regs)),
            Expr::Cmp { op, sreg, data } => Step::Go(compare(regs.load(*sreg, data.len()), *op, data)),
            Expr::Range { sreg, inverted, from, to } => Step::Go(within(regs.load(*sreg, from.len()), from, to).inverted(*inverted)),
            Expr::Lookup { set, sreg, dest, inverted } => self.lookup(at, set, *sreg, *dest, *inverted, regs),
            Expr::PayloadWrite { base, offset, len, sreg } => {
                let bytes = regs.load(*sreg, size(*len)).to_vec();
                if nat::rewrite(&self.packet, at.site, state, (*base, size(*offset)), &bytes) {
                    Step::Go(Match::Yes)
                } else {
                    Step::Done(self.give_up(at.site))
                }
            }
            Expr::MetaSet { key, sreg } => {
                if *key == meta::MARK {
                    state.mark = Word::from_bytes(regs.load(*sreg, 4));
                }
                Step::Go(Match::Yes)
            }
            Expr::CtSet { key, sreg } => {
                if *key == ct::MARK && load::is_tracked(base, state) != Match::No {
                    state.ct_mark = Word::from_bytes(regs.load(*sreg, 4));
                }
                Step::Go(Match::Yes)
            }
            Expr::Immediate(verdict) => Step::Done(self.verdict(at, number, verdict, state)),
            Expr::Nat(translation) => self.nft_nat(at, number, translation, regs, state),
            Expr::Redir { port_min, port_max, flags } => {
                let ports = ports(regs, *port_min, *port_max);
                let change = nat::Change { address: nat::redirect_address(&self.packet), ports, random: nat::is_random(*flags) };
                Step::Done(self.translate(at, number, &change, state))
            }
            Expr::Tproxy { family, address, port } => self.nft_tproxy(at, *family, (*address, *port), regs, state),
            Expr::Masq => Step::Done(Worlds::at(Stage::Accepted, state.clone())),
            Expr::Reject { .. } => Step::Done(Worlds::end(End::Dropped(at.site))),
            Expr::Queue { .. } | Expr::Synproxy | Expr::Objref { kind: 10, .. } => {
                let accepted = Worlds::at(Stage::Accepted, state.clone());
                Step::Done(Self::either(at.site, number, accepted, &Worlds::end(End::Dropped(at.site))))
            }
            Expr::Notrack => {
                state.untracked |= base.hook == Hook::Prerouting && base.priority < -200;
                Step::Go(Match::Yes)
            }
            // One connection is within a rate, the next one may not be.
            Expr::Limit { .. } | Expr::Connlimit { .. } | Expr::Dynset { .. } | Expr::Objref { kind: 4 | 5, .. } => Step::Go(Match::CLIENT),
            Expr::Quota { .. } | Expr::Objref { kind: 2, .. } | Expr::ObjrefMap { .. } => Step::Go(Match::UNDECIDED),
            Expr::Counter | Expr::Last | Expr::Log { .. } | Expr::FlowOffload | Expr::Objref { .. } => Step::Go(Match::Yes),
            Expr::Entry(entry) => Step::Go(xt_match::entry(&self.packet, state, entry)),
            Expr::Match(matched) => {
                let answer = xt_match::matches(&self.packet, base, state, matched);
                xt_match::after(matched, state);
                Step::Go(answer)
            }
            Expr::Target(target) => self.xt_target(at, number, target, state),
            Expr::Unknown { name } => match name.as_str() {
                "dup" => Step::Go(Match::Yes),
                "fwd" => Step::Done(Worlds::end(End::Dropped(at.site))),
                _ => Step::Anything,
            },
        }
    }

    fn load(&self, at: At<'a>, expr: &Expr, regs: &mut Registers, state: &State) -> Match {
        let packet = &self.packet;
        match expr {
            // A SYN has no payload, unless a client uses TCP Fast Open.
            Expr::Payload { base: Base::Inner, len, dreg, .. } => {
                put_unknown(regs, *dreg, size(*len), Doubt::Client);
                Match::CLIENT
            }
            Expr::Payload { base, offset, len, dreg } => {
                put(regs, *dreg, Load::Bytes(packet.header(state, *base, size(*offset), size(*len))))
            }
            Expr::Meta { key, dreg } => put(regs, *dreg, load::meta(packet, state, *key)),
            Expr::Ct { key, dreg, reply } => put(regs, *dreg, load::ct(packet, at.base.chain, state, *key, reply.unwrap_or(false))),
            Expr::Fib { result, flags, dreg } => put(regs, *dreg, load::fib(packet, state, *result, *flags)),
            // No such socket: not transparent, or none at all.
            Expr::Socket { key: 0, dreg, .. } if load::transparent_socket(packet, state, true) == Match::No => {
                put(regs, *dreg, Load::Bytes(vec![Byte::known(0)]));
                Match::UNDECIDED
            }
            // Whether a socket is there, and with which options, is not in the rules.
            Expr::Socket { dreg, .. } | Expr::Rt { dreg, .. } => {
                put_unknown(regs, *dreg, 16, Doubt::Undecided);
                Match::UNDECIDED
            }
            _ => Match::UNDECIDED,
        }
    }

    fn nft_nat(&mut self, at: At<'a>, number: usize, translation: &Nat, regs: &Registers, state: &State) -> Step<'a> {
        if translation.family != load::nfproto(&self.packet) {
            return Step::Go(Match::Yes);
        }
        if !translation.destination {
            return Step::Done(Worlds::at(Stage::Accepted, state.clone()));
        }
        let len = match self.packet.connection.family() {
            Family::Ipv4 => 4,
            Family::Ipv6 => 16,
        };
        let known = |reg: Reg| value_of(regs.load(reg, len)).and_then(|bytes| address_of(&bytes));
        let address = translation.address_min.map(|min| {
            let max = translation.address_max.unwrap_or(min);
            known(min).zip(known(max)).map_or(Address::Unknown, |(min, max)| Address::Range(min, max))
        });
        let address = match address {
            Some(Address::Range(min, max)) if translation.flags & crate::netfilter::keys::nat_range::NETMAP != 0 => {
                Some(nat::netmap(state, min, max))
            }
            other => other,
        };
        let ports = ports(regs, translation.port_min, translation.port_max);
        let change = nat::Change { address, ports, random: nat::is_random(translation.flags) };
        Step::Done(self.translate(at, number, &change, state))
    }
}

/// Ports in registers, in network order. None: not asked for; the outer value says that they are not known.
fn ports(regs: &Registers, min: Option<Reg>, max: Option<Reg>) -> nat::Ports {
    let Some(min) = min else { return nat::Ports::Kept };
    let known = |reg: Reg| match value_of(regs.load(reg, 2)).as_deref() {
        Some([high, low]) => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    };
    known(min).zip(known(max.unwrap_or(min))).map_or(nat::Ports::Unknown, |(min, max)| nat::Ports::Range(min, max))
}

/// `hash`, `numgen`, `exthdr`, `osf`.
fn generate(expr: &Expr, regs: &mut Registers) -> Match {
    let number = |regs: &mut Registers, dreg: Reg, modulus: u32, offset: u32, doubt: Doubt| {
        put_unknown(regs, dreg, 4, doubt);
        regs.bounded = Some(Bounded { reg: dreg, first: offset, count: modulus.max(1), swapped: false, doubt });
        Match::Yes
    };
    match expr {
        // By addresses and ports: each client has its own.
        Expr::Hash { dreg, modulus, offset, .. } => number(regs, *dreg, *modulus, *offset, Doubt::Client),
        // By chance, for every client.
        Expr::Numgen { dreg, modulus, offset, .. } => number(regs, *dreg, *modulus, *offset, Doubt::Undecided),
        Expr::Exthdr { dreg: None, .. } => Match::Yes,
        Expr::Exthdr { op: 1, len, present, dreg: Some(dreg), .. } => {
            put_unknown(regs, *dreg, size(*len).max(1), Doubt::Client);
            if *present { Match::Yes } else { Match::CLIENT }
        }
        // An ordinary client sends no IP options and no extension headers.
        Expr::Exthdr { present: true, dreg: Some(dreg), .. } => put(regs, *dreg, Load::Bytes(vec![Byte::known(0)])),
        Expr::Exthdr { .. } => Match::No,
        Expr::Osf { dreg } => put_unknown(regs, *dreg, 16, Doubt::Client),
        _ => Match::UNDECIDED,
    }
}

/// `bitwise`, `byteorder`, `immediate` of a value.
fn transform(expr: &Expr, regs: &mut Registers) -> Match {
    match expr {
        Expr::Bitwise { sreg, dreg, len, op } => match op {
            BitwiseOp::MaskXor { mask, xor } => regs.mask_xor(*sreg, *dreg, size(*len), mask, xor),
            BitwiseOp::ShiftLeft(bits) => regs.shift(*sreg, *dreg, size(*len), true, *bits),
            BitwiseOp::ShiftRight(bits) => regs.shift(*sreg, *dreg, size(*len), false, *bits),
            BitwiseOp::Other => {
                put_unknown(regs, *dreg, size(*len), Doubt::Undecided);
            }
        },
        Expr::Byteorder { sreg, dreg, len, size: unit } => regs.swap(*sreg, *dreg, size(*len), size(*unit)),
        Expr::Value { dreg, data } => regs.store(*dreg, &super::bits::known_bytes(data)),
        _ => {}
    }
    Match::Yes
}
