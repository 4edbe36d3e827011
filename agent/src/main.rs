//! The program: hands the command line over and ends with its exit code.

use std::process::ExitCode;

use gwready::cli::{self, Engine, Exit, Failure, Observation};
use gwready::config::Config;

fn main() -> ExitCode {
    cli::main(&NotBuilt)
}

/// Stands in until the run loop is there.
struct NotBuilt;

impl NotBuilt {
    fn failure() -> Failure {
        Failure { exit: Exit::CannotTell, sentence: "this build has no run loop yet".to_owned() }
    }
}

impl Engine for NotBuilt {
    fn run(&self, _: &Config) -> Result<(), Failure> {
        Err(Self::failure())
    }

    fn observe(&self, _: &Config) -> Result<Observation, Failure> {
        Err(Self::failure())
    }
}
