//! What the passes of a running agent cost, from its own metrics and the kernel's account of its observer thread.
//!
//! A pass is measured by the agent from its begin to the published value (`gwready_pass_duration_seconds`). Processor time of
//! the observer thread divided by passes is the upper bound that a busy machine does not blur: it includes waiting for
//! events, telling the metrics and whatever the thread does between passes.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cost;
use super::samples::Samples;
use crate::agent::Agent;
use crate::exposition;

/// Name of the thread that runs the passes.
const OBSERVER: &str = "observer";
const HISTOGRAM: &str = "gwready_pass_duration_seconds";

/// Cost of the passes within a span of time.
#[derive(Debug, Clone)]
pub struct PassCost {
    /// How many.
    pub passes: f64,
    /// Mean duration, microseconds.
    pub mean_us: f64,
    /// Upper bound of the bucket in which half of them lie, microseconds.
    pub half_below_us: f64,
    /// Upper bound of the bucket in which 99 of 100 lie, microseconds.
    pub most_below_us: f64,
    /// Processor time of the observer thread per pass, microseconds.
    pub cpu_us: f64,
}

/// What the agent had counted at one moment.
struct Reading {
    sum: f64,
    count: f64,
    buckets: Vec<(f64, f64)>,
    cpu: Duration,
}

fn read(agent: &Agent) -> Result<Reading> {
    let text = agent.metrics()?;
    Ok(Reading {
        sum: exposition::value(&text, &format!("{HISTOGRAM}_sum"), &[])?,
        count: exposition::value(&text, &format!("{HISTOGRAM}_count"), &[])?,
        buckets: parse_buckets(&text),
        cpu: cost::cpu_time(agent.pid(), Some(OBSERVER))?,
    })
}

/// `(upper bound in seconds, cumulated count)` of every bucket.
fn parse_buckets(text: &str) -> Vec<(f64, f64)> {
    let prefix = format!("{HISTOGRAM}_bucket{{le=\"");
    let bucket = |line: &str| {
        let (bound, count) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
        Some((bound, count.split(' ').next()?.parse().ok()?))
    };
    text.lines().filter_map(bucket).collect()
}

/// Lets the agent run for `span` and returns what its passes cost meanwhile.
pub fn measure(agent: &Agent, span: Duration) -> Result<PassCost> {
    let before = read(agent)?;
    // The measurement's own span, not a wait for a condition.
    thread::sleep(span);
    let after = read(agent)?;
    let passes = after.count - before.count;
    ensure!(passes > 0.0, "no pass within {span:?}");
    let below = |share: f64| {
        let reached = |((bound, now), (_, then)): (&(f64, f64), &(f64, f64))| (now - then >= share * passes).then_some(*bound);
        after.buckets.iter().zip(&before.buckets).find_map(reached).context("no buckets")
    };
    Ok(PassCost {
        passes,
        mean_us: (after.sum - before.sum) / passes * 1e6,
        half_below_us: below(0.5)? * 1e6,
        most_below_us: below(0.99)? * 1e6,
        cpu_us: (after.cpu - before.cpu).as_secs_f64() / passes * 1e6,
    })
}

/// Medians over several measurements of the same thing.
#[must_use]
pub fn median(costs: &[PassCost]) -> PassCost {
    let of = |pick: fn(&PassCost) -> f64| costs.iter().map(pick).collect::<Samples>().median();
    PassCost {
        passes: of(|cost| cost.passes),
        mean_us: of(|cost| cost.mean_us),
        half_below_us: of(|cost| cost.half_below_us),
        most_below_us: of(|cost| cost.most_below_us),
        cpu_us: of(|cost| cost.cpu_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_read_in_both_formats() {
        let text = "# TYPE gwready_pass_duration_seconds histogram\n\
            gwready_pass_duration_seconds_sum 0.5\n\
            gwready_pass_duration_seconds_bucket{le=\"0.0001\"} 3\n\
            gwready_pass_duration_seconds_bucket{le=\"+Inf\"} 7 1700000000\n";
        assert_eq!(parse_buckets(text), [(0.0001, 3.0), (f64::INFINITY, 7.0)]);
    }
}
