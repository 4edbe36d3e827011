//! Gives freed memory back to the system after something large was parsed.
//!
//! The loader of the eBPF programs parses all of the kernel's types into many small pieces, the reader of netfilter's rules all
//! that a connection meets. glibc keeps their pages when they are freed (18 MB resident afterwards instead of 1); musl returns
//! them by itself.
#![cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "mallopt and malloc_trim are plain C functions"))]

/// Free memory at the end of a heap that is kept, bytes. glibc's own default; but unless it is set, glibc raises it to twice
/// the largest block ever freed (mallopt(3), `M_MMAP_THRESHOLD`), and the kernel's types are read as one block of megabytes.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 128 << 10;

/// To be called before a load: no block of it changes what is kept after it.
pub(crate) fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and takes the allocator's own locks.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Returns free pages of this process's heap.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
