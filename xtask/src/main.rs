//! `cargo xtask`: set up, build, run, test and check gwready.
//!
//! Only reads the command line and hands over; each command lives in a module of its own.

mod build;
mod ci;
mod command;
mod docs;
mod failures;
mod figures;
mod image;
mod place;
mod run;
mod setup;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, run, test and check gwready")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing: build tools and Envoy, with `test` also the Debian packages
    Setup {
        #[arg(value_enum, default_value_t = setup::Group::Test)]
        group: setup::Group,
    },
    /// Build the eBPF object and the agent that embeds it
    Build {
        /// Optimised, as it is shipped
        #[arg(long)]
        release: bool,
    },
    /// Build, then run the agent in a gateway node made of namespaces; Ctrl-C leaves nothing behind
    Run(run::Options),
    /// Set up, build, then run every test (root)
    Test(test::Options),
    /// Everything a change must pass: format, lints, docs, figures, tests
    Ci,
    /// Write the generated pages of docs/ anew
    Docs,
    /// The static binaries and the image of each architecture, with their bills of materials
    Image(image::Options),
    /// The figures of the source tree that are held by a check
    Figures,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Setup { group } => setup::install(group),
        Task::Build { release } => build::all(build::Profile::from_flag(release)).map(drop),
        Task::Run(options) => run::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Ci => ci::run(),
        Task::Docs => docs::run(),
        Task::Image(options) => image::run(&options),
        Task::Figures => figures::check(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
