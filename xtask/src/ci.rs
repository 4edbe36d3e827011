//! `cargo xtask ci`: everything that a change must pass, cheapest first, ending with all tests.
//!
//! Stops at the first step that fails, except for figures and tests, which report all at once.

use crate::build::{self, OBJECT_VARIABLE};
use crate::command::Step;
use crate::{figures, place, setup, test};
use anyhow::Result;

/// Runs every check.
///
/// # Errors
/// A step failed; the message names it.
pub(crate) fn run() -> Result<()> {
    Step::cargo().args(["fmt", "--all", "--check"]).about("format").run()?;
    figures::check()?;
    setup::install(setup::Group::Test)?;
    // cargo-deny looks at every target's dependencies, and offline it can only see what was fetched.
    Step::cargo().args(["fetch", "--locked"]).about("fetching every target's dependencies").run()?;
    // No advisories: their database is a git repository, out of reach of an offline run (SECURITY.md, Supply chain).
    Step::new(setup::cargo_deny()?)
        .args(["--offline", "--locked", "check", "licenses", "bans", "sources"])
        .current_dir(&place::workspace())
        .about("licences, sources and banned crates (deny.toml)")
        .run()?;
    // All host builds embed the same object, so that no step rebuilds what another built.
    let object = build::ebpf()?;
    build::ebpf_cargo("clippy")?.args(["--", "-D", "warnings"]).about("lints of the eBPF programs").run()?;
    Step::cargo()
        .args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
        .env(OBJECT_VARIABLE, &object)
        .about("lints")
        .run()?;
    Step::cargo()
        .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
        .env(OBJECT_VARIABLE, &object)
        .env("RUSTDOCFLAGS", "-D warnings")
        .about("documentation")
        .run()?;
    test::run(&test::Options::default())
}
