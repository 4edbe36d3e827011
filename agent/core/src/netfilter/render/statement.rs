//! Expressions as statements: what loads and what compares is put together again.

use super::elements::elements;
use super::header;
use super::value::{Kind, prefix_len};
use super::words::{ct_kind, meta_kind, meta_len, simple_statement, size, verdict_words};
use super::xt;
use crate::netfilter::expr::{BitwiseOp, CmpOp, Dest, Expr, Nat, Reg, Verdict};
use crate::netfilter::keys::{ct, fib, meta};
use crate::netfilter::ruleset::Table;
use crate::render::text::sanitise;

/// What a register holds.
#[derive(Clone)]
struct Holds {
    reg: Reg,
    text: String,
    kind: Kind,
    len: usize,
    mask: Option<Vec<u8>>,
    /// A value that the rule itself gave.
    literal: Option<Vec<u8>>,
}

struct Writer<'a> {
    table: &'a Table,
    registers: Vec<Holds>,
    protocol: Option<u8>,
    /// Each statement with the number of its last expression.
    out: Vec<(usize, String)>,
}

/// The statements of a rule, each with the number of its last expression.
pub(super) fn statements(table: &Table, exprs: &[Expr]) -> Vec<(usize, String)> {
    let mut writer = Writer { table, registers: Vec::new(), protocol: None, out: Vec::new() };
    for (number, expr) in exprs.iter().enumerate() {
        if let Some(text) = writer.expr(expr) {
            writer.out.push((number, text));
        }
    }
    without_dependencies(writer.out)
}

/// nft leaves out what it adds itself: `meta l4proto tcp` ahead of `tcp dport`, `meta nfproto ipv4` ahead of `ip saddr`.
fn without_dependencies(all: Vec<(usize, String)>) -> Vec<(usize, String)> {
    let implied = |text: &str, next: &str| match text {
        "meta l4proto tcp" | "ip protocol tcp" | "ip6 nexthdr tcp" => next.starts_with("tcp ") || next.contains(" tcp "),
        "meta l4proto udp" | "ip protocol udp" => next.starts_with("udp ") || next.contains(" udp "),
        "meta nfproto ipv4" => next.starts_with("ip "),
        "meta nfproto ipv6" => next.starts_with("ip6 "),
        _ => false,
    };
    let texts: Vec<String> = all.iter().map(|(_, text)| text.clone()).collect();
    let kept = |at: usize, text: &str| !texts.get(at + 1).is_some_and(|next| implied(text, next));
    all.into_iter().enumerate().filter(|(at, (_, text))| kept(*at, text)).map(|(_, statement)| statement).collect()
}

