//! `sched:sched_process_exit` (`include/trace/events/sched.h`): watched processes that end.
//!
//! Fires for each thread; the leading thread stands for the process. Needs no kernel struct: the thread
//! that exits is the current one.

use crate::{kernel, maps};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use aya_log_ebpf::debug;
use gwready_ebpf::records::{EXIT, Exit};

#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub(crate) fn process_exit(context: RawTracePointContext) -> i32 {
    let (tgid, thread) = kernel::current();
    if tgid == thread && maps::pid_is_watched(tgid) {
        debug!(&context, "process {} ends", tgid);
        maps::send(Exit { kind: EXIT, tgid, time: kernel::now(), comm: kernel::current_comm() });
    }
    0
}
