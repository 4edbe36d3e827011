//! The list of exceptions: what may break a rule, and why.
//!
//! A line is `<rule> <subject> <reason…>`; `*` as subject stands for all. A line without a reason is
//! refused: an exception that nobody can explain is a broken rule.

use super::Finding;
use anyhow::{Context, Result, bail};
use std::path::Path;

#[derive(Debug)]
struct Exception {
    rule: String,
    subject: String,
    used: bool,
}

/// All exceptions, with which of them have been needed.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    list: Vec<Exception>,
}

impl Exceptions {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut list = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(rule), Some(subject), Some(_)) => {
                    list.push(Exception { rule: rule.to_owned(), subject: subject.to_owned(), used: false });
                }
                _ => bail!("line {}: an exception is a rule, a subject and a reason", number + 1),
            }
        }
        Ok(Self { list })
    }

    /// Whether some exception covers `finding`; that exception counts as needed from now on.
    pub(super) fn excuse(&mut self, finding: &Finding) -> bool {
        let covers = |exception: &&mut Exception| {
            exception.rule == finding.rule && (exception.subject == "*" || exception.subject == finding.subject)
        };
        match self.list.iter_mut().find(covers) {
            Some(exception) => {
                exception.used = true;
                true
            }
            None => false,
        }
    }

    /// Exceptions that no finding needed.
    pub(super) fn unused(&self) -> Vec<String> {
        let unused = self.list.iter().filter(|exception| !exception.used);
        unused.map(|exception| format!("{} {}", exception.rule, exception.subject)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: &'static str, subject: &str) -> Finding {
        Finding { rule, subject: subject.to_owned(), message: String::new() }
    }

    #[test]
    fn an_exception_covers_its_rule_and_subject_only() -> Result<()> {
        let mut list = Exceptions::parse("# why\nfile-length agent/src/a.rs one table\nreason-page * not written yet\n")?;
        assert!(list.excuse(&finding("file-length", "agent/src/a.rs")));
        assert!(!list.excuse(&finding("file-length", "agent/src/b.rs")));
        assert!(!list.excuse(&finding("main-length", "agent/src/a.rs")));
        assert_eq!(list.unused(), ["reason-page *"]);
        assert!(list.excuse(&finding("reason-page", "Stale")));
        assert!(list.unused().is_empty());
        Ok(())
    }

    #[test]
    fn an_exception_without_a_reason_is_refused() {
        let refused = Exceptions::parse("\nfile-length agent/src/a.rs\n");
        assert!(refused.is_err_and(|error| error.to_string().starts_with("line 2")));
    }
}