impl Writer<'_> {
    fn put(&mut self, reg: Reg, text: impl Into<String>, kind: Kind, len: usize) {
        let holds = Holds { reg, text: text.into(), kind, len, mask: None, literal: None };
        self.registers.retain(|known| known.reg != reg);
        self.registers.push(holds);
    }

    fn holds(&self, reg: Reg) -> Holds {
        let unknown = || Holds { reg, text: format!("reg {}", reg.0), kind: Kind::Bytes, len: 4, mask: None, literal: None };
        self.registers.iter().find(|known| known.reg == reg).cloned().unwrap_or_else(unknown)
    }

    /// The value in a register as nft would show it in a statement.
    fn shown(&self, reg: Reg, kind: Kind) -> String {
        let holds = self.holds(reg);
        holds.literal.as_ref().map_or_else(|| holds.text.clone(), |bytes| kind.show(bytes))
    }

    /// None: nothing to show yet.
    fn expr(&mut self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Payload { .. } | Expr::Meta { .. } | Expr::Ct { .. } | Expr::Fib { .. } | Expr::Value { .. } => self.load(expr),
            Expr::Socket { .. } | Expr::Rt { .. } | Expr::Hash { .. } | Expr::Numgen { .. } | Expr::Osf { .. } => self.generate(expr),
            Expr::Bitwise { sreg, dreg, op, .. } => {
                self.bitwise(*sreg, *dreg, op);
                None
            }
            Expr::Byteorder { sreg, dreg, .. } => {
                let mut holds = self.holds(*sreg);
                holds.kind = if holds.kind == Kind::HostNumber { Kind::Number } else { holds.kind };
                holds.reg = *dreg;
                self.registers.retain(|known| known.reg != *dreg);
                self.registers.push(holds);
                None
            }
            Expr::Exthdr { op, kind, present, dreg, .. } => {
                let what = if *op == 1 { "tcp option" } else { "exthdr" };
                match dreg {
                    Some(dreg) => {
                        let shown = if *present { Kind::Existence } else { Kind::Number };
                        self.put(*dreg, format!("{what} {kind}"), shown, 1);
                        None
                    }
                    None => Some(format!("{what} {kind} set")),
                }
            }
            Expr::Cmp { op, sreg, data } => Some(self.compare(*op, *sreg, data)),
            Expr::Range { sreg, inverted, from, to } => {
                let holds = self.holds(*sreg);
                let not = if *inverted { "!= " } else { "" };
                Some(format!("{} {not}{}-{}", holds.text, holds.kind.show(from), holds.kind.show(to)))
            }
            Expr::Lookup { set, sreg, dest, inverted } => self.lookup(set, *sreg, *dest, *inverted),
            Expr::PayloadWrite { base, offset, len, sreg } => {
                let (text, kind) = header::field(self.table.family, self.protocol, *base, *offset, *len);
                Some(format!("{text} set {}", self.shown(*sreg, kind)))
            }
            Expr::MetaSet { key, sreg } => Some(format!("meta {} set {}", meta::word(*key), self.shown(*sreg, meta_kind(*key)))),
            Expr::CtSet { key, sreg } => Some(format!("ct {} set {}", ct::word(*key), self.shown(*sreg, ct_kind(*key)))),
            Expr::Immediate(verdict) => Some(self.verdict(verdict)),
            Expr::Nat(nat) => Some(self.nat(nat)),
            Expr::Redir { port_min, port_max, .. } => Some(format!("redirect{}", self.ports(" to :", *port_min, *port_max))),
            Expr::Tproxy { address, port, .. } => {
                let address = address.map_or_else(String::new, |reg| self.shown(reg, self.address_kind(None)));
                Some(format!("tproxy to {address}{}", self.ports(":", *port, None)))
            }
            Expr::Match(matched) => Some(xt::render_match(matched, self.table.legacy)),
            Expr::Target(target) => Some(xt::render_target(target, self.table.legacy)),
            Expr::Entry(entry) => Some(xt::render_entry(entry)),
            simple => simple_statement(simple),
        }
    }

    fn load(&mut self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Payload { base, offset, len, dreg } => {
                let (text, kind) = header::field(self.table.family, self.protocol, *base, *offset, *len);
                self.put(*dreg, text, kind, size(*len));
            }
            Expr::Meta { key, dreg } => {
                let plain = matches!(*key, meta::IIF | meta::OIF | meta::IIFNAME | meta::OIFNAME);
                let text = if plain { meta::word(*key).to_owned() } else { format!("meta {}", meta::word(*key)) };
                self.put(*dreg, text, meta_kind(*key), meta_len(*key));
            }
            Expr::Ct { key, dreg, reply } => {
                let direction = match reply {
                    Some(true) => "reply ",
                    Some(false) => "original ",
                    None => "",
                };
                self.put(*dreg, format!("ct {direction}{}", ct::word(*key)), ct_kind(*key), 4);
            }
            Expr::Fib { result, flags, dreg } => {
                let names = [(fib::SADDR, "saddr"), (fib::DADDR, "daddr"), (fib::MARK, "mark"), (fib::IIF, "iif"), (fib::OIF, "oif")];
                let asked: Vec<&str> = names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
                let (word, kind) = match *result {
                    _ if flags & fib::PRESENT != 0 => ("oif", Kind::Existence),
                    fib::RESULT_ADDRTYPE => ("type", Kind::AddressType),
                    fib::RESULT_OIFNAME => ("oifname", Kind::Name),
                    _ => ("oif", Kind::HostNumber),
                };
                self.put(*dreg, format!("fib {} {word}", asked.join(" . ")), kind, 4);
            }
            Expr::Value { dreg, data } => {
                self.put(*dreg, Kind::Bytes.show(data), Kind::Bytes, data.len());
                self.registers.iter_mut().filter(|known| known.reg == *dreg).for_each(|known| known.literal = Some(data.clone()));
            }
            _ => {}
        }
        None
    }

    fn generate(&mut self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Socket { key, dreg, .. } => {
                let word = match key {
                    0 => "transparent",
                    1 => "mark",
                    2 => "wildcard",
                    _ => "cgroupv2",
                };
                self.put(*dreg, format!("socket {word}"), if *key == 1 { Kind::Mark } else { Kind::Number }, 4);
            }
            Expr::Rt { key, dreg } => self.put(*dreg, format!("rt key {key}"), Kind::Bytes, 4),
            Expr::Hash { sreg, dreg, modulus, .. } => {
                let of = sreg.map_or_else(|| "symhash".to_owned(), |reg| format!("jhash {}", self.holds(reg).text));
                self.put(*dreg, format!("{of} mod {modulus}"), Kind::HostNumber, 4);
            }
            Expr::Numgen { dreg, modulus, random, .. } => {
                let how = if *random { "random" } else { "inc" };
                self.put(*dreg, format!("numgen {how} mod {modulus}"), Kind::HostNumber, 4);
            }
            Expr::Osf { dreg } => self.put(*dreg, "osf name", Kind::Name, 16),
            _ => {}
        }
        None
    }

    fn bitwise(&mut self, sreg: Reg, dreg: Reg, op: &BitwiseOp) {
        let mut holds = self.holds(sreg);
        holds.reg = dreg;
        match op {
            BitwiseOp::MaskXor { mask, xor } => {
                let or: Vec<u8> = mask.iter().zip(xor).map(|(mask, xor)| !mask & xor).collect();
                if xor.iter().all(|byte| *byte == 0) {
                    holds.mask = Some(mask.clone());
                } else if or == *xor {
                    holds.text = format!("{} or {}", holds.text, holds.kind.show(xor));
                } else {
                    holds.text = format!("{} and {} xor {}", holds.text, holds.kind.show(mask), holds.kind.show(xor));
                }
            }
            BitwiseOp::ShiftLeft(bits) => holds.text = format!("{} << {bits}", holds.text),
            BitwiseOp::ShiftRight(bits) => holds.text = format!("{} >> {bits}", holds.text),
            BitwiseOp::Other => holds.text = format!("{} combined", holds.text),
        }
        holds.literal = None;
        self.registers.retain(|known| known.reg != dreg);
        self.registers.push(holds);
    }

    fn compare(&mut self, op: CmpOp, sreg: Reg, data: &[u8]) -> String {
        let holds = self.holds(sreg);
        let sign = match op {
            CmpOp::Eq => "",
            CmpOp::Neq => "!= ",
            CmpOp::Lt => "< ",
            CmpOp::Lte => "<= ",
            CmpOp::Gt => "> ",
            CmpOp::Gte => ">= ",
        };
        if holds.kind == Kind::Protocol && op == CmpOp::Eq {
            self.protocol = data.first().copied();
        }
        let zero = data.iter().all(|byte| *byte == 0);
        match (&holds.mask, holds.kind) {
            (Some(mask), kind) if kind.is_flags() && zero => {
                let not = if op == CmpOp::Eq { "! " } else { "" };
                format!("{} {not}{}", holds.text, kind.show(mask))
            }
            (Some(mask), Kind::Address(_)) if prefix_len(mask).is_some() => {
                format!("{} {sign}{}/{}", holds.text, holds.kind.show(data), prefix_len(mask).unwrap_or(0))
            }
            (Some(mask), kind) => {
                let equals = if op == CmpOp::Eq { "== " } else { sign };
                format!("{} & {} {equals}{}", holds.text, kind.show(mask), kind.show(data))
            }
            (None, Kind::HostNumber) if holds.text == "iif" && data == 1_u32.to_ne_bytes() => format!("iif {sign}\"lo\""),
            (None, kind) => format!("{} {sign}{}", holds.text, kind.show(data)),
        }
    }

    fn lookup(&mut self, name: &str, sreg: Reg, dest: Option<Dest>, inverted: bool) -> Option<String> {
        let set = self.table.sets.iter().find(|set| set.name == name);
        let fields = self.fields(sreg, set.map_or(4, |set| size(set.key_len)));
        let key = fields.iter().map(|field| field.text.clone()).collect::<Vec<_>>().join(" . ");
        let shown = match set {
            Some(set) if set.flags.anonymous => {
                let kinds: Vec<(Kind, usize)> = fields.iter().map(|field| (field.kind, field.len)).collect();
                elements(set, &kinds)
            }
            _ => format!("@{}", sanitise(name)),
        };
        match dest {
            None => Some(format!("{key} {}{shown}", if inverted { "!= " } else { "" })),
            Some(Dest::Verdict) => Some(format!("{key} vmap {shown}")),
            Some(Dest::Data(reg)) => {
                self.put(reg, format!("{key} map {shown}"), Kind::Bytes, 4);
                None
            }
        }
    }

    /// What the registers of a key hold, one after the other.
    fn fields(&self, from: Reg, len: usize) -> Vec<Holds> {
        let mut at = usize::from(from.0);
        let end = at.saturating_add(len.min(Reg::BYTES));
        let mut fields = Vec::new();
        while at < end {
            let Ok(reg) = u8::try_from(at) else { break };
            let holds = self.holds(Reg(reg));
            at += holds.len.max(1).next_multiple_of(4);
            fields.push(holds);
        }
        fields
    }

    fn verdict(&self, verdict: &Verdict) -> String {
        let legacy = self.table.legacy;
        match verdict {
            Verdict::Accept if legacy => "-j ACCEPT".to_owned(),
            Verdict::Drop if legacy => "-j DROP".to_owned(),
            Verdict::Return if legacy => "-j RETURN".to_owned(),
            Verdict::Jump(chain) if legacy => format!("-j {}", sanitise(chain)),
            Verdict::Goto(chain) if legacy => format!("-g {}", sanitise(chain)),
            other => verdict_words(other),
        }
    }

    const fn address_kind(&self, family: Option<u8>) -> Kind {
        match (family, self.table.family) {
            (Some(10), _) | (None, crate::netfilter::ruleset::TableFamily::Ip6) => Kind::Address(16),
            _ => Kind::Address(4),
        }
    }

    fn nat(&self, nat: &Nat) -> String {
        let what = if nat.destination { "dnat" } else { "snat" };
        let kind = self.address_kind(Some(nat.family));
        let both = self.table.family == crate::netfilter::ruleset::TableFamily::Inet;
        let family = match (both, nat.family) {
            (true, 10) => " ip6",
            (true, _) => " ip",
            (false, _) => "",
        };
        let address = nat.address_min.map_or_else(String::new, |reg| self.shown(reg, kind));
        let last = nat.address_max.filter(|max| Some(*max) != nat.address_min).map(|reg| self.shown(reg, kind));
        let range = last.filter(|last| *last != address).map_or_else(String::new, |last| format!("-{last}"));
        let bracketed = nat.family == 10 && nat.port_min.is_some() && nat.address_min.is_some();
        let address = if bracketed { format!("[{address}]{range}") } else { format!("{address}{range}") };
        format!("{what}{family} to {address}{}", self.ports(":", nat.port_min, nat.port_max))
    }

    fn ports(&self, before: &str, min: Option<Reg>, max: Option<Reg>) -> String {
        let Some(min) = min else { return String::new() };
        let port = |reg: Reg| {
            let holds = self.holds(reg);
            holds.literal.as_ref().map_or_else(|| holds.text.clone(), |bytes| Kind::Number.show(bytes.get(..2).unwrap_or(bytes)))
        };
        let first = port(min);
        let last = max.filter(|max| *max != min).map(port).filter(|last| *last != first);
        format!("{before}{first}{}", last.map_or_else(String::new, |last| format!("-{last}")))
    }
}
