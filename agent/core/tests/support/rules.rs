//! Rules written down as in `nft`, for tests: each helper makes the expressions that nft makes of it.

use std::net::{IpAddr, SocketAddr};

use gwready_core::net::Endpoint;
use gwready_core::netfilter::expr::{Base, BitwiseOp, CmpOp, Data, Dest, Expr, Nat, Reg, Verdict};
use gwready_core::netfilter::follow::{Connection, Ingress};
use gwready_core::netfilter::keys::{ct, meta};
use gwready_core::netfilter::ruleset::{BaseChain, Chain, ChainKind, Hook, Policy, Rule, Ruleset, Table, TableFamily};
use gwready_core::netfilter::set::{Element, Set, SetFlags};
use gwready_core::netfilter::xt::{XtMatch, XtTarget};

pub const REG1: Reg = Reg(0);
pub const REG2: Reg = Reg(16);

/// The address of the node in every test.
pub const NODE: &str = "10.0.0.11";
pub const NODE6: &str = "fd00::11";

/// Any client's connection to an address and port of the node, by eth0.
pub fn to(endpoint: &str) -> Connection {
    let at: SocketAddr = endpoint.parse().unwrap();
    let addresses = vec![ip(NODE), ip(NODE6), ip("10.0.0.12")];
    let ingress = vec![Ingress { index: 2, name: "eth0".into(), addresses: addresses.clone() }];
    Connection { local: addresses, ingress, ..Connection::to(Endpoint { address: at.ip(), port: at.port() }) }
}

