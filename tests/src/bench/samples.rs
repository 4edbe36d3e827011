//! A set of measured values and its quantiles. Pure.

/// Measured values of one kind, all in the same unit.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest value that at least `share` (0 to 1) of all values do not exceed; NaN without values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let below = sorted.iter().enumerate().filter(|(index, _)| to_f64(*index) < share * to_f64(sorted.len()) - 1.0).count();
        sorted.get(below).copied().unwrap_or(f64::NAN)
    }

    /// The middle value.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The largest value.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.quantile(1.0)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// Exact up to 2³²: no measurement counts further.
#[must_use]
pub fn to_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let samples: Samples = (1..=100).rev().map(f64::from).collect();
        for (share, value) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((samples.quantile(share) - value).abs() < f64::EPSILON, "{share}: {}", samples.quantile(share));
        }
        assert!((Samples::from_iter([3.0, 1.0, 2.0]).median() - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn nothing_measured_is_no_number() {
        assert!(Samples::default().median().is_nan());
    }
}
