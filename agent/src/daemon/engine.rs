//! The daemon's part of the command line.

use crate::cli::{Engine, Failure, Observation};
use crate::config::Config;
use crate::logging;

use super::{lifecycle, once};

/// The real thing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Daemon;

impl Engine for Daemon {
    fn run(&self, config: &Config) -> Result<(), Failure> {
        let outcome = lifecycle::run(config);
        logging::finish();
        outcome
    }

    fn observe(&self, config: &Config) -> Result<Observation, Failure> {
        once::observe(config)
    }
}