/// The same from one client.
pub fn from(client: &str, endpoint: &str) -> Connection {
    Connection { source: Some(ip(client)), source_port: Some(40_000), ..to(endpoint) }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// One rule, in the making.
#[derive(Clone, Default)]
pub struct R {
    pub exprs: Vec<Expr>,
    pub sets: Vec<Set>,
    comment: Option<String>,
}

pub fn rule() -> R {
    R::default()
}

impl R {
    pub fn expr(mut self, expr: Expr) -> Self {
        self.exprs.push(expr);
        self
    }

    pub fn cmp(self, op: CmpOp, data: &[u8]) -> Self {
        self.expr(Expr::Cmp { op, sreg: REG1, data: data.to_vec() })
    }

    pub fn is(self, data: &[u8]) -> Self {
        self.cmp(CmpOp::Eq, data)
    }

    pub fn and(self, mask: &[u8]) -> Self {
        let xor = vec![0; mask.len()];
        self.bits(mask, &xor)
    }

    pub fn bits(self, mask: &[u8], xor: &[u8]) -> Self {
        let len = u32::try_from(mask.len()).unwrap();
        let op = BitwiseOp::MaskXor { mask: mask.to_vec(), xor: xor.to_vec() };
        self.expr(Expr::Bitwise { sreg: REG1, dreg: REG1, len, op })
    }

    pub fn payload(self, base: Base, offset: u32, len: u32) -> Self {
        self.expr(Expr::Payload { base, offset, len, dreg: REG1 })
    }

    pub fn meta(self, key: u32) -> Self {
        self.expr(Expr::Meta { key, dreg: REG1 })
    }

    pub fn ct(self, key: u32) -> Self {
        self.expr(Expr::Ct { key, dreg: REG1, reply: None })
    }

    pub fn value(self, dreg: Reg, data: &[u8]) -> Self {
        self.expr(Expr::Value { dreg, data: data.to_vec() })
    }

    pub fn l4(self, protocol: u8) -> Self {
        self.meta(meta::L4PROTO).is(&[protocol])
    }

    pub fn nfproto(self, family: u8) -> Self {
        self.meta(meta::NFPROTO).is(&[family])
    }

    fn load_dport(self) -> Self {
        self.l4(6).payload(Base::Transport, 2, 2)
    }

    /// `tcp dport N`.
    pub fn dport(self, port: u16) -> Self {
        self.load_dport().is(&port.to_be_bytes())
    }

    /// `tcp dport A-B`.
    pub fn dports(self, first: u16, last: u16) -> Self {
        self.load_dport().cmp(CmpOp::Gte, &first.to_be_bytes()).cmp(CmpOp::Lte, &last.to_be_bytes())
    }

    /// `tcp dport { … }`.
    pub fn dport_in(self, ports: &[u16]) -> Self {
        let name = format!("__set{}", ports.iter().map(u16::to_string).collect::<Vec<_>>().join("_"));
        let elements = ports.iter().map(|port| element(&port.to_be_bytes())).collect();
        let set = Set { flags: SetFlags { anonymous: true, constant: true, ..SetFlags::default() }, ..set(&name, 2, elements) };
        self.load_dport().lookup(&name).with_set(set)
    }

    fn load_address(self, v4: u32, v6: u32, six: bool) -> Self {
        let (offset, len) = if six { (v6, 16) } else { (v4, 4) };
        self.payload(Base::Network, offset, len)
    }

    fn address(self, text: &str, places: (u32, u32), op: CmpOp) -> Self {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address = octets(ip(address));
        let loaded = self.load_address(places.0, places.1, address.len() == 16);
        match length {
            None => loaded.cmp(op, &address),
            Some(length) => {
                let mask = mask(length.parse().unwrap(), address.len());
                loaded.and(&mask).cmp(op, &address)
            }
        }
    }

    /// `ip daddr A[/N]`.
    pub fn daddr(self, text: &str) -> Self {
        self.address(text, (16, 24), CmpOp::Eq)
    }

    /// `ip saddr A[/N]`.
    pub fn saddr(self, text: &str) -> Self {
        self.address(text, (12, 8), CmpOp::Eq)
    }

    /// `ip saddr != A[/N]`.
    pub fn not_saddr(self, text: &str) -> Self {
        self.address(text, (12, 8), CmpOp::Neq)
    }

    /// `ip saddr @NAME`.
    pub fn saddr_in(self, name: &str) -> Self {
        self.payload(Base::Network, 12, 4).lookup(name)
    }

    pub fn lookup(self, set: &str) -> Self {
        self.expr(Expr::Lookup { set: set.into(), sreg: REG1, dest: None, inverted: false })
    }

    pub fn vmap(self, set: &str) -> Self {
        self.expr(Expr::Lookup { set: set.into(), sreg: REG1, dest: Some(Dest::Verdict), inverted: false })
    }

    pub fn map(self, set: &str, dreg: Reg) -> Self {
        self.expr(Expr::Lookup { set: set.into(), sreg: REG1, dest: Some(Dest::Data(dreg)), inverted: false })
    }

    pub fn with_set(mut self, set: Set) -> Self {
        self.sets.push(set);
        self
    }

    /// `iifname "X"`; `X*` is a prefix.
    pub fn iifname(self, name: &str) -> Self {
        self.meta(meta::IIFNAME).is(&name_bytes(name))
    }

    /// `iifname != "X"`.
    pub fn not_iifname(self, name: &str) -> Self {
        self.meta(meta::IIFNAME).cmp(CmpOp::Neq, &name_bytes(name))
    }

    /// `meta mark & MASK == VALUE`.
    pub fn mark(self, value: u32, mask: u32) -> Self {
        self.meta(meta::MARK).and(&mask.to_ne_bytes()).is(&value.to_ne_bytes())
    }

    /// `meta mark set VALUE`.
    pub fn set_mark(self, value: u32) -> Self {
        self.value(REG1, &value.to_ne_bytes()).expr(Expr::MetaSet { key: meta::MARK, sreg: REG1 })
    }

    /// `meta mark set meta mark | VALUE`.
    pub fn or_mark(self, value: u32) -> Self {
        let with_bits = self.meta(meta::MARK).bits(&(!value).to_ne_bytes(), &value.to_ne_bytes());
        with_bits.expr(Expr::MetaSet { key: meta::MARK, sreg: REG1 })
    }

    /// `ct state A,B`.
    pub fn ct_state(self, bits: u32) -> Self {
        self.ct(ct::STATE).and(&bits.to_ne_bytes()).cmp(CmpOp::Neq, &[0; 4])
    }

    /// `fib daddr type local`.
    pub fn fib_local(self) -> Self {
        self.expr(Expr::Fib { result: 3, flags: 2, dreg: REG1 }).is(&2_u32.to_ne_bytes())
    }

    /// `limit rate N/second`.
    pub fn limit(self) -> Self {
        self.expr(Expr::Limit { rate: 10, per: 1, burst: 5, bytes: false, over: false })
    }

    /// An expression that nobody knows.
    pub fn mystery(self) -> Self {
        self.expr(Expr::Quota { bytes: 1_000_000, over: true })
    }

    pub fn xt(self, matched: XtMatch) -> Self {
        self.expr(Expr::Match(matched))
    }

    pub fn target(self, target: XtTarget) -> Self {
        self.expr(Expr::Target(target))
    }

    pub fn verdict(self, verdict: Verdict) -> Self {
        self.expr(Expr::Immediate(verdict))
    }

    pub fn accept(self) -> Self {
        self.verdict(Verdict::Accept)
    }

    pub fn drop(self) -> Self {
        self.verdict(Verdict::Drop)
    }

    pub fn ret(self) -> Self {
        self.verdict(Verdict::Return)
    }

    pub fn jump(self, chain: &str) -> Self {
        self.verdict(Verdict::Jump(chain.into()))
    }

    pub fn goto(self, chain: &str) -> Self {
        self.verdict(Verdict::Goto(chain.into()))
    }

    pub fn reject(self) -> Self {
        self.expr(Expr::Reject { kind: 1, code: 0 })
    }

    /// `dnat to A[:P]`.
    pub fn dnat(self, target: &str) -> Self {
        let (address, port) = target.parse::<SocketAddr>().map_or_else(|_| (ip(target), None), |at| (at.ip(), Some(at.port())));
        let family = if address.is_ipv4() { 2 } else { 10 };
        let with_address = self.value(REG1, &octets(address));
        let with_port = match port {
            Some(port) => with_address.value(REG2, &port.to_be_bytes()),
            None => with_address,
        };
        with_port.expr(Expr::Nat(Nat { family, port_min: port.map(|_| REG2), ..dnat_of(REG1) }))
    }

    /// `redirect [to :P]`.
    pub fn redirect(self, port: Option<u16>) -> Self {
        match port {
            Some(port) => self.value(REG1, &port.to_be_bytes()).expr(Expr::Redir { port_min: Some(REG1), port_max: None, flags: 2 }),
            None => self.expr(Expr::Redir { port_min: None, port_max: None, flags: 0 }),
        }
    }

    /// `tproxy to A:P`.
    pub fn tproxy(self, target: &str) -> Self {
        let at: SocketAddr = target.parse().unwrap();
        let loaded = self.value(REG1, &octets(at.ip())).value(REG2, &at.port().to_be_bytes());
        loaded.expr(Expr::Tproxy { family: if at.is_ipv4() { 2 } else { 10 }, address: Some(REG1), port: Some(REG2) })
    }

    pub fn comment(mut self, text: &str) -> Self {
        self.comment = Some(text.into());
        self
    }
}

/// `dnat` by an address in a register.
pub fn dnat_of(address: Reg) -> Nat {
    Nat { destination: true, family: 2, address_min: Some(address), address_max: None, port_min: None, port_max: None, flags: 0 }
}

pub fn mask(length: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| 0xff_u8.checked_shl(8_u32.saturating_sub(u32::try_from(length.saturating_sub(at * 8)).unwrap())).unwrap_or(0))
        .collect()
}

