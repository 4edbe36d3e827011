//! Netlink attributes (`struct nlattr`, RFC 3549 2.3.2.2) as an iterator of type and payload. Knows no attribute by name.

/// Length of `struct nlattr`.
const HEADER: usize = 4;
/// `NLA_F_NESTED | NLA_F_NET_BYTEORDER`: flags in the upper bits of the type field, not part of the type.
const TYPE_FLAGS: u16 = 0xc000;

/// The attribute section does not add up: a length points outside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("netlink attribute at byte {offset} claims {claimed} bytes, {left} are left")]
pub struct AttributeError {
    /// Where the attribute starts, from the start of the section.
    pub offset: usize,
    /// Its length field.
    pub claimed: usize,
    /// Bytes from there to the end.
    pub left: usize,
}

/// Attributes of one section, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    section: &'a [u8],
    offset: usize,
}

impl<'a> Attributes<'a> {
    /// Attributes of `section`, which starts at an attribute header.
    #[must_use]
    pub const fn new(section: &'a [u8]) -> Self {
        Self { section, offset: 0 }
    }
}

impl<'a> Iterator for Attributes<'a> {
    /// Type without its flags, and payload without padding.
    type Item = Result<(u16, &'a [u8]), AttributeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.section.get(self.offset..)?;
        if rest.len() < HEADER {
            // Up to three bytes of padding may follow the last attribute.
            return None;
        }
        let claimed = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & !TYPE_FLAGS;
        let Some(payload) = rest.get(HEADER..claimed) else {
            let error = AttributeError { offset: self.offset, claimed, left: rest.len() };
            self.offset = self.section.len();
            return Some(Err(error));
        };
        self.offset = self.offset.saturating_add(claimed.next_multiple_of(4));
        Some(Ok((kind, payload)))
    }
}

/// Appends one attribute, padded to four bytes. A payload that does not fit the 16-bit length field is refused.
#[must_use]
pub fn push_attribute(out: &mut Vec<u8>, kind: u16, payload: &[u8]) -> bool {
    let Ok(length) = u16::try_from(payload.len().saturating_add(HEADER)) else {
        return false;
    };
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(4), 0);
    true
}

/// Native-endian 16 bits at `offset`.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..offset.checked_add(2)?)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Native-endian 32 bits at `offset`.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Native-endian 64 bits at `offset`.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..offset.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_come_back_as_pushed_whatever_their_padding() {
        let mut section = Vec::new();
        for payload in [&b""[..], b"a", b"abcd", b"abcde"] {
            assert!(push_attribute(&mut section, 7, payload));
            assert_eq!(section.len() % 4, 0);
        }
        let read: Vec<_> = Attributes::new(&section).map(Result::unwrap).collect();
        assert_eq!(read, [(7, &b""[..]), (7, b"a"), (7, b"abcd"), (7, b"abcde")]);
    }

    #[test]
    fn the_flags_in_the_type_field_are_not_part_of_the_type() {
        let mut section = Vec::new();
        assert!(push_attribute(&mut section, 0x8000 | 3, b""));
        assert_eq!(Attributes::new(&section).next(), Some(Ok((3, &b""[..]))));
    }

    #[test]
    fn a_length_that_leaves_the_section_is_an_error_and_ends_it() {
        let mut section = Vec::new();
        assert!(push_attribute(&mut section, 1, b"abcd"));
        section.truncate(6);
        let mut attributes = Attributes::new(&section);
        assert_eq!(attributes.next(), Some(Err(AttributeError { offset: 0, claimed: 8, left: 6 })));
        assert_eq!(attributes.next(), None);
    }

    #[test]
    fn a_length_shorter_than_the_header_is_an_error_not_an_endless_loop() {
        let section = [0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(Attributes::new(&section).count(), 1);
        assert!(Attributes::new(&section).all(|attribute| attribute.is_err()));
    }

    #[test]
    fn a_payload_too_long_for_the_length_field_is_refused() {
        let mut section = Vec::new();
        assert!(!push_attribute(&mut section, 1, &[0; 65_532]));
        assert!(section.is_empty());
        assert!(push_attribute(&mut section, 1, &[0; 65_531]));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Attributes::new(&bytes).count() <= bytes.len() / HEADER);
        }
    }
}
