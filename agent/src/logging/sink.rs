//! Where lines go: level, format, and one write per line, so that lines of several threads never mix.

use std::fmt;
use std::io::Write;
use std::sync::Mutex;

use gwready_core::render::log_line::{Level, Line, render_json, render_text};
use gwready_core::render::wall::render_rfc3339;

/// Text or JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `2025-01-31T09:30:00.250Z WARN node DOWN reason=…`
    Text,
    /// One object per line: `ts`, `level`, `msg`, fields.
    Json,
}

/// The end of the log.
pub struct Sink {
    format: Format,
    level: Level,
    out: Mutex<Box<dyn Write + Send>>,
}

impl Sink {
    /// Writes lines of this level and more important ones to `out`.
    #[must_use]
    pub fn new(format: Format, level: Level, out: Box<dyn Write + Send>) -> Self {
        Self { format, level, out: Mutex::new(out) }
    }

    /// True if a line of this level would be written.
    #[must_use]
    pub fn wants(&self, level: Level) -> bool {
        level <= self.level
    }

    /// Writes one line. A log that can't be written (a closed pipe) is no reason to stop: the error is dropped.
    pub fn write(&self, line: &Line, unix_ms: u64) {
        if !self.wants(line.level) {
            return;
        }
        let mut text = match self.format {
            Format::Text => format!("{} {}", render_rfc3339(unix_ms), render_text(line)),
            Format::Json => render_json(line, unix_ms),
        };
        text.push('\n');
        let mut out = self.out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("format", &self.format).field("level", &self.level).finish_non_exhaustive()
    }
}
