//! What files of the cilium-agent tell of it: version and options. Text in, facts out; the reader finds the files.

use serde::Deserialize;

/// Marks the version in the comment of every `ep_config.h` (Cilium `common.CiliumCHeaderPrefix`).
const HEADER_PREFIX: &str = "CILIUM_BASE64_";

/// The agent's `(major, minor)` from an `<run_dir>/state/<id>/ep_config.h`: its comment has a line
/// `CILIUM_BASE64_<version as JSON>:<endpoint>`, both in base64 (Cilium `pkg/endpoint/bpf.go`, kept in newer versions for downgrades).
#[must_use]
pub fn parse_version(text: &str) -> Option<(u16, u16)> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "Version")]
        version: String,
    }
    let (_, rest) = text.split_once(HEADER_PREFIX)?;
    let encoded = rest.split([':', '\n', ' ']).next()?;
    let version: Version = serde_json::from_slice(&decode_base64(encoded)?).ok()?;
    let mut parts = version.version.trim_start_matches('v').split(['.', '-', '+', ' ']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether keys carry the real protocol, from `<run_dir>/state/globals/node_config.h`. Only 1.17 and 1.18 write the define; a file
/// without the node-port define is not taken for a whole one.
#[must_use]
pub fn parse_protocol_differentiation(text: &str, version: Option<(u16, u16)>) -> Option<bool> {
    let defines = |name: &str| {
        text.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("#define") && words.next() == Some(name)
        })
    };
    (matches!(version, Some((1, 17 | 18))) && defines("ENABLE_NODEPORT")).then(|| defines("ENABLE_SERVICE_PROTOCOL_DIFFERENTIATION"))
}

/// RFC 4648 section 4; padding optional. None for any other character. Written here because nothing else of the agent needs it.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `{"Version":"1.17.1","Revision":"d6c9f9e8"}`.
    const HEADER: &str = "/*\n * CILIUM_BASE64_eyJWZXJzaW9uIjoiMS4xNy4xIiwiUmV2aXNpb24iOiJkNmM5ZjllOCJ9:eyJJRCI6MX0=\n * \n";

    #[test]
    fn the_version_stands_in_the_comment() {
        assert_eq!(parse_version(HEADER), Some((1, 17)));
        assert_eq!(parse_version("/*\n * CILIUM_BASE64_eyJWZXJzaW9uIjoidjEuMjAuMC1kZXYifQ==:x"), Some((1, 20)), "v1.20.0-dev");
        assert_eq!(parse_version("#define LXC_ID 7"), None);
        assert_eq!(parse_version(" * CILIUM_BASE64_####:x"), None);
    }

    #[test]
    fn the_define_counts_where_its_version_writes_it() {
        let on = "#define ENABLE_NODEPORT 1\n#define ENABLE_SERVICE_PROTOCOL_DIFFERENTIATION 1\n";
        assert_eq!(parse_protocol_differentiation(on, Some((1, 17))), Some(true));
        assert_eq!(parse_protocol_differentiation("#define ENABLE_NODEPORT 1\n", Some((1, 18))), Some(false));
        assert_eq!(parse_protocol_differentiation("", Some((1, 18))), None, "an empty or cut file");
        assert_eq!(parse_protocol_differentiation(on, Some((1, 19))), None);
        assert_eq!(parse_protocol_differentiation(on, None), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_version_or_none(text in ".*") {
            let _ = parse_version(&text);
            let _ = parse_version(&format!("{HEADER_PREFIX}{text}"));
            let _ = decode_base64(&text);
        }
    }
}
