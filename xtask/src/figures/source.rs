//! Source files with their lines split into code and tests.
//!
//! A line count on text, not a Rust parser: it relies on rustfmt's layout, where the closing brace of
//! a top-level `mod tests {` stands alone in the first column.

use crate::command::Step;
use anyhow::{Context, Result};
use std::path::Path;

/// One Rust file.
#[derive(Debug)]
pub(super) struct Source {
    /// Path from the workspace root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// Lines outside tests, all of them: code, comments, blank ones.
    pub(super) code_lines: usize,
    /// Lines of test modules; all lines, if the whole file is for tests.
    pub(super) test_lines: usize,
    /// Lines outside tests that are neither blank nor comments: what tests can test.
    pub(super) code_statements: usize,
    /// Such lines of tests.
    pub(super) test_statements: usize,
}

impl Source {
    /// Splits `text` into code and tests.
    pub(super) fn count(path: &str, text: String) -> Self {
        let total = text.lines().count();
        let (test_lines, test_statements) = if is_test_file(path) {
            (total, text.lines().filter(|line| is_statement(line)).count())
        } else {
            (inline_test_lines(&text, |_| true), inline_test_lines(&text, is_statement))
        };
        let statements = text.lines().filter(|line| is_statement(line)).count();
        let path = path.to_owned();
        Self { path, code_lines: total - test_lines, test_lines, code_statements: statements - test_statements, test_statements, text }
    }

    /// Part of `gwready-core`.
    pub(super) fn in_core(&self) -> bool {
        self.path.starts_with("agent/core/")
    }

    /// Code that is shipped or that builds it, as opposed to the tests' own package.
    pub(super) fn is_code(&self) -> bool {
        self.code_lines > 0
    }
}

/// Every Rust file that git knows or would add.
pub(super) fn read_all(root: &Path) -> Result<Vec<Source>> {
    let list = Step::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.rs"]).current_dir(root).read()?;
    let mut files = Vec::new();
    for path in list.lines() {
        let full = root.join(path);
        if full.is_file() {
            let text = std::fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))?;
            files.push(Source::count(path, text));
        }
    }
    Ok(files)
}

/// The package `tests` (the box included: it exists for tests only), and modules kept in files of their
/// own, which are told by name: `tests.rs`, `…_tests.rs`, `testing.rs`, `…_testing.rs`, anything below a folder `tests`.
fn is_test_file(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    name.ends_with("_tests.rs")
        || name.ends_with("_testing.rs")
        || ["tests.rs", "testing.rs"].contains(&name)
        || folders.split('/').any(|folder| folder == "tests")
}

/// Neither blank nor a comment.
fn is_statement(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// Lines of inline test modules that `counts`.
fn inline_test_lines(text: &str, counts: fn(&str) -> bool) -> usize {
    let mut counted = 0;
    let mut inside = false;
    let mut attribute = false;
    for line in text.lines() {
        if inside {
            counted += usize::from(counts(line));
            inside = line != "}";
        } else if line == "#[cfg(test)]" {
            attribute = true;
        } else {
            if attribute && line.starts_with("mod ") {
                // The attribute's own line belongs to the tests as well.
                counted += 2;
                inside = line.ends_with('{');
            }
            attribute = attribute && line.starts_with("#[");
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_TESTS: &str = "//! m\nfn a() {\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {\n    }\n}\n";

    #[test]
    fn an_inline_test_module_counts_as_tests_with_its_attribute_and_brace() {
        let source = Source::count("agent/src/a.rs", WITH_TESTS.to_owned());
        assert_eq!((source.code_lines, source.test_lines), (4, 5));
    }

    #[test]
    fn code_after_a_test_module_is_code_again() {
        let source = Source::count("agent/src/a.rs", format!("{WITH_TESTS}fn b() {{}}\n"));
        assert_eq!((source.code_lines, source.test_lines), (5, 5));
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_its_declaration_here_and_the_whole_file_there() {
        let declared = "//! m\n#[cfg(test)]\nmod tests;\nfn b() {}\n";
        assert_eq!(Source::count("agent/src/a/mod.rs", declared.to_owned()).test_lines, 2);
        assert_eq!(Source::count("agent/src/a/tests.rs", "a\nb\n".to_owned()).test_lines, 2);
        assert_eq!(Source::count("agent/core/tests/a.rs", "a\nb\n".to_owned()).test_lines, 2);
        assert_eq!(Source::count("tests/src/node.rs", "a\nb\n".to_owned()).test_lines, 2);
        assert_eq!(Source::count("agent/core/src/judge/identity_tests.rs", "a\nb\n".to_owned()).test_lines, 2);
        assert_eq!(Source::count("xtask/src/test.rs", "a\nb\n".to_owned()).test_lines, 0);
        assert_eq!(Source::count("agent/src/latests.rs", "a\nb\n".to_owned()).test_lines, 0);
    }

    #[test]
    fn comments_and_blank_lines_are_no_statements() {
        let source = Source::count("agent/src/a.rs", WITH_TESTS.replace("    fn t", "    // why\n\n    fn t"));
        assert_eq!((source.code_statements, source.test_statements), (2, 5));
        assert_eq!(source.test_lines, 7);
    }

    #[test]
    fn a_test_only_item_is_not_taken_for_a_test_module() {
        let text = "//! m\n#[cfg(test)]\nfn helper() {\n}\nmod real {\n}\n";
        assert_eq!(Source::count("agent/src/a.rs", text.to_owned()).test_lines, 0);
    }
}
