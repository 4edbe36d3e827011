//! The program: hands the command line over and ends with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    gwready::cli::main(&gwready::daemon::Daemon)
}
