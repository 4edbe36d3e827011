//! Records in the ring buffer, in the byte order of the machine. Each begins with its kind.
//!
//! Times are CLOCK_MONOTONIC in nanoseconds (`bpf_ktime_get_ns`). Process ids are those of the initial
//! pid namespace. Names are comm: 15 bytes at most, zero-padded, settable by anyone.

use core::mem::{offset_of, size_of};

/// Kind of [`Listener`].
pub const LISTENER: u32 = 1;
/// Kind of [`Signal`].
pub const SIGNAL: u32 = 2;
/// Kind of [`Exit`].
pub const EXIT: u32 = 3;

/// A TCP socket on a watched port began or ceased to listen.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Listener {
    /// [`LISTENER`].
    pub kind: u32,
    /// Inode number of the socket's network namespace; 0 = can't be told.
    pub netns: u32,
    /// When.
    pub time: u64,
    /// Version 2 cgroup of the acting process; 1 on a host without cgroup v2 and no evidence then.
    pub cgroup: u64,
    /// The process that acted: called listen or close, or was ended.
    pub tgid: u32,
    /// Local port, host order.
    pub port: u16,
    /// `AF_INET` (2) or `AF_INET6` (10).
    pub family: u8,
    /// 1 = listens from now on, 0 = no longer.
    pub listening: u8,
    /// Local address; IPv4 in the first four bytes, the rest zero.
    pub address: [u8; 16],
    /// comm of the acting thread.
    pub comm: [u8; 16],
}

/// A signal was generated for a watched process, delivered or not.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Signal {
    /// [`SIGNAL`].
    pub kind: u32,
    /// Number of the signal.
    pub signal: i32,
    /// When.
    pub time: u64,
    /// The watched process.
    pub target: u32,
    /// The process that sent it; for a signal of the kernel, whoever ran at that moment.
    pub sender: u32,
    /// `enum` of `trace/events/signal.h`: 0 delivered, 1 ignored, 2 already pending, 3 and 4 lost.
    pub result: i32,
    /// Always 0: fills the record to a multiple of eight.
    pub reserved: u32,
    /// comm of the sending thread.
    pub comm: [u8; 16],
}

/// A watched process ended: its leading thread exits.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Exit {
    /// [`EXIT`].
    pub kind: u32,
    /// The process.
    pub tgid: u32,
    /// When.
    pub time: u64,
    /// comm of its leading thread.
    pub comm: [u8; 16],
}

const _: () = {
    assert!(size_of::<Listener>() == 64 && offset_of!(Listener, comm) == 48);
    assert!(size_of::<Signal>() == 48 && offset_of!(Signal, comm) == 32);
    assert!(size_of::<Exit>() == 32 && offset_of!(Exit, comm) == 16);
    assert!(offset_of!(Listener, kind) == 0 && offset_of!(Signal, kind) == 0 && offset_of!(Exit, kind) == 0);
};
