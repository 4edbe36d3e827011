//! Reading kernel memory: field offsets given by user space, and helpers that need no offsets.
//!
//! Rust has no CO-RE. User space takes the offsets from the running kernel's BTF, sets these globals
//! before load, and proves them on a socket and a process of its own. Offset 0 of a field that can't be
//! first in its struct means: not known.
#![expect(unsafe_code, reason = "kernel memory is read through a helper that checks the address")]

use aya_ebpf::Global;
use aya_ebpf::helpers::{
    bpf_get_current_cgroup_id, bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_ktime_get_ns, bpf_probe_read_kernel,
};

macro_rules! globals {
    ($($(#[$doc:meta])* $name:ident = $default:literal;)*) => {$(
        $(#[$doc])*
        // SAFETY: the name is unique in this object; user space sets the value by it before load.
        #[unsafe(no_mangle)]
        pub(crate) static $name: Global<u32> = Global::new($default);
    )*};
}

globals! {
    /// `sock.__sk_common.skc_family`, u16.
    SKC_FAMILY = 0;
    /// `sock.__sk_common.skc_num`, u16 in host order.
    SKC_NUM = 0;
    /// `sock.__sk_common.skc_rcv_saddr`, four bytes.
    SKC_RCV_SADDR = 0;
    /// `sock.__sk_common.skc_v6_rcv_saddr`, sixteen bytes; 0 where the kernel has no IPv6.
    SKC_V6_RCV_SADDR = 0;
    /// `sock.sk_protocol`, u16 (kernel 5.6 and newer).
    SK_PROTOCOL = 0;
    /// `sock.__sk_common.skc_net`, a pointer to `struct net`.
    SKC_NET = 0;
    /// `net.ns.inum`, u32.
    NET_INUM = 0;
    /// `task_struct.tgid`, i32.
    TASK_TGID = 0;
    /// Report only sockets of the network namespace with this inode number; 0 = of all.
    ONLY_NETNS = 0;
}

/// Reads a `T` at `base + offset`; `None` where that is no kernel memory.
#[inline(always)]
pub(crate) fn read<T>(base: *const u8, offset: u32) -> Option<T> {
    // SAFETY: the helper checks the whole range and fails instead of faulting; T is plain data at every caller.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize).cast::<T>()) }.ok()
}

/// Inode number of the namespace that `sock` belongs to; 0 = can't be told.
#[inline(always)]
pub(crate) fn netns_of(sock: *const u8) -> u32 {
    let (pointer, inum) = (SKC_NET.load(), NET_INUM.load());
    if pointer == 0 || inum == 0 {
        return 0;
    }
    let net: Option<*const u8> = read(sock, pointer);
    net.and_then(|net| read(net, inum)).unwrap_or(0)
}

/// CLOCK_MONOTONIC in nanoseconds.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: no arguments, always allowed.
    unsafe { bpf_ktime_get_ns() }
}

/// The acting process and its thread, in the initial pid namespace.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the helper packs two u32 into one u64")]
pub(crate) fn current() -> (u32, u32) {
    let both = bpf_get_current_pid_tgid();
    ((both >> 32) as u32, both as u32)
}

/// comm of the acting thread; zeros where it can't be told.
#[inline(always)]
pub(crate) fn current_comm() -> [u8; 16] {
    bpf_get_current_comm().unwrap_or([0; 16])
}

/// Version 2 cgroup of the acting process.
#[inline(always)]
pub(crate) fn current_cgroup() -> u64 {
    // SAFETY: no arguments, allowed in tracing programs.
    unsafe { bpf_get_current_cgroup_id() }
}
