//! Collects the failing tests from cargo test's output, so that they stand together at the end.
//!
//! Reads text only; cargo's own lines are printed unchanged by the caller.

/// Failing tests in the order in which they failed.
#[derive(Default)]
pub(crate) struct Failures {
    names: Vec<String>,
}

impl Failures {
    /// Looks at one line of output.
    pub(crate) fn note(&mut self, line: &str) {
        if let Some(name) = parse_failed(line) {
            self.names.push(name.to_owned());
        }
    }

    /// Closing sentence for a run that failed.
    pub(crate) fn summary(&self) -> String {
        match self.names.as_slice() {
            [] => "the tests failed before a test could fail: see the first error above".to_owned(),
            names => format!("failing tests ({}):\n    {}", names.len(), names.join("\n    ")),
        }
    }
}

/// `test NAME ... FAILED`, as libtest prints it.
fn parse_failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_tests_are_told_from_all_other_lines() {
        let mut failures = Failures::default();
        for line in [
            "running 3 tests",
            "test box::up ... ok",
            "test box::down ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test src/lib.rs - f (line 3) ... FAILED",
        ] {
            failures.note(line);
        }
        assert_eq!(failures.names, ["box::down", "src/lib.rs - f (line 3)"]);
        assert_eq!(failures.summary(), "failing tests (2):\n    box::down\n    src/lib.rs - f (line 3)");
    }

    #[test]
    fn a_failure_without_a_failed_test_says_so() {
        assert!(Failures::default().summary().contains("before a test"));
    }
}
