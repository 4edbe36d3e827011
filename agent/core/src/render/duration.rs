//! Durations as text: exact for configuration, rounded for people.

use std::time::Duration;

/// Units from large to small: nanoseconds and word.
const UNITS: [(u128, &str); 7] = [
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

/// Exact, largest units first, e.g. `250ms`, `1m30s`, `3d4h`; zero is `0s`. The configuration reader takes it back.
#[must_use]
pub fn render_exact(duration: Duration) -> String {
    render_units(duration, usize::MAX)
}

/// The two largest adjoining units, cut off below, e.g. `3d4h`, `5m2s`, `180us`: enough for a person.
/// From a second on, nothing below a second is shown.
#[must_use]
pub fn render_age(duration: Duration) -> String {
    let whole = if duration >= Duration::from_secs(1) { Duration::from_secs(duration.as_secs()) } else { duration };
    let largest = UNITS.iter().position(|(nanos, _)| whole.as_nanos() >= *nanos).unwrap_or(3);
    let shown = if largest < 3 { UNITS.get(largest + 1) } else { UNITS.get(largest) };
    let step = shown.map_or(1, |(nanos, _)| *nanos);
    let cut = whole.as_nanos() / step * step;
    render_units(Duration::from_nanos(u64::try_from(cut).unwrap_or(u64::MAX)), 2)
}

fn render_units(duration: Duration, at_most: usize) -> String {
    let mut rest = duration.as_nanos();
    let mut out = String::new();
    let mut shown = 0;
    for (nanos, word) in UNITS {
        let count = rest / nanos;
        if count > 0 && shown < at_most {
            out.push_str(&count.to_string());
            out.push_str(word);
            rest %= nanos;
            shown += 1;
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_text_keeps_every_unit() {
        for (nanos, text) in
            [(0, "0s"), (250_000_000, "250ms"), (90_000_000_000, "1m30s"), (273_600_000_000_000, "3d4h"), (1_500_000_000, "1s500ms")]
        {
            assert_eq!(render_exact(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn an_age_shows_two_units_at_most() {
        for (nanos, text) in [
            (0, "0s"),
            (180_400, "180us"),
            (12_345_678, "12ms"),
            (1_999_000_000, "1s"),
            (302_500_000_000, "5m2s"),
            (3_605_000_000_000, "1h"),
            (273_661_000_000_000, "3d4h"),
        ] {
            assert_eq!(render_age(Duration::from_nanos(nanos)), text);
        }
    }
}
