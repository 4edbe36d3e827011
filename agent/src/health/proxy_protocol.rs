//! PROXY protocol version 2 in front of a request (haproxy `doc/proxy-protocol.txt` 2.2): recognised and skipped.
//!
//! Its addresses are ignored, LOCAL or not: the question is about the address on which the connection came in.
//! Version 1 is a text line and is skipped by the request-line parser.

/// First bytes of a version 2 header. It begins with what could be blank lines before a request.
pub const V2_SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// First bytes of a version 1 header.
pub const V1_PREFIX: &[u8] = b"PROXY ";

/// Bytes of the signature that are also harmless blank lines.
const BLANK: usize = 4;

/// What the bytes so far are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Can't tell yet, or inside the header.
    More,
    /// Over: the rest is the request.
    Over,
    /// Began like the signature and then was not: no request can begin like that.
    Broken,
}

/// Consumes a version 2 header, if there is one, from bytes that arrive in any portions.
#[derive(Debug, Default)]
pub struct V2Header {
    matched: usize,
    fields: usize,
    length: usize,
}

impl V2Header {
    /// Takes what belongs to the header off the front of `bytes`.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Opening {
        while self.fields < 4 {
            let Some((&byte, rest)) = bytes.split_first() else { return Opening::More };
            if let Some(&expected) = V2_SIGNATURE.get(self.matched) {
                if byte != expected {
                    return if self.matched <= BLANK { Opening::Over } else { Opening::Broken };
                }
                self.matched += 1;
            } else {
                match self.fields {
                    // Version and command: 0x20 LOCAL, 0x21 PROXY.
                    0 if byte >> 4 != 2 => return Opening::Broken,
                    2 | 3 => self.length = (self.length << 8) | usize::from(byte),
                    _ => {}
                }
                self.fields += 1;
            }
            *bytes = rest;
        }
        let skipped = self.length.min(bytes.len());
        *bytes = bytes.get(skipped..).unwrap_or_default();
        self.length -= skipped;
        if self.length == 0 { Opening::Over } else { Opening::More }
    }
}
