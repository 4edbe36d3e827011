//! Events from the kernel (eBPF): they bring the answer sooner, never change it.
