//! The log: one line per notice on standard error, as text or JSON. Decides nothing about what is worth a line.
//!
//! Two ways in, one way out: transitions and the start notice are [`Line`]s and go through [`write()`]; everything else is a
//! `tracing` event and comes through a layer that makes the same [`Line`] of it.

mod layer;
mod notices;
mod sink;

pub use notices::Notices;
pub use sink::{Format, Sink};

use std::io;
use std::sync::OnceLock;

use gwready_core::render::log_line::{Level, Line};
use tracing_subscriber::layer::SubscriberExt;

use crate::config::{Log, LogFormat, LogLevel};

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sets the log up for the process. Later calls change nothing.
pub fn init(config: &Log) {
    let sink = SINK.get_or_init(|| Sink::new(format_of(config.format), level_of(config.level), Box::new(io::stderr())));
    let subscriber = tracing_subscriber::registry().with(layer::LineLayer::new(sink));
    let _ = tracing::subscriber::set_global_default(subscriber);
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
