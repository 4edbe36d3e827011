//! Sets and maps of nf_tables.
//!
//! # How a decoder fills it
//!
//! One [`Set`] per `NFT_MSG_NEWSET`, anonymous ones too, with its elements of `NFT_MSG_NEWSETELEM` as dumped: raw bytes of
//! `NFTA_SET_ELEM_KEY`, `…_KEY_END`, the flags, the data. The order of elements does not matter. An interval set that is no
//! concatenation (rbtree) has its ends as elements of their own, with [`Element::interval_end`]; a concatenation with ranges (pipapo)
//! has [`Element::key_end`]. Nobody pairs or sorts them before the follower does.
//! The elements of a [`SetFlags::dynamic`] set need not be read: packets change it without a new generation, so it proves nothing.

use serde::{Deserialize, Serialize};

use super::expr::{Data, hex};

/// A set or a map.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Set {
    /// Name (`__set7`, `__map3` for anonymous ones).
    pub name: String,
    /// Flags.
    pub flags: SetFlags,
    /// `NFTA_SET_KEY_TYPE`: nft's own number of the type, for display only.
    pub key_type: u32,
    /// `NFTA_SET_KEY_LEN` in bytes; fields of a concatenation are padded to 4.
    pub key_len: u32,
    /// `NFTA_SET_FIELD_LEN` of each field of a concatenation (`NFTA_SET_DESC_CONCAT`), without padding; empty where the kernel sends none.
    pub field_lens: Vec<u32>,
    /// Elements in any order.
    pub elements: Vec<Element>,
}

/// `enum nft_set_flags`, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are the kernel's independent flags")]
pub struct SetFlags {
    /// `NFT_SET_ANONYMOUS`.
    pub anonymous: bool,
    /// `NFT_SET_CONSTANT`.
    pub constant: bool,
    /// `NFT_SET_INTERVAL`.
    pub interval: bool,
    /// `NFT_SET_MAP`: elements carry data.
    pub map: bool,
    /// `NFT_SET_TIMEOUT`: elements may expire.
    pub timeout: bool,
    /// `NFT_SET_EVAL`: packets add elements.
    pub dynamic: bool,
    /// `NFT_SET_OBJECT`: data is the name of an object.
    pub object: bool,
    /// `NFT_SET_CONCAT`.
    pub concat: bool,
    /// `NFT_SET_EXPR`, or `NFTA_SET_EXPR`/`NFTA_SET_EXPRESSIONS` present: elements carry counters, limits and the like.
    pub expressions: bool,
}

impl SetFlags {
    /// From `NFTA_SET_FLAGS`.
    #[must_use]
    pub const fn from_kernel(flags: u32) -> Self {
        Self {
            anonymous: flags & 0x1 != 0,
            constant: flags & 0x2 != 0,
            interval: flags & 0x4 != 0,
            map: flags & 0x8 != 0,
            timeout: flags & 0x10 != 0,
            dynamic: flags & 0x20 != 0,
            object: flags & 0x40 != 0,
            concat: flags & 0x80 != 0,
            expressions: flags & 0x100 != 0,
        }
    }
}

/// One element.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Element {
    /// Key; empty for the catch-all.
    #[serde(with = "hex")]
    pub key: Vec<u8>,
    /// Last key of a range in a concatenation, inclusive.
    #[serde(with = "hex::option")]
    pub key_end: Option<Vec<u8>>,
    /// `NFT_SET_ELEM_INTERVAL_END`: the key is the first one *after* an interval.
    pub interval_end: bool,
    /// `NFT_SET_ELEM_CATCHALL`: matches what nothing else matches.
    pub catch_all: bool,
    /// It has a time-out of its own (`NFTA_SET_ELEM_TIMEOUT` or `…_EXPIRATION`).
    pub expires: bool,
    /// An expression of the element can end the match: limit, quota, connlimit. A counter or `last` does not count.
    pub conditional: bool,
    /// Value or verdict of a map; none in a set, at an interval end, and where it is an object's name.
    pub data: Option<Data>,
}
