//! The system calls behind [`crate::space`]: leaving a namespace, joining one, and doing so in a
//! child before it executes a program.
//!
//! The only unsafe code of this crate. It must not know what a node is.
#![expect(unsafe_code, reason = "unshare(2) and CommandExt::pre_exec are unsafe functions")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Open descriptors of a thread's network and mount namespace.
#[derive(Debug)]
pub(crate) struct Handles {
    pub(crate) net: OwnedFd,
    pub(crate) mnt: OwnedFd,
}

impl Handles {
    /// Those of the calling thread.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        Ok(Self { net: File::open("/proc/thread-self/ns/net")?.into(), mnt: File::open("/proc/thread-self/ns/mnt")?.into() })
    }

    /// Moves the calling thread in. Only for threads that end there, or for a forked child.
    pub(crate) fn join(&self) -> io::Result<()> {
        // setns(CLONE_NEWNS) is refused while the working directory is shared with other threads.
        leave(UnshareFlags::FS)?;
        move_into_link_name_space(self.net.as_fd(), Some(LinkNameSpaceType::Network))?;
        // rustix has no name for the mount kind; without a kind, setns takes the descriptor's own.
        move_into_link_name_space(self.mnt.as_fd(), None)?;
        Ok(())
    }
}

/// Moves the calling thread to new namespaces of the given kinds.
pub(crate) fn leave(flags: UnshareFlags) -> io::Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: unshare_unsafe is unsafe for CLONE_FILES alone (descriptors of one thread would mean
    // something else in another); no caller in this crate passes it.
    unsafe { unshare_unsafe(flags) }?;
    Ok(())
}

/// Makes the child enter the namespaces before it executes its program, whoever spawns it.
pub(crate) fn join_before_exec(command: &mut Command, handles: Arc<Handles>) {
    // SAFETY: the closure makes three system calls on descriptors that it keeps alive by its Arc;
    // it allocates nothing and takes no lock, as is required between fork and exec.
    unsafe { command.pre_exec(move || handles.join()) };
}

/// Makes the child die when the *thread* that spawns it ends, so that a killed test leaves nothing.
pub(crate) fn die_with_spawning_thread(command: &mut Command) {
    // SAFETY: one prctl(2) without memory arguments; allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        })
    };
}
