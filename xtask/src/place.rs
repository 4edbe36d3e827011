//! Where things are: the checkout, its target directories and the tool cache outside it.
//!
//! Only computes paths; the one thing it asks of the machine is the toolchain's sysroot.

use crate::command::Step;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Root of the workspace: the parent of this package.
pub(crate) fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// Target directory of the host builds. `CARGO_TARGET_DIR` is honoured as cargo honours it.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(set) => workspace().join(set),
        None => workspace().join("target"),
    }
}

/// Target directory of the eBPF build: its own, because RUSTC_BOOTSTRAP is part of cargo's
/// fingerprint and would rebuild every host dependency at each change of sides.
pub(crate) fn ebpf_target() -> PathBuf {
    target().join("ebpf")
}

/// Directory that holds downloaded and built tools: `$XDG_CACHE_HOME/gwready` or `~/.cache/gwready`.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` is set.
pub(crate) fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = match set("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(set("HOME").context("neither XDG_CACHE_HOME nor HOME is set: no place for tools")?).join(".cache"),
    };
    Ok(base.join("gwready"))
}

/// Directory of one tool in the cache, e.g. `envoy-1.38.3`.
///
/// # Errors
/// As [`cache`].
pub(crate) fn tool(name: &str, version: &str) -> Result<PathBuf> {
    Ok(cache()?.join(format!("{name}-{version}")))
}

/// Sysroot of the pinned toolchain.
///
/// # Errors
/// rustc can't be run or prints no path.
pub(crate) fn sysroot() -> Result<PathBuf> {
    let printed = Step::new("rustc").args(["--print", "sysroot"]).current_dir(&workspace()).read()?;
    Ok(PathBuf::from(printed.trim()))
}

/// Version of the pinned toolchain, e.g. `1.95.0`.
///
/// # Errors
/// rustc can't be run, or its version line has another form.
pub(crate) fn rust_version() -> Result<String> {
    let printed = Step::new("rustc").arg("--version").current_dir(&workspace()).read()?;
    let version = printed.split_whitespace().nth(1).context("rustc --version printed no version")?;
    Ok(version.to_owned())
}

/// First file called `name` in the directories of PATH and those where Debian keeps root's programs.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}
