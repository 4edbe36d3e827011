//! Writing to a person or a pipe. A reader that went away (`| head`) is not an error and never a panic.

use std::io::{self, IsTerminal, Write};

/// Writes to standard output.
pub(super) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to standard error.
pub(super) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Colour is for terminals, and not where NO_COLOR (no-color.org) is set.
pub(super) fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A value as indented JSON with a final newline.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).map_or_else(|error| format!("{{\"error\":{:?}}}\n", error.to_string()), |text| text + "\n")
}
