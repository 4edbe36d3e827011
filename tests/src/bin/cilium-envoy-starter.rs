//! Stands for Cilium's `cilium-envoy-starter`: first process of a pid namespace, no signal
//! handlers (so TERM is ignored), one child, ends when the child ends.
//! Shape: cilium/proxy `starter/main.cc`.
//!
//! `cilium-envoy-starter [--keep-cap-net-bind-service | --keep-all-caps] [--] ARGS…`; the child's
//! executable is `$CILIUM_ENVOY`, else `cilium-envoy` beside this one. `--keep-all-caps` is ours:
//! stock Envoy needs them to put Cilium's marks on its sockets.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs};

fn main() -> Result<ExitCode> {
    let mut kept = CapabilitySet::empty();
    let mut args = std::env::args_os().skip(1).peekable();
    while let Some(arg) = args.peek() {
        match arg.to_str() {
            Some("--keep-cap-net-bind-service") => kept = CapabilitySet::NET_BIND_SERVICE,
            Some("--keep-all-caps") => kept = CapabilitySet::all(),
            Some("--") => {
                args.next();
                break;
            }
            _ => break,
        }
        args.next();
    }
    let exe = std::env::var_os("CILIUM_ENVOY").map_or_else(beside_this, |path| Ok(path.into()))?;
    let mut command = Command::new(exe);
    command.args(args);
    // Capabilities belong to a thread: the child gets those of the thread that makes it, and the
    // starter keeps its own, as the real one does to serve its child. Envoy dies with that thread.
    let parent = std::thread::spawn(move || -> Result<i32> {
        if kept != CapabilitySet::all() {
            drop_capabilities(kept)?;
        }
        let status = command.spawn().context("starting cilium-envoy")?.wait()?;
        Ok(status.code().unwrap_or(1))
    });
    let code = parent.join().unwrap_or(Ok(1))?;
    Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn beside_this() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("cilium-envoy"))
}

fn drop_capabilities(kept: CapabilitySet) -> Result<()> {
    // The bounding set too: a program that root executes gets all of it.
    for number in 0..64_u32 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(one) && remove_capability_from_bounding_set(one).is_err() {
            break; // EINVAL: past the last one that this kernel knows.
        }
    }
    set_no_new_privs(true)?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context("dropping capabilities")
}
