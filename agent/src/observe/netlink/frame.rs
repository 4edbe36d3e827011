//! A received datagram as netlink messages, and a request as a datagram (`struct nlmsghdr`, RFC 3549 2.3.2).

use netlink_packet_core::{Emitable, NetlinkBuffer, NetlinkHeader};

use super::NetlinkError;

/// Length of `struct nlmsghdr`.
const NETLINK_HEADER_LEN: usize = 16;

/// One message of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) body: &'a [u8],
}

/// The messages of a datagram, in order; ends after the first error.
pub(super) struct Frames<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, NetlinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.0);
        let message = match NetlinkBuffer::new_checked(rest) {
            Ok(message) => message,
            Err(error) => return Some(Err(NetlinkError::Malformed(error.to_string()))),
        };
        let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
        self.0 = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Frame {
            kind: message.message_type(),
            flags: message.flags(),
            sequence: message.sequence_number(),
            body: message.payload(),
        }))
    }
}

/// Appends one request. A body that does not fit the 32-bit length field is refused.
pub(super) fn push_request(out: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Result<(), NetlinkError> {
    let length = u32::try_from(body.len().saturating_add(NETLINK_HEADER_LEN))
        .map_err(|_| NetlinkError::Malformed(format!("a request of {} bytes", body.len())))?;
    let mut header = NetlinkHeader::default();
    header.length = length;
    header.message_type = kind;
    header.flags = flags;
    header.sequence_number = sequence;
    let mut bytes = [0; NETLINK_HEADER_LEN];
    header.emit(&mut bytes);
    out.extend_from_slice(&bytes);
    out.extend_from_slice(body);
    out.resize(out.len().next_multiple_of(4), 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_come_back_as_frames() {
        let mut datagram = Vec::new();
        push_request(&mut datagram, 20, 1, 7, b"abc").unwrap();
        push_request(&mut datagram, 21, 2, 8, b"").unwrap();
        let frames: Vec<_> = Frames(&datagram).map(Result::unwrap).collect();
        assert_eq!(frames, [Frame { kind: 20, flags: 1, sequence: 7, body: b"abc" }, Frame { kind: 21, flags: 2, sequence: 8, body: b"" }]);
    }

    #[test]
    fn a_cut_message_is_an_error_after_the_whole_ones() {
        let mut datagram = Vec::new();
        push_request(&mut datagram, 20, 0, 1, b"abcd").unwrap();
        push_request(&mut datagram, 20, 0, 2, b"abcd").unwrap();
        datagram.truncate(30);
        let frames: Vec<_> = Frames(&datagram).collect();
        assert_eq!(frames.len(), 2);
        assert!(frames[0].is_ok() && frames[1].is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Frames(&bytes).count() <= bytes.len() / NETLINK_HEADER_LEN + 1);
        }
    }
}