fn name_bytes(name: &str) -> Vec<u8> {
    match name.strip_suffix('*') {
        Some(prefix) => prefix.as_bytes().to_vec(),
        None => name.bytes().chain(std::iter::repeat(0)).take(16).collect(),
    }
}

pub fn element(key: &[u8]) -> Element {
    Element { key: key.to_vec(), ..Element::default() }
}

pub fn mapped(key: &[u8], data: Data) -> Element {
    Element { data: Some(data), ..element(key) }
}

pub fn interval_end(key: &[u8]) -> Element {
    Element { interval_end: true, ..element(key) }
}

pub fn set(name: &str, key_len: u32, elements: Vec<Element>) -> Set {
    Set { name: name.into(), key_len, elements, ..Set::default() }
}

/// A table in the making; rules get their handles in the order in which they are written.
pub struct T {
    table: Table,
    handle: u64,
}

/// `table FAMILY NAME`.
pub fn table(text: &str) -> T {
    let (family, name) = text.split_once(' ').unwrap();
    let family = match family {
        "ip" => TableFamily::Ip,
        "ip6" => TableFamily::Ip6,
        "inet" => TableFamily::Inet,
        _ => TableFamily::Netdev,
    };
    let table = Table { family, name: name.into(), dormant: false, legacy: false, chains: Vec::new(), sets: Vec::new() };
    T { table, handle: 0 }
}

