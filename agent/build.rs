//! Puts the eBPF object where the agent can embed it.
//!
//! `cargo xtask build` builds the object and names it in `XTASK_EBPF_OBJECT`. Without the variable
//! an empty object is embedded, so that a plain `cargo check` needs no BPF toolchain; the agent then
//! says at run time that it was built without programs (`events::load`).

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const VARIABLE: &str = "XTASK_EBPF_OBJECT";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    let embedded = Path::new(&out).join("gwready.bpf.o");
    let bytes = match env::var_os(VARIABLE).map(PathBuf::from) {
        None => Vec::new(),
        Some(object) => {
            println!("cargo::rerun-if-changed={}", object.display());
            if !object.is_absolute() {
                // A relative path would be taken from this package's folder, not the caller's.
                return Err(io::Error::other(format!("{VARIABLE} must be an absolute path")));
            }
            fs::read(&object).map_err(|error| io::Error::other(format!("{}: {error}", object.display())))?
        }
    };
    fs::write(embedded, bytes)
}
