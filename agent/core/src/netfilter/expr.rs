//! Expressions of rules, their registers and verdicts.
//!
//! # How a decoder fills it
//!
//! Numbers of netlink attributes are big-endian; here they are numbers. Data (`NFTA_DATA_VALUE`) is bytes as they came: a register
//! holds what the packet holds (network order), or for meta, ct and fib what the kernel's own order is.
//! Registers are byte offsets ([`Reg`]): decode each by [`Reg::from_kernel`] and take [`Dest`] where a verdict can be the destination.
//! Closed lists (keys, operators) have `from_kernel` too; a number that is not known is kept as `Other`, never an error.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::xt::{XtEntry, XtMatch, XtTarget};

/// Place in the 64 bytes of data registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reg(pub u8);

/// Where an expression puts its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dest {
    /// `NFT_REG_VERDICT`.
    Verdict,
    /// A data register.
    Data(Reg),
}

impl Reg {
    /// Bytes of all data registers (`NFT_REG32_15` is the last).
    pub const BYTES: usize = 64;

    /// From a register number: `NFT_REG_1`…`4` are 16 bytes each, `NFT_REG32_00` (8)…`15` are 4 bytes each, over the same 64 bytes
    /// (`nft_parse_register`). None for the verdict register and for numbers that the kernel refuses.
    #[must_use]
    pub fn from_kernel(number: u32) -> Option<Self> {
        let offset = match number {
            1..=4 => (number - 1) * 16,
            8..=23 => (number - 8) * 4,
            _ => return None,
        };
        u8::try_from(offset).ok().map(Self)
    }
}

impl Dest {
    /// From a register number, 0 = verdict.
    #[must_use]
    pub fn from_kernel(number: u32) -> Option<Self> {
        if number == 0 { Some(Self::Verdict) } else { Reg::from_kernel(number).map(Self::Data) }
    }
}

/// `NFTA_DATA_VALUE` or `NFTA_DATA_VERDICT`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Bytes.
    Value(#[serde(with = "hex")] Vec<u8>),
    /// A verdict.
    Verdict(Verdict),
}

/// A verdict (`enum nft_verdicts`, `linux/netfilter.h`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// `NF_ACCEPT` (1).
    Accept,
    /// `NF_DROP` (0).
    Drop,
    /// `NF_QUEUE` (3, in the low byte).
    Queue,
    /// `NFT_CONTINUE` (-1), and `NFT_BREAK` (-2).
    Continue,
    /// `NFT_RETURN` (-5).
    Return,
    /// `NFT_JUMP` (-3) to the chain `NFTA_VERDICT_CHAIN`.
    Jump(String),
    /// `NFT_GOTO` (-4).
    Goto(String),
    /// Any other number.
    Other(i32),
}

/// `enum nft_payload_bases`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// Link layer (0).
    Link,
    /// Network header (1).
    Network,
    /// Transport header (2).
    Transport,
    /// Payload of the transport, or a tunnel (3 and others, and `inner` expressions).
    Inner,
}

/// `enum nft_cmp_ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CmpOp {
    /// 0.
    Eq,
    /// 1.
    Neq,
    /// 2.
    Lt,
    /// 3.
    Lte,
    /// 4.
    Gt,
    /// 5.
    Gte,
}

impl CmpOp {
    /// From `NFTA_CMP_OP`.
    #[must_use]
    pub const fn from_kernel(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Eq),
            1 => Some(Self::Neq),
            2 => Some(Self::Lt),
            3 => Some(Self::Lte),
            4 => Some(Self::Gt),
            5 => Some(Self::Gte),
            _ => None,
        }
    }
}

/// What a bitwise expression computes from its source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BitwiseOp {
    /// `NFT_BITWISE_MASK_XOR`: (source & mask) ^ xor.
    MaskXor {
        /// `NFTA_BITWISE_MASK`.
        #[serde(with = "hex")]
        mask: Vec<u8>,
        /// `NFTA_BITWISE_XOR`.
        #[serde(with = "hex")]
        xor: Vec<u8>,
    },
    /// `NFT_BITWISE_LSHIFT` by `NFTA_BITWISE_DATA` bits (a u32 in the kernel's order).
    ShiftLeft(u32),
    /// `NFT_BITWISE_RSHIFT`.
    ShiftRight(u32),
    /// Any other (and, or, xor of two registers).
    Other,
}

