//! `signal:signal_generate` (`include/trace/events/signal.h`): signals for watched processes, with
//! their result.
//!
//! Generated, not delivered: a pid namespace's init without a handler ignores TERM, and then only this
//! tracepoint tells that somebody asked it to end.

use crate::{kernel, maps};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use aya_log_ebpf::debug;
use gwready_ebpf::REPORTED_SIGNALS;
use gwready_ebpf::records::{SIGNAL, Signal};

/// Arguments: `int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result`.
#[raw_tracepoint(tracepoint = "signal_generate")]
pub(crate) fn signal_generate(context: RawTracePointContext) -> i32 {
    let signal: i32 = context.arg(0);
    if (1..=63).contains(&signal) && REPORTED_SIGNALS >> signal & 1 == 1 {
        let task: *const u8 = context.arg(2);
        let target: u32 = kernel::read(task, kernel::TASK_TGID.load()).unwrap_or(0);
        if maps::pid_is_watched(target) {
            let (sender, _) = kernel::current();
            debug!(&context, "signal {} for {} by {}", signal, target, sender);
            maps::send(Signal {
                kind: SIGNAL,
                signal,
                time: kernel::now(),
                target,
                sender,
                result: context.arg(4),
                reserved: 0,
                comm: kernel::current_comm(),
            });
        }
    }
    0
}
