//! Where the programs that tests start are found. Never downloads anything.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Version of the Envoy that Cilium's proxy is built on.
pub const ENVOY_VERSION: &str = "1.38.3";

/// Real Envoy: `XTASK_ENVOY`, else the cache that `cargo xtask setup` fills.
pub fn envoy() -> Result<PathBuf> {
    if let Some(path) = env::var_os("XTASK_ENVOY") {
        return existing(path.into(), "XTASK_ENVOY names no file");
    }
    let cache =
        env::var_os("XDG_CACHE_HOME").map_or_else(|| PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache"), PathBuf::from);
    existing(
        cache.join(format!("gwready/envoy-{ENVOY_VERSION}/cilium-envoy")),
        "Envoy is not there; run `cargo xtask setup` or set XTASK_ENVOY",
    )
}

/// The agent: `XTASK_BIN`, else `gwready` of the same build, else of a release or debug build.
pub fn gwready() -> Result<PathBuf> {
    if let Some(path) = env::var_os("XTASK_BIN") {
        return existing(path.into(), "XTASK_BIN names no file");
    }
    let target = build_dir()?;
    let above = target.parent().unwrap_or(&target);
    let found =
        [&target, &above.join("debug"), &above.join("release")].into_iter().map(|dir| dir.join("gwready")).find(|path| path.is_file());
    found.context("gwready is not built; run `cargo build -p gwready` or set XTASK_BIN")
}

/// A small program of this crate (`thief`, `crowd`, `cilium-envoy-starter`), from the same build.
pub fn own(name: &str) -> Result<PathBuf> {
    existing(build_dir()?.join(name), "not built; run `cargo build -p gwready-tests --bins`")
}

/// A program on the PATH or in one of the system folders.
pub fn installed(name: &str) -> Result<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    let found = path.split(':').chain(["/usr/sbin", "/sbin"]).map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is not installed; run `cargo xtask setup`"))
}

/// `target/debug` or `target/release`: test executables lie one folder deeper, in `deps`.
fn build_dir() -> Result<PathBuf> {
    let exe = env::current_exe()?;
    let dir = exe.parent().context("executable without a folder")?;
    Ok(if dir.ends_with("deps") { dir.parent().unwrap_or(dir).to_owned() } else { dir.to_owned() })
}

fn existing(path: PathBuf, otherwise: &str) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path);
    }
    bail!("{}: {otherwise}", path.display())
}

/// Copies a program that will be started by its new name. By another process: a thread that starts something meanwhile would inherit
/// our descriptor of the copy until its exec, and who starts the copy then is told that it is busy (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").args([from, to]).status()?;
    ensure!(status.success(), "cp {} {}: {status}", from.display(), to.display());
    Ok(())
}
