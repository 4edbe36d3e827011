//! Metrics: counters that the daemon keeps, and gauges made from the last verdict and snapshot at the time of a scrape.
//!
//! One table, [`catalog::METRICS`], names every family; `docs/metrics.md` is made from it, and nothing else can be written.
//! Nothing here judges or reads the kernel, save the agent's own `/proc/self`.

pub mod catalog;
mod collect;
mod counters;
pub mod docs;
mod exposition;
mod from_snapshot;
mod from_verdict;
mod process;
mod sample;

pub use counters::{HealthRequests, Metrics, Published};
pub use exposition::Exposition;

#[cfg(test)]
mod tests;
