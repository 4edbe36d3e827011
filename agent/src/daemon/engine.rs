//! The daemon's part of the command line.

use gwready_core::judge::judge;
use gwready_core::memory::Memory;
use gwready_core::replay::SnapshotFile;
use gwready_core::verdict::Verdict;

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

    fn judge(&self, file: &SnapshotFile) -> Result<(Verdict, Memory), Failure> {
        let judgement = judge(&file.policy, &file.snapshot, &file.memory, file.now);
        Ok((judgement.verdict, judgement.memory))
    }
}
