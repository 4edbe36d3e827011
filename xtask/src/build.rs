//! The two builds: the eBPF object for the BPF target, then the host binaries that embed it.
//!
//! Other commands take the paths from here; nobody else composes a path into a target directory.

use crate::command::Step;
use crate::{place, setup};
use anyhow::{Result, ensure};
use std::path::PathBuf;

/// The target and the bytes' order of the machine that runs the agent.
const TARGET: &str = "bpfel-unknown-none";
/// Read by `agent/build.rs`: absolute path of the object to embed.
pub(crate) const OBJECT_VARIABLE: &str = "XTASK_EBPF_OBJECT";

/// Cargo profile of the host binaries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quick to build.
    Dev,
    /// As shipped.
    Release,
}

impl Profile {
    /// `--release` given or not.
    pub(crate) fn from_flag(release: bool) -> Self {
        if release { Self::Release } else { Self::Dev }
    }

    /// Arguments for cargo.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// cargo with the settings of the BPF target. The linker must be installed.
pub(crate) fn ebpf_cargo(task: &str) -> Result<Step> {
    Ok(Step::cargo()
        .arg(task)
        .args(["--release", "-Z", "build-std=core", "--target", TARGET])
        .args(["--package", "gwready-ebpf", "--features", "programs", "--bin", "gwready-ebpf"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", place::ebpf_target())
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", setup::bpf_linker()?)
        // cpu v3 is what kernels since 5.1 take; a newer LLVM may default to more. No BTF in the object:
        // nothing in it needs relocation, and a kernel without BTF must take it too.
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_RUSTFLAGS", "-C debuginfo=0 -C target-cpu=v3")
        // bpf-linker does the link-time optimisation itself.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
        .env("CARGO_PROFILE_RELEASE_STRIP", "none")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        // A RUSTFLAGS of the caller would replace the target's own flags above.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS"))
}

/// Builds the eBPF programs and returns the object's path.
///
/// # Errors
/// The toolchain can't be installed or the build fails.
pub(crate) fn ebpf() -> Result<PathBuf> {
    setup::install(setup::Group::Build)?;
    ebpf_cargo("build")?.about("building the eBPF programs").run()?;
    let object = place::ebpf_target().join(TARGET).join("release/gwready-ebpf");
    ensure!(object.is_file(), "the eBPF build left no object at {}", object.display());
    Ok(object)
}

/// Builds the eBPF programs, then the agent that embeds them; returns the agent's path.
///
/// # Errors
/// As [`ebpf`], or the agent does not build.
pub(crate) fn all(profile: Profile) -> Result<PathBuf> {
    let object = ebpf()?;
    binary("gwready", profile, &object)
}

/// Builds every binary of the workspace around `object` and returns the path of one. Always all of them: the node in a box
/// starts others, and with a part of the workspace cargo would choose other features and build the dependencies anew.
///
/// # Errors
/// It does not build.
pub(crate) fn binary(name: &str, profile: Profile, object: &PathBuf) -> Result<PathBuf> {
    Step::cargo()
        .args(["build", "--workspace", "--bins"])
        .args(profile.arguments())
        .env(OBJECT_VARIABLE, object)
        .about(format!("building {name}"))
        .run()?;
    let binary = place::target().join(profile.directory()).join(name);
    ensure!(binary.is_file(), "the build left no {}", binary.display());
    Ok(binary)
}
