//! The eBPF side of the toolchain: rust-src, and bpf-linker built against the toolchain's own LLVM.
//!
//! bpf-linker reads rustc's bitcode, so its LLVM must not be older than rustc's. The pinned toolchain
//! ships that very LLVM as a shared library with the BPF target compiled in; linking to it needs no
//! other LLVM on the machine (docs/decisions/ebpf-toolchain.md).

use crate::command::Step;
use crate::place;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

const VERSION: &str = "0.13.0";
/// Feature of bpf-linker for the LLVM of the pinned toolchain (1.95 has LLVM 22).
const LLVM_FEATURE: &str = "llvm-22";

pub(super) fn path() -> Result<PathBuf> {
    Ok(directory()?.join("bin/bpf-linker"))
}

/// The toolchain is part of the name: the binary finds libLLVM by the toolchain's path.
fn directory() -> Result<PathBuf> {
    place::tool("bpf-linker", &format!("{VERSION}-rust-{}", place::rust_version()?))
}

pub(super) fn install() -> Result<()> {
    let sysroot = place::sysroot()?;
    if !sysroot.join("lib/rustlib/src/rust/library/core").is_dir() {
        Step::new("rustup")
            .args(["component", "add", "rust-src"])
            .current_dir(&place::workspace())
            .about("installing rust-src, the source of core for the BPF target")
            .run()?;
    }
    if runs(&path()?) {
        return Ok(());
    }
    let directory = directory()?;
    let prefix = directory.join("llvm");
    let library = find_llvm(&sysroot)?;
    std::fs::create_dir_all(prefix.join("lib"))?;
    let link = prefix.join("lib/libLLVM.so");
    if link.symlink_metadata().is_ok() {
        std::fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(&library, &link).context("cannot link to the toolchain's libLLVM")?;
    Step::cargo()
        .args(["install", "bpf-linker", "--version", VERSION, "--locked", "--force"])
        .args(["--no-default-features", "--features", LLVM_FEATURE, "--root"])
        .arg(&directory)
        .env("LLVM_PREFIX", &prefix)
        .env("RUSTFLAGS", format!("-C link-arg=-Wl,-rpath,{}", sysroot.join("lib").display()))
        // A build directory of its own: outside the checkout, and kept if the build is interrupted.
        .env("CARGO_TARGET_DIR", directory.join("build"))
        .env_remove("RUSTC_BOOTSTRAP")
        .about(format!("building bpf-linker {VERSION} against the toolchain's LLVM (about 90 s, once)"))
        .run()?;
    std::fs::remove_dir_all(directory.join("build"))?;
    Ok(())
}

/// Present and able to load its LLVM: a toolchain that moved shows here, not in the middle of a build.
fn runs(linker: &Path) -> bool {
    linker.is_file() && Step::new(linker).arg("--version").read().is_ok()
}

/// `<sysroot>/lib/libLLVM.so.22.1-rust-…`
fn find_llvm(sysroot: &Path) -> Result<PathBuf> {
    let lib = sysroot.join("lib");
    for entry in std::fs::read_dir(&lib).with_context(|| format!("cannot list {}", lib.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("libLLVM.so.") {
            return Ok(entry.path());
        }
    }
    anyhow::bail!("the toolchain has no libLLVM.so in {}: bpf-linker can't be built against it", lib.display())
}
