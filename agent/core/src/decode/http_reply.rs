//! HTTP/1 replies, as far as the probe and the admin client need them: status, `server`, body. Total: any bytes give a reply, "more", or an error.

/// Largest head that is looked at, in bytes.
pub const MAX_HEAD: usize = 16 * 1024;

/// The head of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyHead {
    /// Status code, 100..=999.
    pub status: u16,
    /// The `server` header, raw text.
    pub server: Option<String>,
    /// `content-length`, if there is one.
    pub content_length: Option<usize>,
    /// `transfer-encoding: chunked`.
    pub chunked: bool,
    /// Bytes of the head, blank line included: the body begins here.
    pub length: usize,
}

/// Why bytes are no HTTP/1 reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The first line is no status line.
    #[error("not an HTTP/1 status line")]
    StatusLine,
    /// The head is longer than [`MAX_HEAD`].
    #[error("the head is too long")]
    TooLong,
    /// A chunk has no size, or its size does not end.
    #[error("malformed chunk")]
    Chunk,
    /// The connection ended before the body did.
    #[error("the body is incomplete")]
    Incomplete,
}

/// Reads the head (RFC 9112); none = the blank line has not come yet.
///
/// # Errors
/// [`ReplyError::StatusLine`] as soon as the bytes can't be a status line; [`ReplyError::TooLong`].
pub fn decode_head(bytes: &[u8]) -> Result<Option<ReplyHead>, ReplyError> {
    let prefix = b"HTTP/1.";
    let seen = bytes.len().min(prefix.len());
    if bytes.get(..seen) != prefix.get(..seen) {
        return Err(ReplyError::StatusLine);
    }
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > MAX_HEAD { Err(ReplyError::TooLong) } else { Ok(None) };
    };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(status_of).ok_or(ReplyError::StatusLine)?;
    let mut reply = ReplyHead { status, server: None, content_length: None, chunked: false, length: end.saturating_add(4) };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "server" => reply.server = Some(value.to_owned()),
            "content-length" => reply.content_length = value.parse().ok(),
            "transfer-encoding" => reply.chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    Ok(Some(reply))
}

fn status_of(line: &str) -> Option<u16> {
    let code = line.split(' ').nth(1)?;
    (code.len() == 3).then(|| code.parse().ok()).flatten().filter(|status| *status >= 100)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// The whole body of a reply whose connection has been read to its end.
///
/// # Errors
/// [`ReplyError::Incomplete`] if less came than was announced; [`ReplyError::Chunk`].
pub fn decode_body(head: &ReplyHead, bytes: &[u8]) -> Result<Vec<u8>, ReplyError> {
    let body = bytes.get(head.length..).unwrap_or_default();
    match (head.chunked, head.content_length) {
        (true, _) => decode_chunks(body),
        (false, Some(length)) => body.get(..length).map(<[u8]>::to_vec).ok_or(ReplyError::Incomplete),
        (false, None) => Ok(body.to_vec()),
    }
}

fn decode_chunks(mut rest: &[u8]) -> Result<Vec<u8>, ReplyError> {
    let mut body = Vec::with_capacity(rest.len());
    loop {
        let line = find(rest, b"\r\n").ok_or(ReplyError::Incomplete)?;
        let size = rest.get(..line).and_then(|digits| std::str::from_utf8(digits).ok());
        let size = size.map(|text| text.split(';').next().unwrap_or_default().trim()).ok_or(ReplyError::Chunk)?;
        let size = usize::from_str_radix(size, 16).map_err(|_| ReplyError::Chunk)?;
        if size == 0 {
            return Ok(body);
        }
        let begin = line.saturating_add(2);
        let end = begin.saturating_add(size);
        body.extend_from_slice(rest.get(begin..end).ok_or(ReplyError::Incomplete)?);
        rest = rest.get(end..).and_then(|after| after.strip_prefix(b"\r\n")).ok_or(ReplyError::Chunk)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPLY: &[u8] = b"HTTP/1.1 400 Bad Request\r\nServer: envoy\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc";

    #[test]
    fn a_reply_of_envoy() {
        let head = decode_head(REPLY).unwrap().unwrap();
        assert_eq!((head.status, head.server.as_deref()), (400, Some("envoy")));
        assert_eq!(decode_body(&head, REPLY).unwrap(), b"abc");
        assert_eq!(decode_body(&head, &REPLY[..REPLY.len() - 1]), Err(ReplyError::Incomplete));
    }

    #[test]
    fn a_part_of_a_head_is_not_yet_a_head() {
        let end = find(REPLY, b"\r\n\r\n").unwrap() + 4;
        for cut in 0..end {
            assert_eq!(decode_head(&REPLY[..cut]), Ok(None), "{cut}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused_at_the_first_wrong_byte() {
        assert_eq!(decode_head(b"S"), Err(ReplyError::StatusLine));
        assert_eq!(decode_head(b"HTTP/2"), Err(ReplyError::StatusLine));
        assert_eq!(decode_head(b"HTTP/1.1 xx\r\n\r\n"), Err(ReplyError::StatusLine));
        assert_eq!(decode_head(b"HTTP/1.1 99999 x\r\n\r\n"), Err(ReplyError::StatusLine));
        let mut long = b"HTTP/1.1 200 OK\r\n".to_vec();
        long.resize(MAX_HEAD + 1, b'a');
        assert_eq!(decode_head(&long), Err(ReplyError::TooLong));
    }

    #[test]
    fn chunks_are_joined_and_their_end_is_required() {
        let reply = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        let head = decode_head(reply).unwrap().unwrap();
        assert_eq!(decode_body(&head, reply).unwrap(), b"abcde");
        for cut in 1..reply.len() - head.length {
            let part = decode_body(&head, &reply[..reply.len() - cut]);
            assert!(cut <= 2 || part.is_err(), "{cut}");
        }
        assert_eq!(decode_body(&head, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), Err(ReplyError::Chunk));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), chunked: bool) {
            let _ = decode_head(&bytes);
            let head = ReplyHead { status: 200, server: None, content_length: Some(7), chunked, length: 3 };
            let _ = decode_body(&head, &bytes);
        }

        #[test]
        fn chunking_round_trips(body in proptest::collection::vec(any::<u8>(), 0..300), size in 1usize..50) {
            let mut reply = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            for chunk in body.chunks(size) {
                reply.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                reply.extend_from_slice(chunk);
                reply.extend_from_slice(b"\r\n");
            }
            reply.extend_from_slice(b"0\r\n\r\n");
            let head = decode_head(&reply).unwrap().unwrap();
            prop_assert_eq!(decode_body(&head, &reply).unwrap(), body);
        }
    }
}