/// One expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expr {
    /// `payload` with a destination. `inner` expressions around a payload: [`Base::Inner`].
    #[expect(missing_docs, reason = "the attributes NFTA_PAYLOAD_*")]
    Payload { base: Base, offset: u32, len: u32, dreg: Reg },
    /// `payload` with a source register: writes into the packet.
    #[expect(missing_docs, reason = "the attributes NFTA_PAYLOAD_*")]
    PayloadWrite { base: Base, offset: u32, len: u32, sreg: Reg },
    /// `meta` with a destination; `key` is `enum nft_meta_keys`.
    #[expect(missing_docs, reason = "the attributes NFTA_META_*")]
    Meta { key: u32, dreg: Reg },
    /// `meta` with a source register.
    #[expect(missing_docs, reason = "the attributes NFTA_META_*")]
    MetaSet { key: u32, sreg: Reg },
    /// `ct` with a destination; `key` is `enum nft_ct_keys`; `reply` from `NFTA_CT_DIRECTION`, none if absent.
    #[expect(missing_docs, reason = "the attributes NFTA_CT_*")]
    Ct { key: u32, dreg: Reg, reply: Option<bool> },
    /// `ct` with a source register.
    #[expect(missing_docs, reason = "the attributes NFTA_CT_*")]
    CtSet { key: u32, sreg: Reg },
    /// `cmp`.
    #[expect(missing_docs, reason = "the attributes NFTA_CMP_*")]
    Cmp {
        op: CmpOp,
        sreg: Reg,
        #[serde(with = "hex")]
        data: Vec<u8>,
    },
    /// `range`: `NFT_RANGE_NEQ` is `inverted`.
    #[expect(missing_docs, reason = "the attributes NFTA_RANGE_*")]
    Range {
        sreg: Reg,
        inverted: bool,
        #[serde(with = "hex")]
        from: Vec<u8>,
        #[serde(with = "hex")]
        to: Vec<u8>,
    },
    /// `bitwise`.
    #[expect(missing_docs, reason = "the attributes NFTA_BITWISE_*")]
    Bitwise { sreg: Reg, dreg: Reg, len: u32, op: BitwiseOp },
    /// `byteorder`; both operations swap on a little-endian machine. `size` in bytes.
    #[expect(missing_docs, reason = "the attributes NFTA_BYTEORDER_*")]
    Byteorder { sreg: Reg, dreg: Reg, len: u32, size: u32 },
    /// `lookup`; `dest` none: a set. `inverted` is `NFT_LOOKUP_F_INV`.
    #[expect(missing_docs, reason = "the attributes NFTA_LOOKUP_*")]
    Lookup { set: String, sreg: Reg, dest: Option<Dest>, inverted: bool },
    /// `immediate` of a value.
    #[expect(missing_docs, reason = "the attributes NFTA_IMMEDIATE_*")]
    Value {
        dreg: Reg,
        #[serde(with = "hex")]
        data: Vec<u8>,
    },
    /// `immediate` of a verdict, and a legacy standard target.
    Immediate(Verdict),
    /// `nat`.
    Nat(Nat),
    /// `redir`, to a local address: flags as `nat`.
    #[expect(missing_docs, reason = "the attributes NFTA_REDIR_*")]
    Redir { port_min: Option<Reg>, port_max: Option<Reg>, flags: u32 },
    /// `tproxy`; `family` is `NFTA_TPROXY_FAMILY` (0 = both, 2, 10).
    #[expect(missing_docs, reason = "the attributes NFTA_TPROXY_*")]
    Tproxy { family: u8, address: Option<Reg>, port: Option<Reg> },
    /// `masq`.
    Masq,
    /// `fib`: `result` is `enum nft_fib_result`, `flags` are `NFTA_FIB_F_*`.
    #[expect(missing_docs, reason = "the attributes NFTA_FIB_*")]
    Fib { result: u32, flags: u32, dreg: Reg },
    /// `socket`: `key` is `enum nft_socket_keys`.
    #[expect(missing_docs, reason = "the attributes NFTA_SOCKET_*")]
    Socket { key: u32, level: u32, dreg: Reg },
    /// `rt`: `key` is `enum nft_rt_keys`.
    #[expect(missing_docs, reason = "the attributes NFTA_RT_*")]
    Rt { key: u32, dreg: Reg },
    /// `hash`; `jenkins` with a source register, else symmetric. The modulus bounds the result: offset..offset+modulus.
    #[expect(missing_docs, reason = "the attributes NFTA_HASH_*")]
    Hash { sreg: Option<Reg>, len: u32, dreg: Reg, modulus: u32, offset: u32 },
    /// `numgen`, random or incremental.
    #[expect(missing_docs, reason = "the attributes NFTA_NG_*")]
    Numgen { dreg: Reg, modulus: u32, offset: u32, random: bool },
    /// `exthdr`: an IPv6 extension header, TCP option, IPv4 option (`op` is `enum nft_exthdr_op`: 0, 1, 2). Without `dreg` it writes or resets.
    #[expect(missing_docs, reason = "the attributes NFTA_EXTHDR_*")]
    Exthdr { op: u32, kind: u8, offset: u32, len: u32, present: bool, dreg: Option<Reg> },
    /// `osf`: operating system by its SYN.
    #[expect(missing_docs, reason = "the attribute NFTA_OSF_DREG")]
    Osf { dreg: Reg },
    /// `limit`; `over` is `NFT_LIMIT_F_INV`.
    #[expect(missing_docs, reason = "the attributes NFTA_LIMIT_*; per = NFTA_LIMIT_UNIT in seconds; bytes = NFT_LIMIT_PKT_BYTES")]
    Limit { rate: u64, per: u64, burst: u32, bytes: bool, over: bool },
    /// `quota`; `over` is `NFT_QUOTA_F_INV`.
    #[expect(missing_docs, reason = "the attributes NFTA_QUOTA_*")]
    Quota { bytes: u64, over: bool },
    /// `connlimit`; `over` is `NFT_CONNLIMIT_F_INV`.
    #[expect(missing_docs, reason = "the attributes NFTA_CONNLIMIT_*")]
    Connlimit { count: u32, over: bool },
    /// `counter`.
    Counter,
    /// `last`.
    Last,
    /// `log`.
    #[expect(missing_docs, reason = "NFTA_LOG_PREFIX")]
    Log { prefix: Option<String> },
    /// `reject`: `kind` is `enum nft_reject_types` (1 = TCP reset), `code` the ICMP code.
    #[expect(missing_docs, reason = "the attributes NFTA_REJECT_*")]
    Reject { kind: u32, code: u8 },
    /// `queue`: hand it to a program.
    #[expect(missing_docs, reason = "NFT_QUEUE_FLAG_BYPASS in NFTA_QUEUE_FLAGS; the first number, 0 if from a register")]
    Queue { number: u16, bypass: bool },
    /// `notrack`.
    Notrack,
    /// `synproxy`.
    Synproxy,
    /// `flow_offload`.
    FlowOffload,
    /// `objref` with a name: `kind` is `NFT_OBJECT_*`.
    #[expect(missing_docs, reason = "the attributes NFTA_OBJREF_*")]
    Objref { kind: u32, name: String },
    /// `objref` by a map.
    #[expect(missing_docs, reason = "the attributes NFTA_OBJREF_SET_*")]
    ObjrefMap { set: String, sreg: Reg },
    /// `dynset`: adds the key to a set; `conditional` if an expression of it can end the rule (limit, quota, connlimit).
    /// `inverted` is `NFT_DYNSET_F_INV`; `delete` is `NFT_DYNSET_OP_DELETE`.
    #[expect(missing_docs, reason = "the attributes NFTA_DYNSET_*")]
    Dynset { set: String, sreg_key: Reg, conditional: bool, inverted: bool, delete: bool },
    /// `match` of iptables-nft, and a match of a legacy entry. An unknown one is [`XtMatch::Unknown`].
    Match(XtMatch),
    /// `target` of iptables-nft, and a target of a legacy entry.
    Target(XtTarget),
    /// What a legacy entry itself matches.
    Entry(XtEntry),
    /// `dup`, `fwd`, and any other that is not known.
    #[expect(missing_docs, reason = "NFTA_EXPR_NAME")]
    Unknown { name: String },
}

