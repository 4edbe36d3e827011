//! The log: one line per notice on standard error, as text or JSON. Decides nothing about what is worth a line.
//!
//! Two ways in, one way out: transitions and the start notice are [`Line`]s and go through [`write()`]; everything else is a
//! `tracing` event and comes through a layer that makes the same [`Line`] of it.

mod layer;
mod notices;
mod sink;

pub use notices::Notices;
pub use sink::{Format, Sink};

use std::io::{self, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use gwready_core::render::log_line::{Level, Line};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt;

use crate::config::{Log, LogFormat, LogLevel};
use crate::privileges;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Lines that wait for a reader of standard error at most; more are dropped. Some 1 MiB.
const WAITING_LINES: usize = 4096;

/// Keeps the writing thread; dropped by [`finish`].
static WRITER: Mutex<Option<WorkerGuard>> = Mutex::new(None);

/// Sets the log up for the process. Later calls change nothing.
///
/// Lines are written by a thread of their own: a reader of standard error that stops reading must stop neither the
/// observer nor the answers.
pub fn init(config: &Log) {
    let sink = SINK.get_or_init(|| Sink::new(format_of(config.format), level_of(config.level), writer()));
    let subscriber = tracing_subscriber::registry().with(layer::LineLayer::new(sink));
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Where lines go. The writing thread is started from one without capabilities, so that it has none either.
fn writer() -> Box<dyn Write + Send> {
    let start = || {
        // A thread that keeps its capabilities only writes lines: no reason not to log.
        let _ = privileges::drop_all();
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING_LINES).thread_name("log").finish(io::stderr())
    };
    match std::thread::spawn(start).join() {
        Ok((writer, guard)) => {
            *WRITER.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
            Box::new(writer)
        }
        Err(_) => Box::new(io::stderr()),
    }
}

/// Writes what waits and ends the writing thread: the last thing before the process ends.
pub fn finish() {
    drop(WRITER.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Writes one line, if its level is wanted. Before [`init`] nothing is written.
pub fn write(line: &Line) {
    if let Some(sink) = SINK.get() {
        sink.write(line, crate::clock::now().unix_ms);
    }
}

const fn format_of(format: LogFormat) -> Format {
    match format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    }
}

const fn level_of(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::Error,
        LogLevel::Warn => Level::Warn,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
        LogLevel::Trace => Level::Trace,
    }
}
