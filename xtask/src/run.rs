//! `cargo xtask run`: the agent in a gateway node made of namespaces, or on this host.
//!
//! The node in a box is the binary `gwready-box` of the tests' package; this only builds and starts.

use crate::build::{self, Profile};
use crate::command::Step;
use crate::setup;
use anyhow::{Result, ensure};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Watch this host instead of a node made of namespaces
    #[arg(long)]
    host: bool,
    /// Build optimised, as it is shipped
    #[arg(long)]
    release: bool,
    /// Arguments for the agent
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Sets up, builds, and becomes the started program; returns only if something fails.
///
/// # Errors
/// Not root (unless `--host`), or setup, build or start fail.
pub(crate) fn run(options: &Options) -> Result<()> {
    let profile = Profile::from_flag(options.release);
    // `cargo xtask run -- --host` is meant like `cargo xtask run --host`: the agent has no such option.
    let (host, arguments): (Vec<_>, Vec<_>) = options.arguments.iter().partition(|argument| *argument == "--host");
    if options.host || !host.is_empty() {
        let agent = build::all(profile)?;
        return Step::new(agent).arg("run").args(&arguments).become_it();
    }
    ensure!(rustix::process::geteuid().is_root(), "root is needed to make the namespaces of the node: try with sudo -E");
    setup::install(setup::Group::Run)?;
    let object = build::ebpf()?;
    let agent = build::binary("gwready", profile, &object)?;
    let node = build::binary("gwready-box", profile, &object)?;
    Step::new(node).args(&arguments).env("XTASK_BIN", agent).env("XTASK_ENVOY", setup::envoy()?).become_it()
}
