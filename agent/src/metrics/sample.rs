//! One family with its samples, on its way to the encoder. Counts are whole, seconds are fractions.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::catalog::{Kind, Metric};

/// Values of the labels, in the order of [`Metric::labels`].
pub(super) type Labels = Vec<String>;

/// A family and what it has to say now.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pub(super) metric: &'static Metric,
    pub(super) samples: Vec<(Labels, f64)>,
}

impl Family {
    pub(super) const fn new(metric: &'static Metric) -> Self {
        Self { metric, samples: Vec::new() }
    }

    /// Adds a sample.
    pub(super) fn push(&mut self, labels: &[&str], value: f64) {
        self.samples.push((labels.iter().map(|label| (*label).to_owned()).collect(), value));
    }

    /// Adds one sample per possible value of the last label: 1 for the current one.
    pub(super) fn push_one_hot(&mut self, labels: &[&str], values: &[&str], current: &str) {
        for value in values {
            let all: Vec<&str> = labels.iter().copied().chain(std::iter::once(*value)).collect();
            self.push(&all, f64::from(u8::from(*value == current)));
        }
    }

    /// Writes the family; one without samples is left out, so that no empty family is declared.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.samples.is_empty() {
            return Ok(());
        }
        let kind = match self.metric.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Info => MetricType::Info,
            Kind::Gauge | Kind::Histogram => MetricType::Gauge,
        };
        let mut metric = encoder.encode_descriptor(self.metric.family, self.metric.help, None, kind)?;
        for (values, number) in &self.samples {
            let labels: Vec<(&str, &str)> = self.metric.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            match self.metric.kind {
                Kind::Info => metric.encode_info(&labels)?,
                Kind::Counter if labels.is_empty() => encode_counter(&mut metric, *number)?,
                Kind::Counter => encode_counter(&mut metric.encode_family(&labels)?, *number)?,
                _ if labels.is_empty() => metric.encode_gauge(number)?,
                _ => metric.encode_family(&labels)?.encode_gauge(number)?,
            }
        }
        Ok(())
    }
}

fn encode_counter(encoder: &mut MetricEncoder<'_>, number: f64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, f64, f64>(&number, None)
}
