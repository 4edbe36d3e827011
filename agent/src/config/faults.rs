//! Faults of a configuration: where, which key, and one clear sentence.

use std::fmt;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nobody gave it: the default.
    #[default]
    Default,
    /// The configuration file, by its path as given.
    File(String),
    /// An environment variable, by name.
    Variable(String),
    /// `--set`.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => f.write_str(path),
            Self::Variable(name) => write!(f, "environment {name}"),
            Self::Set => f.write_str("--set"),
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Who gave the value.
    pub origin: Origin,
    /// Dotted key; empty when the fault is of the whole source.
    pub key: String,
    /// What is wrong and what would be right.
    pub sentence: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.origin, self.sentence)
        } else {
            write!(f, "{}: {}: {}", self.origin, self.key, self.sentence)
        }
    }
}

/// Every fault that was found, in the order of reading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Notes one.
    pub fn add(&mut self, origin: Origin, key: impl Into<String>, sentence: impl Into<String>) {
        self.0.push(Fault { origin, key: key.into(), sentence: sentence.into() });
    }

    /// True when nothing is wrong.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    /// True if this key, or one below it, has a fault.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|fault| fault.key == key || fault.key.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', '['])))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
