//! Values of which some bits are not known, and comparisons that answer yes, no or maybe.

use std::cmp::Ordering;

use crate::netfilter::expr::{CmpOp, Reg};

/// Why something is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Doubt {
    /// It differs between connections: some clients have it, some don't.
    Client,
    /// It can't be told from the rules: it may hold for all, for none or for some.
    Undecided,
}

/// The answer of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    Maybe(Doubt),
}

impl Match {
    pub(super) const CLIENT: Self = Self::Maybe(Doubt::Client);
    pub(super) const UNDECIDED: Self = Self::Maybe(Doubt::Undecided);

    pub(super) const fn of(claim: bool) -> Self {
        if claim { Self::Yes } else { Self::No }
    }

    pub(super) const fn inverted(self, invert: bool) -> Self {
        match (self, invert) {
            (Self::Yes, true) => Self::No,
            (Self::No, true) => Self::Yes,
            (other, _) => other,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, other) | (other, Self::Yes) => other,
            (Self::Maybe(one), Self::Maybe(two)) => Self::Maybe(one.max(two)),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        self.inverted(true).and(other.inverted(true)).inverted(true)
    }
}

/// Where a byte comes from, as far as it excludes values: a client's interface is never the loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Other,
    /// First byte of the index of an unknown input interface.
    IifIndex,
    /// First byte of its name.
    IifName,
}

/// One byte. Bits of `value` that are not `known` are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Byte {
    pub(super) value: u8,
    pub(super) known: u8,
    pub(super) doubt: Doubt,
    pub(super) origin: Origin,
}

impl Byte {
    pub(super) const fn known(value: u8) -> Self {
        Self { value, known: 0xff, doubt: Doubt::Client, origin: Origin::Other }
    }

    pub(super) const fn unknown(doubt: Doubt) -> Self {
        Self { value: 0, known: 0, doubt, origin: Origin::Other }
    }

    const fn is_known(self) -> bool {
        self.known == 0xff
    }

    const fn mask_xor(self, mask: u8, xor: u8) -> Self {
        let known = self.known | !mask;
        Self { value: (self.value & mask) ^ (xor & known), known, doubt: self.doubt, origin: Origin::Other }
    }
}

pub(super) fn known_bytes(bytes: &[u8]) -> Vec<Byte> {
    bytes.iter().copied().map(Byte::known).collect()
}

pub(super) fn unknown_bytes(len: usize, doubt: Doubt) -> Vec<Byte> {
    vec![Byte::unknown(doubt); len]
}

/// The value, if every bit is known.
pub(super) fn value_of(bytes: &[Byte]) -> Option<Vec<u8>> {
    bytes.iter().map(|byte| byte.is_known().then_some(byte.value)).collect()
}

/// The worst doubt of the unknown bits; none if there are none.
pub(super) fn doubt_of(bytes: &[Byte]) -> Option<Doubt> {
    bytes.iter().filter(|byte| !byte.is_known()).map(|byte| byte.doubt).max()
}

/// Whether the bytes are those of `data`, which is no longer than they are.
pub(super) fn equals(bytes: &[Byte], data: &[u8]) -> Match {
    if data.len() > bytes.len() {
        return Match::UNDECIDED;
    }
    for (at, (byte, &wanted)) in bytes.iter().zip(data).enumerate() {
        if (byte.value ^ wanted) & byte.known != 0 || excluded(byte.origin, data.get(at..).unwrap_or_default()) {
            return Match::No;
        }
    }
    doubt_of(bytes.get(..data.len()).unwrap_or_default()).map_or(Match::Yes, Match::Maybe)
}

/// The value is one that this origin never has.
fn excluded(origin: Origin, data: &[u8]) -> bool {
    match origin {
        Origin::Other => false,
        Origin::IifIndex => data.starts_with(&1_u32.to_ne_bytes()),
        Origin::IifName => data.starts_with(b"lo\0"),
    }
}

/// Which orders against `data` are possible, byte by byte from the first as the kernel compares (`memcmp`).
fn possible_orders(bytes: &[Byte], data: &[u8]) -> impl Fn(Ordering) -> bool {
    let least: Vec<u8> = bytes.iter().map(|byte| byte.value).collect();
    let most: Vec<u8> = bytes.iter().map(|byte| byte.value | !byte.known).collect();
    let (low, high) = (least.as_slice().cmp(data), most.as_slice().cmp(data));
    let equal = equals(bytes, data) != Match::No;
    move |order| match order {
        Ordering::Less => low == Ordering::Less,
        Ordering::Equal => equal,
        Ordering::Greater => high == Ordering::Greater,
    }
}

