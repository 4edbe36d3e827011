//! nfnetlink's framing: message types, `struct nfgenmsg`, requests, and typed attributes. Numbers are big endian, unlike in
//! other netlink families. Sources: `include/uapi/linux/netfilter/{nfnetlink,nf_tables}.h`.

use crate::decode::inet_diag_attributes::{AttributeError, Attributes, push_attribute};

/// `NFNL_SUBSYS_NFTABLES << 8`.
const SUBSYSTEM: u16 = 10 << 8;
/// Asks for the tables.
pub const GET_TABLE: u16 = SUBSYSTEM | 1;
/// Asks for the chains.
pub const GET_CHAIN: u16 = SUBSYSTEM | 4;
/// Asks for the rules.
pub const GET_RULE: u16 = SUBSYSTEM | 7;
/// Asks for the sets.
pub const GET_SET: u16 = SUBSYSTEM | 10;
/// Asks for the elements of one set.
pub const GET_ELEMENTS: u16 = SUBSYSTEM | 13;
/// Asks for the generation.
pub const GET_GENERATION: u16 = SUBSYSTEM | 16;

/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;

/// Why a message is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NftError {
    /// A length points outside.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// Too short for its fixed part.
    #[error("{what} of {length} bytes is too short")]
    Short {
        /// What it should have been.
        what: &'static str,
        /// Its length.
        length: usize,
    },
    /// Something that must be there is not.
    #[error("{what} without {attribute}")]
    Missing {
        /// The message.
        what: &'static str,
        /// What is not there.
        attribute: &'static str,
    },
}

/// A request body: `family` is an `NFPROTO_*` (0: all), attributes are names.
#[must_use]
pub fn encode_request(family: u8, names: &[(u16, &str)]) -> Vec<u8> {
    let mut body = vec![family, 0, 0, 0];
    for (kind, name) in names {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        // A name is 255 bytes at most (NFT_NAME_MAXLEN) and always fits.
        let _fits = push_attribute(&mut body, *kind, &text);
    }
    body
}

/// Family and attributes of a message body.
pub(super) fn split(body: &[u8]) -> Result<(u8, Attributes<'_>), NftError> {
    match (body.first(), body.get(HEADER..)) {
        (Some(family), Some(rest)) => Ok((*family, Attributes::new(rest))),
        _ => Err(NftError::Short { what: "message", length: body.len() }),
    }
}

/// The first attribute of this type in a nest; none if it is not there or the nest is broken before it.
pub(super) fn find(nest: &[u8], wanted: u16) -> Option<&[u8]> {
    Attributes::new(nest).map_while(Result::ok).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload)
}

/// Big-endian 32 bits.
pub(super) fn be32(payload: &[u8]) -> Option<u32> {
    payload.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Big-endian 64 bits.
pub(super) fn be64(payload: &[u8]) -> Option<u64> {
    payload.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Text up to the first NUL.
pub(super) fn text(payload: &[u8]) -> String {
    let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
    String::from_utf8_lossy(payload.get(..end).unwrap_or_default()).into_owned()
}

/// `NFTA_GEN_ID` of an answer to [`GET_GENERATION`].
///
/// # Errors
/// [`NftError`] when it is not there.
pub fn decode_generation(body: &[u8]) -> Result<u32, NftError> {
    const NFTA_GEN_ID: u16 = 1;
    let (_, attributes) = split(body)?;
    for attribute in attributes {
        let (kind, payload) = attribute?;
        if kind == NFTA_GEN_ID {
            return be32(payload).ok_or(NftError::Short { what: "generation", length: payload.len() });
        }
    }
    Err(NftError::Missing { what: "generation", attribute: "id" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_has_its_family_and_its_names_with_their_end() {
        assert_eq!(encode_request(2, &[(1, "nat")]), [2, 0, 0, 0, 8, 0, 1, 0, b'n', b'a', b't', 0]);
        assert_eq!(encode_request(0, &[]), [0; 4]);
    }

    #[test]
    fn the_generation_is_big_endian() {
        let body = [0, 0, 0, 7, 8, 0, 1, 0, 0, 0, 1, 7];
        assert_eq!(decode_generation(&body), Ok(263));
        assert_eq!(decode_generation(&body[..4]), Err(NftError::Missing { what: "generation", attribute: "id" }));
        assert_eq!(decode_generation(&body[..3]), Err(NftError::Short { what: "message", length: 3 }));
        assert!(matches!(decode_generation(&body[..10]), Err(NftError::Attribute(_))));
        assert_eq!(decode_generation(&[0, 0, 0, 0, 6, 0, 1, 0, 0, 0]), Err(NftError::Short { what: "generation", length: 2 }));
    }

    #[test]
    fn texts_end_at_their_nul() {
        assert_eq!(text(b"filter\0junk"), "filter");
        assert_eq!(text(b"no end"), "no end");
        assert_eq!(text(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn an_attribute_is_found_by_its_type_whatever_its_flags() {
        let nest = [8, 0, 1, 0x80, 1, 2, 3, 4, 5, 0, 2, 0, 9];
        assert_eq!(find(&nest, 1), Some(&[1, 2, 3, 4][..]));
        assert_eq!(find(&nest, 2), Some(&[9][..]));
        assert_eq!(find(&nest, 3), None);
        assert_eq!(find(&[200, 0, 1, 0], 1), None);
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64), kind in any::<u16>()) {
            let _ = decode_generation(&bytes);
            let _ = find(&bytes, kind);
            let _ = text(&bytes);
        }
    }
}
