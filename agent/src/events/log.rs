//! Debug lines of the eBPF programs, passed on to tracing.

use aya::Ebpf;
use aya_log::EbpfLogger;
use std::os::fd::{AsFd, BorrowedFd};

/// Global of the programs' logging: highest level that is written. 4 = debug, 0 = nothing.
pub(super) const LEVEL_GLOBAL: &str = aya_log::LEVEL;

/// Stream of the programs' debug lines; its descriptor is readable while lines wait.
pub struct LogStream(EbpfLogger<ToTracing>);

impl LogStream {
    /// Takes the log ring. Must come before the programs are loaded.
    pub(super) fn open(bpf: &mut Ebpf) -> Option<Self> {
        EbpfLogger::init_with_logger(bpf, ToTracing).ok().map(Self)
    }

    /// Writes every waiting line to tracing at debug level.
    pub fn flush(&mut self) {
        self.0.flush();
    }
}

impl AsFd for LogStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

struct ToTracing;

impl ::log::Log for ToTracing {
    fn enabled(&self, _: &::log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &::log::Record<'_>) {
        tracing::debug!(target: "gwready::ebpf", "{}", record.args());
    }

    fn flush(&self) {}
}
