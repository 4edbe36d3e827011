//! Durations as an operator writes them.

use std::time::Duration;

/// Reads `1s`, `250ms`, `3d4h`, `1m30s`: whole numbers with the units d, h, m, s, ms, us, ns, each at most once, largest first.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 7] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let fault = || format!("\"{text}\" is not a duration: write a number with a unit, e.g. 250ms, 2s, 1m30s, 3d4h");
    let mut total: u64 = 0;
    let mut next_unit = 0;
    let mut rest = text;
    if rest.is_empty() {
        return Err(fault());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let number: u64 = number.parse().map_err(|_| fault())?;
        let index = UNITS.iter().position(|(word, _)| *word == unit).filter(|index| *index >= next_unit).ok_or_else(fault)?;
        let (_, nanos) = UNITS[index];
        total = number.checked_mul(nanos).and_then(|part| total.checked_add(part)).ok_or_else(fault)?;
        next_unit = index + 1;
        rest = tail;
    }
    Ok(Duration::from_nanos(total))
}

#[cfg(test)]
mod tests {
    use gwready_core::render::duration::render_exact;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_the_documents_show() {
        for (text, millis) in [("0s", 0), ("1s", 1000), ("250ms", 250), ("1m30s", 90_000), ("3d4h", 273_600_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn refuses_everything_else_with_an_example() {
        for text in ["", "5", "s", "1.5s", "-1s", "1s ", " 1s", "1 s", "1s1s", "1s1m", "1y", "1S", "99999999999999d", "٣s", "1é"] {
            let sentence = parse_duration(text).expect_err(text);
            assert!(sentence.contains("250ms"), "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn takes_back_what_the_renderer_writes(nanos: u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&render_exact(duration)), Ok(duration));
        }
    }
}
