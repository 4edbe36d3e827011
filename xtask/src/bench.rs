//! `cargo xtask bench` and `cargo xtask soak`: build as shipped, then measure.
//!
//! The measurements are the binary `gwready-bench` of the tests' package, which also says what each needs; this only
//! installs, builds and starts.

use crate::build::{self, Profile};
use crate::command::Step;
use crate::image;
use crate::setup;
use anyhow::{Result, ensure};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to measure, and its options: see `cargo xtask bench help`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    measurement: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct Soak {
    /// How long
    #[arg(long, default_value_t = 30)]
    minutes: u64,
}

/// Sets up, builds, and becomes the measuring program; returns only if something fails.
///
/// # Errors
/// Not root, or setup, build or start fail.
pub(crate) fn run(options: &Options) -> Result<()> {
    start(&options.measurement)
}

/// As [`run`], for the soak.
///
/// # Errors
/// As [`run`].
pub(crate) fn soak(options: &Soak) -> Result<()> {
    start(&["soak".to_owned(), "--minutes".to_owned(), options.minutes.to_string()])
}

fn start(arguments: &[String]) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "root is needed to make the namespaces of the node: try with sudo -E");
    setup::install(setup::Group::Bench)?;
    let object = build::ebpf()?;
    let agent = image::static_binary(&object)?;
    let bench = build::binary("gwready-bench", Profile::Release, &object)?;
    Step::new(bench).args(arguments).env("XTASK_BIN", agent).env("XTASK_ENVOY", setup::envoy()?).become_it()
}
