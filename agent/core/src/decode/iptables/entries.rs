//! The blob of a legacy iptables table as entries: `struct ipt_entry` and `struct ip6t_entry` on 64-bit kernels (x86-64 and
//! aarch64 lay them out alike). Structure only; what matches and targets mean is decided elsewhere. Sources:
//! `include/uapi/linux/netfilter_ipv4/ip_tables.h`, `netfilter_ipv6/ip6_tables.h`, `netfilter/x_tables.h`.

use crate::decode::inet_diag_attributes::{u16_at, u32_at};
use crate::net::Family;

/// `struct xt_counters`.
const COUNTERS: usize = 16;
/// `struct xt_entry_match` and `struct xt_entry_target` before their data: size, 29 bytes of name, revision.
const EXTENSION_HEADER: usize = 32;
/// Length of the name in them.
const EXTENSION_NAME: usize = 29;

/// Where things are in an entry of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// `target_offset`; `next_offset` follows.
    offsets: usize,
    /// `counters`.
    counters: usize,
}

impl Layout {
    const fn of(family: Family) -> Self {
        match family {
            Family::Ipv4 => Self { offsets: 88, counters: 96 },
            Family::Ipv6 => Self { offsets: 140, counters: 152 },
        }
    }

    const fn header(self) -> usize {
        self.counters + COUNTERS
    }
}

/// The blob does not add up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// An entry reaches out of the table.
    #[error("the entry at byte {0} does not fit")]
    Entry(usize),
    /// A match or target reaches out of its entry.
    #[error("a match or target of the entry at byte {0} does not fit")]
    Extension(usize),
    /// `struct ipt_getinfo` is too short.
    #[error("the description of the table has {0} bytes")]
    Info(usize),
    /// A hook or a jump leads to no entry.
    #[error("byte {0} is the begin of no entry")]
    Jump(usize),
}

/// A match or a target of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extension<'a> {
    /// Its name; empty is the standard target.
    pub name: String,
    /// Its revision.
    pub revision: u8,
    /// Its own structure, padded to eight bytes.
    pub data: &'a [u8],
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// Where it begins in the table.
    pub offset: usize,
    /// `struct ipt_ip` or `struct ip6t_ip6`.
    pub ip: &'a [u8],
    /// Its matches.
    pub matches: Vec<Extension<'a>>,
    /// Its target.
    pub target: Extension<'a>,
}

/// Entries of a table, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub(super) struct Entries<'a> {
    layout: Layout,
    blob: &'a [u8],
    offset: usize,
}

impl<'a> Entries<'a> {
    /// The entries of a blob.
    #[must_use]
    pub(super) const fn new(family: Family, blob: &'a [u8]) -> Self {
        Self { layout: Layout::of(family), blob, offset: 0 }
    }

    fn decode(&self, offset: usize, bytes: &'a [u8], target_at: usize) -> Result<Entry<'a>, EntryError> {
        let cut = || EntryError::Extension(offset);
        let ip = bytes.get(..self.layout.offsets - 4).ok_or(EntryError::Entry(offset))?;
        let mut matches = Vec::new();
        let mut at = self.layout.header();
        while at < target_at {
            let (extension, length) = extension(bytes.get(at..target_at).ok_or_else(cut)?).ok_or_else(cut)?;
            matches.push(extension);
            at += length;
        }
        let (target, _) = bytes.get(target_at..).and_then(extension).ok_or_else(cut)?;
        Ok(Entry { offset, ip, matches, target })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let rest = self.blob.get(offset..).filter(|rest| !rest.is_empty())?;
        let Some((target_at, next)) = offsets(self.layout, rest) else {
            self.offset = self.blob.len();
            return Some(Err(EntryError::Entry(offset)));
        };
        self.offset += next;
        Some(self.decode(offset, rest.get(..next)?, target_at))
    }
}

/// `target_offset` and `next_offset` of the entry that `rest` begins with, if they lie in it.
fn offsets(layout: Layout, rest: &[u8]) -> Option<(usize, usize)> {
    let target_at = usize::from(u16_at(rest, layout.offsets)?);
    let next = usize::from(u16_at(rest, layout.offsets + 2)?);
    (layout.header() <= target_at && target_at < next && next <= rest.len()).then_some((target_at, next))
}

fn extension(bytes: &[u8]) -> Option<(Extension<'_>, usize)> {
    let length = usize::from(u16_at(bytes, 0)?);
    let data = bytes.get(EXTENSION_HEADER..length)?;
    let name = bytes.get(2..2 + EXTENSION_NAME)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = String::from_utf8_lossy(name.get(..end)?).into_owned();
    Some((Extension { name, revision: *bytes.get(EXTENSION_HEADER - 1)?, data }, length))
}

/// Sets the counters of every entry to zero, so that two readings of the same rules are equal.
pub fn forget_counters(family: Family, blob: &mut [u8]) {
    let layout = Layout::of(family);
    let mut rest = blob;
    while let Some((_, next)) = offsets(layout, rest) {
        let (entry, others) = rest.split_at_mut(next);
        if let Some(counters) = entry.get_mut(layout.counters..layout.header()) {
            counters.fill(0);
        }
        rest = others;
    }
}

/// Where the hooks of a table begin and end, from `struct ipt_getinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hooks {
    /// One bit per `NF_INET_*` hook.
    pub valid: u32,
    /// Offset of the first entry per hook.
    pub entry: [u32; 5],
    /// Offset of the policy per hook.
    pub underflow: [u32; 5],
}

/// Decodes `struct ipt_getinfo`.
///
/// # Errors
/// [`EntryError::Info`] when it is too short.
pub(super) fn decode_hooks(info: &[u8]) -> Result<Hooks, EntryError> {
    const VALID: usize = 32;
    let short = || EntryError::Info(info.len());
    let number = |at: usize| u32_at(info, at).ok_or_else(short);
    let mut hooks = Hooks { valid: number(VALID)?, entry: [0; 5], underflow: [0; 5] };
    for (index, place) in hooks.entry.iter_mut().enumerate() {
        *place = number(VALID + 4 + index * 4)?;
    }
    for (index, place) in hooks.underflow.iter_mut().enumerate() {
        *place = number(VALID + 24 + index * 4)?;
    }
    Ok(hooks)
}
