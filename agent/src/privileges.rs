//! Capabilities of threads. Only the observation threads keep theirs; every thread that parses bytes from a network drops
//! all of them before it does so.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// Drops every capability of the calling thread, for ever: permitted, effective and inheritable.
///
/// # Errors
/// If the kernel refuses, which it never does for dropping.
pub fn drop_all() -> io::Result<()> {
    let none = CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
    set_capabilities(None, none)?;
    set_no_new_privs(true)?;
    Ok(())
}

/// The effective capabilities of the calling thread.
///
/// # Errors
/// If the kernel refuses to tell.
pub fn effective() -> io::Result<CapabilitySet> {
    Ok(capabilities(None)?.effective)
}