/// `cmp` (`net/netfilter/nft_cmp.c`).
pub(super) fn compare(bytes: &[Byte], op: CmpOp, data: &[u8]) -> Match {
    let Some(bytes) = bytes.get(..data.len()) else { return Match::UNDECIDED };
    let wanted = match op {
        CmpOp::Eq => return equals(bytes, data),
        CmpOp::Neq => return equals(bytes, data).inverted(true),
        CmpOp::Lt => [true, false, false],
        CmpOp::Lte => [true, true, false],
        CmpOp::Gt => [false, false, true],
        CmpOp::Gte => [false, true, true],
    };
    let possible = possible_orders(bytes, data);
    let orders = [Ordering::Less, Ordering::Equal, Ordering::Greater];
    let holds = orders.into_iter().zip(wanted).any(|(order, wanted)| wanted && possible(order));
    let fails = orders.into_iter().zip(wanted).any(|(order, wanted)| !wanted && possible(order));
    match (holds, fails) {
        (true, false) => Match::Yes,
        (true, true) => doubt_of(bytes).map_or(Match::UNDECIDED, Match::Maybe),
        (false, _) => Match::No,
    }
}

/// `first` ≤ bytes ≤ `last`.
pub(super) fn within(bytes: &[Byte], first: &[u8], last: &[u8]) -> Match {
    compare(bytes, CmpOp::Gte, first).and(compare(bytes, CmpOp::Lte, last))
}

/// A number of 32 bits in the machine's order: a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Word {
    value: u32,
    known: u32,
    doubt: Doubt,
}

impl Word {
    pub(super) const fn known(value: u32) -> Self {
        Self { value, known: u32::MAX, doubt: Doubt::Client }
    }

    pub(super) const fn unknown(doubt: Doubt) -> Self {
        Self { value: 0, known: 0, doubt }
    }

    /// The bits outside `mask` of `self`, those inside of `other`.
    pub(super) fn blend(self, other: Self, mask: u32) -> Self {
        let known = (self.known & !mask) | (other.known & mask);
        let doubt = if known == u32::MAX { Doubt::Client } else { self.doubt.max(other.doubt) };
        Self { value: ((self.value & !mask) | (other.value & mask)) & known, known, doubt }
    }

    pub(super) fn xor(self, other: Self) -> Self {
        let known = self.known & other.known;
        let doubt = if known == u32::MAX { Doubt::Client } else { self.doubt.max(other.doubt) };
        Self { value: (self.value ^ other.value) & known, known, doubt }
    }

    /// (word & mask) == value.
    pub(super) const fn matches(self, value: u32, mask: u32) -> Match {
        if (self.value ^ value) & self.known & mask != 0 || value & !mask != 0 {
            Match::No
        } else if self.known & mask == mask {
            Match::Yes
        } else {
            Match::Maybe(self.doubt)
        }
    }

    /// (word & mask) != 0.
    pub(super) const fn any_of(self, mask: u32) -> Match {
        if self.value & mask != 0 { Match::Yes } else { self.matches(0, mask).inverted(true) }
    }

    pub(super) fn bytes(self) -> Vec<Byte> {
        let parts = self.value.to_ne_bytes().into_iter().zip(self.known.to_ne_bytes());
        parts.map(|(value, known)| Byte { value, known, doubt: self.doubt, origin: Origin::Other }).collect()
    }

    /// From the first four bytes.
    pub(super) fn from_bytes(bytes: &[Byte]) -> Self {
        let [a, b, c, d] = bytes else { return Self::unknown(Doubt::Undecided) };
        let value = u32::from_ne_bytes([a.value, b.value, c.value, d.value]);
        let known = u32::from_ne_bytes([a.known, b.known, c.known, d.known]);
        Self { value, known, doubt: doubt_of(bytes).unwrap_or(Doubt::Client) }
    }
}

/// A number that is not known but bounded: what `numgen` and `hash` give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounded {
    pub(super) reg: Reg,
    pub(super) first: u32,
    pub(super) count: u32,
    /// A `byteorder` has swapped it.
    pub(super) swapped: bool,
    pub(super) doubt: Doubt,
}

