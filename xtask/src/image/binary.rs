//! A static binary of the agent, the same from the same source wherever it is built.

use super::Architecture;
use crate::build::OBJECT_VARIABLE;
use crate::command::Step;
use crate::place;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Builds with `build_folder` as target directory and puts the binary at `to`.
pub(super) fn build(architecture: Architecture, object: &Path, committed: u64, build_folder: &Path, to: &Path) -> Result<()> {
    let target = architecture.target();
    if !place::sysroot()?.join("lib/rustlib").join(&target).join("lib").is_dir() {
        Step::new("rustup")
            .args(["target", "add", &target])
            .current_dir(&place::workspace())
            .about(format!("installing the standard library for {target}"))
            .run()?;
    }
    let variable = |what: &str| format!("CARGO_TARGET_{}_{what}", target.to_ascii_uppercase().replace('-', "_"));
    Step::cargo()
        .args(["build", "--release", "--locked", "--package", "gwready", "--bin", "gwready", "--target", &target])
        .env("CARGO_TARGET_DIR", build_folder)
        .env(OBJECT_VARIABLE, object)
        .env("SOURCE_DATE_EPOCH", committed.to_string())
        // The toolchain's own linker and start files: no C compiler for any target.
        .env(&variable("LINKER"), "rust-lld")
        .env(&variable("RUSTFLAGS"), flags())
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .about(format!("building the static binary for {}", architecture.name()))
        .run()?;
    let built = build_folder.join(&target).join("release/gwready");
    std::fs::copy(&built, to).with_context(|| format!("the build left no {}", built.display()))?;
    Ok(())
}

/// Paths of this machine would be in panic messages, and make every machine's binary another one.
fn flags() -> String {
    let mut flags = "-C target-feature=+crt-static -C link-self-contained=yes".to_owned();
    for (from, to) in [(Some(place::workspace()), "/gwready"), (cargo_home(), "/cargo")] {
        if let Some(from) = from {
            flags.push_str(&format!(" --remap-path-prefix={}={to}", from.display()));
        }
    }
    flags
}

fn cargo_home() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CARGO_HOME").or_else(|| set("HOME").map(|home| home.join(".cargo")))
}
