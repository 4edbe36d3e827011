//! Reads Prometheus text: one value by name and labels. For assertions; must not judge.

use anyhow::{Context, Result, anyhow};

/// The value of the first sample of `name` that has all the given labels, e.g.
/// `("gwready_node_state", &[("state", "up")])`.
pub fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
    let wanted: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
    let sample = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (series, rest) = line.rsplit_once("} ").unwrap_or_else(|| line.split_once(' ').unwrap_or((line, "")));
        let (found, set) = series.split_once('{').unwrap_or((series, ""));
        let has = |label: &String| {
            // A label starts the set or follows a comma, so `port=` does not match `report=`.
            set.starts_with(label.as_str()) || set.contains(&format!(",{label}"))
        };
        (found == name && wanted.iter().all(has)).then_some(rest)
    });
    let sample = sample.with_context(|| format!("no sample {name}{{{}}}", wanted.join(",")))?;
    let number = sample.split(' ').next().unwrap_or_default();
    number.parse().map_err(|error| anyhow!("{name} {number}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE a gauge\n\
        a{report=\"80\",state=\"up\"} 3\n\
        a{port=\"80\",state=\"down\"} 0\n\
        a{port=\"80\",state=\"up\"} 1 1700000000\n\
        b 2.5\n";

    #[test]
    fn a_sample_is_found_by_all_its_labels() {
        let up = value(TEXT, "a", &[("state", "up"), ("port", "80")]).unwrap();
        assert!((up - 1.0).abs() < f64::EPSILON);
        let bare = value(TEXT, "b", &[]).unwrap();
        assert!((bare - 2.5).abs() < f64::EPSILON);
    }

    #[test]
    fn a_missing_sample_is_an_error_not_zero() {
        assert!(value(TEXT, "a", &[("state", "drain")]).is_err());
        assert!(value(TEXT, "c", &[]).is_err());
    }
}
