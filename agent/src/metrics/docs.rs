//! `docs/metrics.md`, made from the table of families.

use std::fmt::Write;

use super::catalog::{Kind, METRICS};

const HEAD: &str = "\
# Metrics

<!-- Generated from agent/src/metrics/catalog.rs by `gwready docs metrics`; a test compares. Do not edit. -->

`/metrics` on the admin port is open to everyone and speaks OpenMetrics 1.0 or the Prometheus text format 0.0.4, as the
client's `Accept` asks. States are one-hot: one series per possible value, 1 for the current one and 0 for the others.
Series with closed label sets exist from the start at zero, so that `rate()` and `increase()` see the first event.
A value that can't be known is absent, never zero.

| metric | type | labels | meaning |
|---|---|---|---|
";

const TAIL: &str = "
States are `up`, `drain` and `down`; status is `true`, `false` or `unknown`; reasons have a page each in `docs/conditions/`;
sources are those of `docs/status.md`.
";

/// The whole page.
#[must_use]
pub fn render() -> String {
    let mut out = HEAD.to_owned();
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "| `{}` | {kind} | {labels} | {} |", metric.name(), metric.help);
    }
    out.push_str(TAIL);
    out
}
