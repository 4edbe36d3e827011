//! What the eBPF programs and the agent share: records, map and global names, limits.
//!
//! Plain data with a fixed layout, asserted here and therefore on both sides. Must not contain an enum
//! or an `Option` in a record: the kernel side writes bytes, and not every byte is a valid enum.
#![no_std]

pub mod records;

/// Size of the ring buffer in bytes: a power of two and a multiple of the page size.
pub const RING_BYTES: u32 = 256 * 1024;
/// Words of the port bitmap: one bit for each TCP port.
pub const PORT_WORDS: u32 = 65536 / 64;
/// Ports whose established connections can be counted at a time.
pub const COUNTED_PORTS: u32 = 64;
/// Processes that can be watched at a time.
pub const WATCHED_PIDS: u32 = 1024;

/// Word of the port bitmap that holds `port`, and the port's bit in it.
#[must_use]
pub const fn port_bit(port: u16) -> (u32, u64) {
    let port = port as u32;
    (port / 64, 1 << (port % 64))
}

/// Signals that change what a process can do for a client; others of watched processes are not reported.
/// Bit n stands for signal n (`asm-generic/signal.h`): HUP, INT, QUIT, KILL, TERM, CONT, STOP, TSTP.
pub const REPORTED_SIGNALS: u64 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 9 | 1 << 15 | 1 << 18 | 1 << 19 | 1 << 20;

/// Names of maps and globals in the object.
pub mod names {
    /// Ring buffer of [`crate::records`].
    pub const RING: &str = "EVENTS";
    /// Per-CPU u64, one entry: records that found no room in the ring.
    pub const LOST: &str = "LOST";
    /// Array of u64: [`crate::PORT_WORDS`] words of the port bitmap.
    pub const PORTS: &str = "PORTS";
    /// Per-CPU hash, port → connections established; user space puts the ports in.
    pub const ESTABLISHED: &str = "ESTABLISHED";
    /// Hash, tgid → anything: the watched processes.
    pub const PIDS: &str = "PIDS";
    /// Globals that user space sets, u32 each: see `kernel.rs` of the programs for what each means.
    pub const GLOBALS: [&str; 9] =
        ["SKC_FAMILY", "SKC_NUM", "SKC_RCV_SADDR", "SKC_V6_RCV_SADDR", "SK_PROTOCOL", "SKC_NET", "NET_INUM", "TASK_TGID", "ONLY_NETNS"];
    /// Program on `sock:inet_sock_set_state`.
    pub const SOCKET_STATE: &str = "socket_state";
    /// Program on `signal:signal_generate`.
    pub const SIGNAL: &str = "signal_generate";
    /// Program on `sched:sched_process_exit`.
    pub const EXIT: &str = "process_exit";
}
