//! The escapes of send and receive strings: `\r \n \t \\ \' \xHH \NNN`. Anything else stays as it is, backslash included.

/// The bytes that a configured string stands for.
pub(super) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, used) = if first == b'\\' { escaped(after).unwrap_or((b'\\', 0)) } else { (first, 0) };
        bytes.push(byte);
        rest = &after[used..];
    }
    bytes
}

/// The byte that the characters after a backslash stand for, and how many they are.
fn escaped(after: &[u8]) -> Option<(u8, usize)> {
    let number = |digits: &[u8], radix| u8::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok();
    match after {
        [b'r', ..] => Some((b'\r', 1)),
        [b'n', ..] => Some((b'\n', 1)),
        [b't', ..] => Some((b'\t', 1)),
        [b'\\', ..] => Some((b'\\', 1)),
        [b'\'', ..] => Some((b'\'', 1)),
        [b'x', high, low, ..] => number(&[*high, *low], 16).map(|byte| (byte, 3)),
        [a @ b'0'..=b'7', b, c, ..] => number(&[*a, *b, *c], 8).map(|byte| (byte, 3)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(unescape(r"GET /\r\n"), b"GET /\r\n");
        assert_eq!(unescape(r"a\x22b\042c\\d\'e\tf"), b"a\"b\"c\\d'e\tf");
        assert_eq!(unescape(r"GET / HTTP/1.1/r/n\q\x"), br"GET / HTTP/1.1/r/n\q\x", "not escapes");
    }
}
