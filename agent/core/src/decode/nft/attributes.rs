//! The attributes of one expression, by number. Reads what is asked for; what is missing is none.

use super::wire::{be32, be64, find, text};
use crate::netfilter::expr::{Dest, Reg};

/// The nest `NFTA_EXPR_DATA`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nest<'a>(pub(super) &'a [u8]);

impl<'a> Nest<'a> {
    pub(super) fn bytes(self, kind: u16) -> Option<&'a [u8]> {
        find(self.0, kind)
    }

    pub(super) fn has(self, kind: u16) -> bool {
        self.bytes(kind).is_some()
    }

    pub(super) fn number(self, kind: u16) -> Option<u32> {
        be32(self.bytes(kind)?)
    }

    /// A number whose absence means 0.
    pub(super) fn number_or_0(self, kind: u16) -> u32 {
        self.number(kind).unwrap_or(0)
    }

    pub(super) fn long(self, kind: u16) -> Option<u64> {
        be64(self.bytes(kind)?)
    }

    pub(super) fn byte(self, kind: u16) -> Option<u8> {
        self.bytes(kind)?.first().copied()
    }

    /// The low byte of a number: families and the like are sent as 32 bits.
    pub(super) fn small(self, kind: u16) -> Option<u8> {
        u8::try_from(self.number(kind)?).ok()
    }

    pub(super) fn text(self, kind: u16) -> Option<String> {
        self.bytes(kind).map(text)
    }

    pub(super) fn reg(self, kind: u16) -> Option<Reg> {
        Reg::from_kernel(self.number(kind)?)
    }

    pub(super) fn dest(self, kind: u16) -> Option<Dest> {
        Dest::from_kernel(self.number(kind)?)
    }

    /// A nest in it that holds a value.
    pub(super) fn value(self, kind: u16) -> Option<Vec<u8>> {
        super::data::value(self.bytes(kind)?)
    }
}
