//! The command line: arguments, one module per command, exit codes. The daemon's work is done by an [`Engine`].

mod args;
mod check;
mod check_config;
mod daemon_calls;
mod documents;
mod engine;
mod exit;
mod explain;
mod output;
mod wait;

pub use args::{Arguments, Command};
pub use engine::{Engine, Failure, Observation};
pub use exit::Exit;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::config::{self, Config, Faults, Sources};

/// The whole program: parses the process's arguments, runs the command, gives the exit code.
pub fn main(engine: &dyn Engine) -> ExitCode {
    run(std::env::args_os(), engine).into()
}

/// The same for given arguments (the first is the program's name).
pub fn run(arguments: impl IntoIterator<Item = OsString>, engine: &dyn Engine) -> Exit {
    match Arguments::try_parse_from(arguments) {
        Ok(arguments) => dispatch(arguments, engine),
        Err(error) => {
            let asked_for = !error.use_stderr();
            let _ = error.print();
            if asked_for { Exit::Ok } else { Exit::Usage }
        }
    }
}

fn dispatch(arguments: Arguments, engine: &dyn Engine) -> Exit {
    let sources = Sources::of_this_process(arguments.config, arguments.set);
    let with_config = |work: &dyn Fn(&Config) -> Exit| match config::load(&sources) {
        Ok(config) => work(&config),
        Err(faults) => report_faults(&faults),
    };
    match &arguments.command {
        Command::Run => with_config(&|config| match engine.run(config) {
            Ok(()) => Exit::Ok,
            Err(failure) => failure.report(),
        }),
        Command::Check(options) => with_config(&|config| check::run(options, config, engine)),
        Command::Wait(options) => wait::run(options, &|| config::load(&sources)),
        Command::Status(options) => with_config(&|config| daemon_calls::status(options, config)),
        Command::Drain(options) => with_config(&|config| daemon_calls::drain(options, config)),
        Command::Undrain => with_config(&daemon_calls::undrain),
        Command::Snapshot(options) => with_config(&|config| daemon_calls::snapshot(options, config, engine)),
        Command::Explain(options) => explain::run(options),
        Command::CheckConfig(options) => check_config::run(options, &sources),
        Command::Live(options) => daemon_calls::live(options),
        Command::Ready(options) => daemon_calls::ready(options),
        Command::Completions { shell } => documents::completions(*shell),
        Command::Man => documents::man(),
        Command::Docs { page } => documents::page(*page),
    }
}

fn report_faults(faults: &Faults) -> Exit {
    output::complain(&format!("{faults}\n"));
    Exit::Config
}

#[cfg(test)]
mod tests;
