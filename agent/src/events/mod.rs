//! Events from the kernel (eBPF): they bring the answer sooner, never change it.
//!
//! [`load::load`] gives an [`load::Events`]: a ring to poll by its descriptor and to drain, and a watch
//! that says which ports and processes matter. Usable from a plain thread; nothing here waits or spawns.
//! Must not judge: a [`KernelEvent`] triggers a read and is evidence for a message, nothing more.

mod attach;
mod btf;
mod decode;
pub mod load;
mod log;
mod offsets;
mod prove;
pub mod ring;
pub mod watch;

use gwready_core::time::Mono;
use std::net::IpAddr;

/// One record of the eBPF programs (`agent-ebpf/src/records.rs`), decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelEvent {
    /// A TCP socket on a watched port began or ceased to listen. Announced before the socket is hashed
    /// and after it is unhashed: a read right now may still show the old state for a moment.
    Listener {
        /// Kernel time of the transition.
        at: Mono,
        /// Local port.
        port: u16,
        /// Local address; the wildcard of its family where it is bound to none.
        address: IpAddr,
        /// Listens from now on (true) or no longer (false).
        listening: bool,
        /// Inode number of the socket's network namespace, where it can be told.
        netns: Option<u32>,
        /// Who acted.
        by: Actor,
    },
    /// A signal was generated for a watched process.
    Signal {
        /// Kernel time.
        at: Mono,
        /// Number of the signal, e.g. 15.
        signal: i32,
        /// The watched process.
        target: u32,
        /// What became of it.
        result: SignalResult,
        /// Who sent it; for a signal of the kernel itself, whoever ran at that moment.
        by: Actor,
    },
    /// A watched process ends.
    Exit {
        /// Kernel time.
        at: Mono,
        /// The process.
        pid: u32,
        /// Its name, as the kernel cuts it.
        comm: String,
    },
}

/// The process in whose context something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Process id in the initial pid namespace.
    pub pid: u32,
    /// Thread name: 15 bytes at most, settable by anyone.
    pub comm: String,
    /// Version 2 cgroup id; `None` where it is no evidence (hosts without cgroup v2) or not recorded.
    pub cgroup: Option<u64>,
}

/// `TRACE_SIGNAL_*` of `include/trace/events/signal.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalResult {
    /// On its way to a handler or the default action.
    Delivered,
    /// Nobody will see it: ignored, or sent to a pid namespace's init that has no handler for it.
    Ignored,
    /// The same signal is waiting already.
    AlreadyPending,
    /// Lost for want of memory.
    Lost,
}

impl KernelEvent {
    /// Kernel time of the event.
    #[must_use]
    pub const fn at(&self) -> Mono {
        match self {
            Self::Listener { at, .. } | Self::Signal { at, .. } | Self::Exit { at, .. } => *at,
        }
    }
}
