//! Attributes as the kernel writes them, for tests.

use crate::decode::inet_diag_attributes::push_attribute;

/// A nest of attributes, without its own header.
pub(super) fn nest(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in attributes {
        assert!(push_attribute(&mut out, *kind, payload));
    }
    out
}

/// A big-endian number.
pub(super) fn number(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

/// A text with its end.
pub(super) fn name(text: &str) -> Vec<u8> {
    format!("{text}\0").into_bytes()
}

/// A message body of a family.
pub(super) fn message(family: u8, attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    [vec![family, 0, 0, 1], nest(attributes)].concat()
}
