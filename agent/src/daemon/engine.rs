//! The daemon's part of the command line.

use crate::cli::{Engine, Failure, Observation};
use crate::config::Config;

use super::{lifecycle, once};

/// The real thing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Daemon;

impl Engine for Daemon {
    fn run(&self, config: &Config) -> Result<(), Failure> {
        lifecycle::run(config)
    }

    fn observe(&self, config: &Config) -> Result<Observation, Failure> {
        once::observe(config)
    }
}
