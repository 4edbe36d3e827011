//! The eBPF programs of gwready: they observe and report, and never touch traffic.
//!
//! One program per file in `programs/`. On the host this is an empty program: the real one is built for
//! the BPF target only (`cargo xtask build`).
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod kernel;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod programs;

#[cfg(not(target_arch = "bpf"))]
fn main() {}

/// The helpers that read kernel memory are for GPL-compatible programs only; of the two licences of this
/// package this is the one that the kernel's list knows (`include/linux/license.h`).
#[cfg(target_arch = "bpf")]
#[expect(unsafe_code, reason = "a fixed section name")]
// SAFETY: the section holds nothing but the licence string, as the kernel expects.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";

/// Never reached: the verifier refuses a program that could get here, and panics are compiled out.
#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