/// `nat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nat {
    /// `NFTA_NAT_TYPE`: destination (1), else source (0).
    pub destination: bool,
    /// `NFTA_NAT_FAMILY`: 2 or 10.
    pub family: u8,
    /// `NFTA_NAT_REG_ADDR_MIN`.
    pub address_min: Option<Reg>,
    /// `NFTA_NAT_REG_ADDR_MAX`; the kernel sends it only where it differs from min.
    pub address_max: Option<Reg>,
    /// `NFTA_NAT_REG_PROTO_MIN`; the register holds a port in network order.
    pub port_min: Option<Reg>,
    /// `NFTA_NAT_REG_PROTO_MAX`.
    pub port_max: Option<Reg>,
    /// `NFTA_NAT_FLAGS` (`NF_NAT_RANGE_*`); 0 if absent.
    pub flags: u32,
}

/// An address as it stands in a register of 4 or 16 bytes.
#[must_use]
pub fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// Bytes as hexadecimal text in files: a tenth of the size of a list of numbers.
pub mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Renders.
    ///
    /// # Errors
    /// The serialiser's.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&render(bytes))
    }

    /// Parses.
    ///
    /// # Errors
    /// The text is no sequence of pairs of hexadecimal digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| D::Error::custom("not hexadecimal"))
    }

    /// Pairs of digits.
    #[must_use]
    pub fn render(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
        let digits = digits?;
        (digits.len() % 2 == 0).then(|| digits.chunks(2).map(|pair| pair.iter().fold(0, |sum, digit| sum << 4 | digit)).collect())
    }

    /// The same for an optional field.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serializer, de::Error};

        /// Renders.
        ///
        /// # Errors
        /// The serialiser's.
        pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
            match bytes {
                Some(bytes) => serializer.serialize_some(&super::render(bytes)),
                None => serializer.serialize_none(),
            }
        }

        /// Parses.
        ///
        /// # Errors
        /// The text is no sequence of pairs of hexadecimal digits.
        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
            match Option::<String>::deserialize(deserializer)? {
                Some(text) => super::parse(&text).map(Some).ok_or_else(|| D::Error::custom("not hexadecimal")),
                None => Ok(None),
            }
        }
    }
}
