//! The one function that foreign text passes before any output (architecture invariant 11).

/// Longest foreign text in any output, in bytes.
pub const MAX_BYTES: usize = 64;
/// The end of a text that was longer.
const CUT: &str = "...";

/// Makes text that we did not write (process names, paths, Envoy's sentences, drain reasons, pod names) harmless:
/// `=` becomes `:` (so that it can't forge a `key=value` token), control characters and non-ASCII become `?`, at most
/// [`MAX_BYTES`] bytes remain. What was cut ends in `...`: a port of which a digit is missing would be another port.
#[must_use]
pub fn sanitise(text: &str) -> String {
    let harmless = |c| match c {
        '=' => ':',
        ' '..='~' => c,
        _ => '?',
    };
    let mut out: String = text.chars().take(MAX_BYTES + 1).map(harmless).collect();
    if out.len() > MAX_BYTES {
        out.truncate(MAX_BYTES - CUT.len());
        out.push_str(CUT);
    }
    out
}

/// Longest sentence in any output, in bytes.
pub const MAX_SENTENCE: usize = 300;

/// A sentence of ours that may hold foreign words (a condition's message, a log message): control characters and
/// non-ASCII become `?`, at most [`MAX_SENTENCE`] bytes remain. Only for places where it is quoted, or a value of its own:
/// it keeps `=`.
#[must_use]
pub fn clean_sentence(text: &str) -> String {
    clean(text, MAX_SENTENCE)
}

/// Longest value of ours in a log line, in bytes: the effective configuration has to fit.
pub const MAX_NOTICE: usize = 16 * 1024;

/// The same for a whole notice of ours, at most [`MAX_NOTICE`] bytes.
#[must_use]
pub fn clean_notice(text: &str) -> String {
    clean(text, MAX_NOTICE)
}

fn clean(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn output_is_short_printable_ascii_without_equals(text in ".*") {
            let out = sanitise(&text);
            prop_assert!(out.len() <= MAX_BYTES);
            prop_assert!(out.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'='));
        }
    }

    #[test]
    fn what_was_cut_shows_it() {
        let rule = "-d 10.77.0.1 -p tcp -m tcp --dport 443 -j REDIRECT --to-ports 8443";
        assert_eq!(sanitise(rule), "-d 10.77.0.1 -p tcp -m tcp --dport 443 -j REDIRECT --to-ports...");
        let whole = "x".repeat(MAX_BYTES);
        assert_eq!(sanitise(&whole), whole);
    }

    #[test]
    fn a_sentence_is_one_line_of_bounded_length() {
        assert_eq!(clean_sentence("Envoy: \"a=b\"\nnext \u{e9}"), "Envoy: \"a=b\"?next ?");
        assert_eq!(clean_sentence(&"x".repeat(9999)).len(), MAX_SENTENCE);
    }

    #[test]
    fn a_forged_state_token_loses_its_equals_sign() {
        assert_eq!(sanitise("x state=up\r\n\u{202e}"), "x state:up???");
    }
}
