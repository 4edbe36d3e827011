//! One notice of the log, as text or JSON. The same value stands in the history of `/status`, so both agree.

use std::fmt::{Display, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text::{MAX_BYTES, clean_notice, clean_sentence, sanitise};
use super::wall::render_rfc3339;

/// How important a notice is, most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something the agent can't do.
    Error,
    /// Somebody should look.
    Warn,
    /// Good to know.
    Info,
    /// For the curious.
    Debug,
    /// For the desperate.
    Trace,
}

impl Level {
    /// Upper-case word, as in text lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        }
    }
}

/// One notice: a message of ours and fields in the order in which they are shown. Every value is harmless already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Importance.
    pub level: Level,
    /// What happened, e.g. `node DOWN`.
    #[serde(rename = "msg")]
    pub message: String,
    /// Name and value.
    pub fields: Vec<(String, String)>,
}

impl Line {
    /// A notice without fields.
    #[must_use]
    pub fn new(level: Level, message: &str) -> Self {
        Self { level, message: clean_sentence(message), fields: Vec::new() }
    }

    /// A notice from our own code with its fields, of any length that a log takes: the effective configuration, an error chain.
    #[must_use]
    pub fn notice(level: Level, message: &str, fields: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut line = Self { level, message: clean_notice(message), fields: Vec::new() };
        for (name, value) in fields {
            line.push(name, clean_notice(&value));
        }
        line
    }

    /// Adds a value that we wrote (numbers, our words).
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Display) -> Self {
        self.push(name, clean_sentence(&value.to_string()));
        self
    }

    /// Adds a value only if there is one.
    #[must_use]
    pub fn field_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// Adds text that we did not write.
    #[must_use]
    pub fn foreign(mut self, name: &str, value: &str) -> Self {
        self.push(name, sanitise(value));
        self
    }

    /// A second field of the same name gets a `_` behind it: JSON readers keep only one of two equal keys.
    fn push(&mut self, name: &str, value: String) {
        let mut name = word(name);
        while self.get(&name).is_some() {
            name.push('_');
        }
        self.fields.push((name, value));
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// A field's name as one word: evidence of a snapshot file may carry any name.
fn word(name: &str) -> String {
    let name: String = name.chars().take(MAX_BYTES).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// As text without a time: `WARN node DOWN reason=HostPort port=80 thief="pod a/b"`.
#[must_use]
pub fn render_text(line: &Line) -> String {
    let mut out = format!("{} {}", line.level.as_str(), line.message);
    for (name, value) in &line.fields {
        let _ = write!(out, " {name}={}", quoted(value));
    }
    out
}

/// As one JSON object: `ts`, `level`, `msg`, then the fields. A field with one of these names gets the prefix `field_`.
#[must_use]
pub fn render_json(line: &Line, unix_ms: u64) -> String {
    let level = line.level.as_str().to_ascii_lowercase();
    let mut out = format!("{{\"ts\":{},\"level\":{},\"msg\":{}", json(&render_rfc3339(unix_ms)), json(&level), json(&line.message));
    for (name, value) in &line.fields {
        let prefix = if matches!(name.as_str(), "ts" | "level" | "msg") { "field_" } else { "" };
        let _ = write!(out, ",{}:{}", json(&format!("{prefix}{name}")), json(value));
    }
    out.push('}');
    out
}

fn json(text: &str) -> String {
    Value::from(text).to_string()
}

/// The value, in quotes unless it is one plain word. A quote inside becomes an apostrophe, so that fields can be cut apart.
fn quoted(value: &str) -> String {
    let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:/,%+-@[]".contains(&b));
    if plain { value.to_owned() } else { format!("\"{}\"", value.replace('"', "'")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_reads_like_the_design() {
        let line = Line::new(Level::Warn, "node DOWN")
            .field("reason", "HostPort")
            .field("port", 80)
            .foreign("thief", "pod kube-system/x (10.42.1.7:80)");
        assert_eq!(render_text(&line), "WARN node DOWN reason=HostPort port=80 thief=\"pod kube-system/x (10.42.1.7:80)\"");
    }

    #[test]
    fn json_has_the_time_first_and_never_a_key_twice() {
        let line = Line::new(Level::Info, "hello").field("msg", "x").field("n", 1);
        assert_eq!(render_json(&line, 0), r#"{"ts":"1970-01-01T00:00:00.000Z","level":"info","msg":"hello","field_msg":"x","n":"1"}"#);
    }

    #[test]
    fn a_name_is_one_word_and_stands_once() {
        let line = Line::new(Level::Info, "x").field("reason", "A").foreign("reason", "B").foreign("a=b c\n", "v").field("", "w");
        assert_eq!(render_text(&line), "INFO x reason=A reason_=B a_b_c_=v _=w");
    }

    #[test]
    fn a_foreign_value_cannot_forge_a_field_or_a_line() {
        let line = Line::new(Level::Warn, "x").foreign("thief", "a\" state=up\nWARN node UP");
        assert_eq!(render_text(&line), "WARN x thief=\"a' state:up?WARN node UP\"");
    }

    proptest! {
        #[test]
        fn one_line_whatever_the_values(message in ".*", value in ".*") {
            let line = Line::new(Level::Info, &message).field("a", &value).foreign("b", &value);
            prop_assert!(!render_text(&line).contains('\n'));
            let parsed: Value = serde_json::from_str(&render_json(&line, 1)).expect("json");
            prop_assert!(parsed["b"].is_string());
        }
    }
}