/// The data registers, for the length of one rule.
#[derive(Clone)]
pub(super) struct Registers {
    bytes: [Byte; Reg::BYTES],
    pub(super) bounded: Option<Bounded>,
}

impl Registers {
    pub(super) const fn new() -> Self {
        Self { bytes: [Byte::unknown(Doubt::Undecided); Reg::BYTES], bounded: None }
    }

    /// `len` bytes from a register; shorter if they would leave the registers.
    pub(super) fn load(&self, reg: Reg, len: usize) -> &[Byte] {
        let rest = self.bytes.get(usize::from(reg.0)..).unwrap_or_default();
        rest.get(..len).unwrap_or(rest)
    }

    /// Stores bytes; the rest of the last four is zeroed, as the kernel does.
    pub(super) fn store(&mut self, reg: Reg, bytes: &[Byte]) {
        if self.bounded.is_some_and(|bounded| bounded.reg == reg) {
            self.bounded = None;
        }
        let padded = bytes.len().next_multiple_of(4);
        let values = bytes.iter().copied().chain(std::iter::repeat(Byte::known(0))).take(padded);
        let places = self.bytes.iter_mut().skip(usize::from(reg.0));
        places.zip(values).for_each(|(place, value)| *place = value);
    }

    /// `bitwise` with mask and xor.
    pub(super) fn mask_xor(&mut self, from: Reg, to: Reg, len: usize, mask: &[u8], xor: &[u8]) {
        let source = self.load(from, len).to_vec();
        let pairs = mask.iter().copied().chain(std::iter::repeat(0)).zip(xor.iter().copied().chain(std::iter::repeat(0)));
        let result: Vec<Byte> = source.iter().zip(pairs).map(|(byte, (mask, xor))| byte.mask_xor(mask, xor)).collect();
        self.store(to, &result);
    }

    /// `byteorder`: swaps each group of `size` bytes on a little-endian machine.
    pub(super) fn swap(&mut self, from: Reg, to: Reg, len: usize, size: usize) {
        let mut bytes = self.load(from, len).to_vec();
        let bounded = self.bounded.filter(|bounded| bounded.reg == from && len == 4 && size == 4);
        if cfg!(target_endian = "little") && size > 0 {
            bytes.chunks_mut(size).for_each(<[Byte]>::reverse);
        }
        self.store(to, &bytes);
        self.bounded = bounded.map(|bounded| Bounded { reg: to, swapped: !bounded.swapped, ..bounded }).or(self.bounded);
    }

    /// `bitwise` with a shift: over words of 32 bits from the last to the first for left, as one big-endian number of words
    /// (`nft_bitwise_eval_lshift`). Only a whole known value is shifted.
    pub(super) fn shift(&mut self, from: Reg, to: Reg, len: usize, left: bool, bits: u32) {
        let source = self.load(from, len).to_vec();
        let result = match value_of(&source) {
            Some(value) if bits < 32 => known_bytes(&shifted(&value, left, bits)),
            _ => unknown_bytes(source.len(), doubt_of(&source).unwrap_or(Doubt::Undecided)),
        };
        self.store(to, &result);
    }
}

/// Words in the machine's order; the carry goes from word to word.
fn shifted(value: &[u8], left: bool, bits: u32) -> Vec<u8> {
    let mut words: Vec<u32> = value
        .chunks(4)
        .map(|chunk| {
            let mut word = [0; 4];
            word.iter_mut().zip(chunk).for_each(|(place, byte)| *place = *byte);
            u32::from_ne_bytes(word)
        })
        .collect();
    let mut carry = 0;
    let step = |word: &mut u32| {
        let wide = if left { u64::from(*word) << bits } else { (u64::from(*word) << 32) >> bits };
        let (high, low) = (u32::try_from(wide >> 32).unwrap_or(0), u32::try_from(wide & 0xffff_ffff).unwrap_or(0));
        (*word, carry) = if left { (low | carry, high) } else { (high | carry, low) };
    };
    if left {
        words.iter_mut().rev().for_each(step)
    } else {
        words.iter_mut().for_each(step)
    }
    words.into_iter().flat_map(u32::to_ne_bytes).take(value.len()).collect()
}
