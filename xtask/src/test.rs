//! `cargo xtask test`: every test, the same way everywhere.
//!
//! First the tests inside the crates, then those in `tests/` folders: most use root, namespaces and
//! real parts. All run to the end; the failing ones are listed at the close.

use crate::build::{self, OBJECT_VARIABLE, Profile};
use crate::command::Step;
use crate::failures::Failures;
use crate::{place, setup};
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Test the optimised agent
    #[arg(long)]
    release: bool,
    /// Only tests whose name contains one of these; `faults` alone plays every fault and writes docs/faults.md anew
    filters: Vec<String>,
}

/// Sets up, builds and runs all tests.
///
/// # Errors
/// Not root, setup or build fail, or a test failed: its name is in the message.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "root is needed: the tests make namespaces, mounts and sockets");
    setup::install(setup::Group::Test)?;
    let profile = Profile::from_flag(options.release);
    let object = build::ebpf()?;
    let agent = build::binary("gwready", profile, &object)?;
    if options.filters == ["faults"] {
        return faults(profile, &object, &agent);
    }
    let mut failures = Failures::default();
    // Without `--tests` cargo would run the doc tests too, and the tests of the image, which need an image.
    let passed = tests(&["--tests", "--examples"], profile, &object, &options.filters)
        .env("XTASK_BIN", agent)
        .env("XTASK_ENVOY", setup::envoy()?)
        .env("XTASK_CADDY", setup::caddy()?)
        .env("XTASK_KUBERNETES_TOOLS", setup::kubernetes()?)
        .about("all tests: inside the crates, then with namespaces and real parts")
        .watch(|line| failures.note(line))?;
    if passed {
        return Ok(());
    }
    bail!("{}", failures.summary())
}

/// Plays every fault that one machine can show, with the answers of the usual checks beside the agent's.
fn faults(profile: Profile, object: &PathBuf, agent: &Path) -> Result<()> {
    let player = build::binary("gwready-faults", profile, object)?;
    let page = place::workspace().join("docs/faults.md");
    Step::new(player).arg(page).env("XTASK_BIN", agent).env("XTASK_ENVOY", setup::envoy()?).about("playing every fault").run()
}

/// Always the whole workspace: with a part of it cargo would choose other features for the dependencies and build them anew.
fn tests(targets: &[&str], profile: Profile, object: &Path, filters: &[String]) -> Step {
    Step::cargo()
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(targets)
        .args(profile.arguments())
        .arg("--")
        .args(filters)
        .env(OBJECT_VARIABLE, object)
}
