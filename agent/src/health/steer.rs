//! Steers new connections of a SO_REUSEPORT group to one member, by a classic BPF program of one instruction.
//!
//! Any member may attach; the last one counts. An index past the end makes the kernel fall back to its hash over all
//! members (`run_bpf_filter` in net/core/sock_reuseport.c), so a wrong index spreads connections but loses none. A new
//! listener takes the last index; one that closes is replaced by the last (`__reuseport_detach_sock`).
#![expect(unsafe_code, reason = "SO_ATTACH_REUSEPORT_CBPF has no safe wrapper in rustix")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes the group of the listening socket `listener` give every new connection to the member with this index.
pub(super) fn steer_to(listener: impl AsFd, index: u32) -> io::Result<()> {
    let mut program = [libc::sock_filter { code: RETURN_CONSTANT, jt: 0, jf: 0, k: index }];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let length = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).unwrap_or(0);
    // SAFETY: the descriptor is borrowed and so open; `filter` points to one valid instruction, both live through the
    // call, and the kernel copies the program (net/core/filter.c, `__get_filter`).
    let result = unsafe {
        libc::setsockopt(listener.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, (&raw const filter).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `BPF_RET | BPF_K`.
const RETURN_CONSTANT: u16 = 0x06;
