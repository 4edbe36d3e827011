//! Gives freed memory back to the system after a load.
//!
//! The loader parses all of the kernel's types into many small pieces. glibc keeps their pages when they
//! are freed (18 MB resident afterwards instead of 5); musl returns them by itself.
#![cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "malloc_trim is a plain C function"))]

/// Returns free pages of this process's heap.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