impl T {
    fn chain_of(mut self, name: &str, base: Option<BaseChain>, rules: impl IntoIterator<Item = R>) -> Self {
        let mut made = Vec::new();
        for rule in rules {
            self.handle += 1;
            for set in rule.sets {
                if !self.table.sets.iter().any(|known| known.name == set.name) {
                    self.table.sets.push(set);
                }
            }
            made.push(Rule { handle: self.handle, exprs: rule.exprs, comment: rule.comment });
        }
        self.table.chains.push(Chain { name: name.into(), handle: 0, base, rules: made });
        self
    }

    /// A chain that is jumped to.
    pub fn chain(self, name: &str, rules: impl IntoIterator<Item = R>) -> Self {
        self.chain_of(name, None, rules)
    }

    /// A base chain: `"TYPE HOOK PRIORITY [POLICY]"`, e.g. `nat prerouting -100`.
    pub fn base(self, name: &str, what: &str, rules: impl IntoIterator<Item = R>) -> Self {
        let words: Vec<&str> = what.split(' ').collect();
        let base = BaseChain {
            kind: if words[0] == "nat" { ChainKind::Nat } else { ChainKind::Filter },
            hook: match words[1] {
                "prerouting" => Hook::Prerouting,
                "input" => Hook::Input,
                "ingress" => Hook::Ingress,
                _ => Hook::Other,
            },
            priority: words[2].parse().unwrap(),
            policy: if words.get(3) == Some(&"drop") { Policy::Drop } else { Policy::Accept },
            devices: words.get(4).map(|device| (*device).to_owned()).into_iter().collect(),
        };
        self.chain_of(name, Some(base), rules)
    }

    pub fn set(mut self, set: Set) -> Self {
        self.table.sets.push(set);
        self
    }

    /// A table of legacy iptables.
    pub fn legacy(mut self) -> Self {
        self.table.legacy = true;
        self
    }

    pub fn dormant(mut self) -> Self {
        self.table.dormant = true;
        self
    }

    pub fn build(self) -> Table {
        self.table
    }
}

pub fn ruleset(tables: impl IntoIterator<Item = T>) -> Ruleset {
    Ruleset { tables: tables.into_iter().map(T::build).collect() }
}

/// One nat chain on prerouting.
pub fn nat(rules: impl IntoIterator<Item = R>) -> Ruleset {
    ruleset([table("ip nat").base("PREROUTING", "nat prerouting -100", rules)])
}

/// One filter chain on input with this policy.
pub fn input(policy: &str, rules: impl IntoIterator<Item = R>) -> Ruleset {
    ruleset([table("inet filter").base("input", &format!("filter input 0 {policy}"), rules)])
}
