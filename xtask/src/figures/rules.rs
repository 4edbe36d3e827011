//! Rules on source files, each a pure function from counted files to findings.
//!
//! Function length, unwrap and friends, and unsafe are clippy's and rustc's (Cargo.toml, clippy.toml).

use super::source::Source;
use super::{CORE_TESTS_PER_HUNDRED, Finding, LONGEST_FILE, LONGEST_MAIN, MEDIAN_FILE, TESTS_PER_HUNDRED};

pub(super) fn judge(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(judge_length(file));
        findings.extend(judge_header(file));
        findings.extend(judge_ignored(file));
    }
    findings.extend(judge_median(files));
    findings.extend(judge_tests("tree", files.iter(), TESTS_PER_HUNDRED));
    findings.extend(judge_tests("gwready-core", files.iter().filter(|file| file.in_core()), CORE_TESTS_PER_HUNDRED));
    findings
}

/// One line with the figures themselves.
pub(super) fn render(files: &[Source]) -> String {
    let (code, tests) = totals(files.iter());
    let (core, core_tests) = totals(files.iter().filter(|file| file.in_core()));
    let longest = files.iter().max_by_key(|file| file.code_lines);
    format!(
        "{} files, {code} lines (comments aside), median {}, longest {} ({}); tests {tests} lines, {}% of code; core {}%",
        files.len(),
        median(files),
        longest.map_or(0, |file| file.code_lines),
        longest.map_or("none", |file| file.path.as_str()),
        percent(tests, code),
        percent(core_tests, core),
    )
}

fn finding(rule: &'static str, subject: &str, message: String) -> Finding {
    Finding { rule, subject: subject.to_owned(), message }
}

fn judge_length(file: &Source) -> Option<Finding> {
    // The tests' package counts as tests, but a file there must be readable too.
    let lines = if file.path.starts_with("tests/") { file.test_lines } else { file.code_lines };
    if lines > LONGEST_FILE {
        return Some(finding("file-length", &file.path, format!("{lines} lines, at most {LONGEST_FILE}")));
    }
    if file.path.ends_with("/main.rs") && lines >= LONGEST_MAIN {
        return Some(finding("main-length", &file.path, format!("{lines} lines, fewer than {LONGEST_MAIN} allowed")));
    }
    None
}

fn judge_header(file: &Source) -> Option<Finding> {
    let first = file.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let text = first.strip_prefix("//!").unwrap_or_default().trim();
    (text.is_empty() || text.contains("placeholder"))
        .then(|| finding("module-header", &file.path, "does not open with `//!` and what it is for".to_owned()))
}

fn judge_ignored(file: &Source) -> Option<Finding> {
    let ignored = |line: &str| line.trim_start().starts_with("#[ignore");
    let number = file.text.lines().position(ignored)? + 1;
    Some(finding("ignored-test", &file.path, format!("line {number}: tests are never ignored")))
}

fn judge_median(files: &[Source]) -> Option<Finding> {
    let median = median(files);
    (median >= MEDIAN_FILE)
        .then(|| finding("median-length", "tree", format!("the median file has {median} lines, fewer than {MEDIAN_FILE} wanted")))
}

fn judge_tests<'a>(subject: &str, files: impl Iterator<Item = &'a Source>, wanted: usize) -> Option<Finding> {
    let (code, tests) = totals(files);
    let percent = percent(tests, code);
    (percent < wanted).then(|| {
        let message = format!("{tests} lines of tests for {code} of code (comments aside): {percent}%, at least {wanted}% wanted");
        finding("test-lines", subject, message)
    })
}

fn totals<'a>(files: impl Iterator<Item = &'a Source>) -> (usize, usize) {
    files.fold((0, 0), |(code, tests), file| (code + file.code_statements, tests + file.test_statements))
}

fn median(files: &[Source]) -> usize {
    let mut lengths: Vec<usize> = files.iter().filter(|file| file.is_code()).map(|file| file.code_lines).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

/// Nothing to test is fully tested.
fn percent(part: usize, whole: usize) -> usize {
    (part * 100).checked_div(whole).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, code: usize, tests: usize) -> Source {
        let mut text = String::from("//! What it is for.\n");
        text.push_str(&"\n".repeat(code - 1));
        let mut source = Source::count(path, text);
        (source.test_lines, source.code_statements, source.test_statements) = (tests, code, tests);
        source
    }

    fn rules(files: &[Source]) -> Vec<&'static str> {
        judge(files).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_tree_within_bounds_has_no_findings() {
        assert_eq!(judge(&[file("agent/src/a.rs", 100, 60), file("agent/core/src/b.rs", 100, 100)]), []);
    }

    #[test]
    fn the_longest_file_may_have_500_lines_and_main_79() {
        assert!(judge_length(&file("agent/src/a.rs", 500, 900)).is_none());
        assert_eq!(judge_length(&file("agent/src/a.rs", 501, 0)).map(|found| found.rule), Some("file-length"));
        assert!(judge_length(&file("agent/src/main.rs", 79, 0)).is_none());
        assert_eq!(judge_length(&file("agent/src/main.rs", 80, 0)).map(|found| found.rule), Some("main-length"));
    }

    #[test]
    fn the_median_counts_files_with_code_only() {
        let long = |name| file(name, 150, 200);
        let files = [long("agent/src/a.rs"), long("agent/src/b.rs"), file("agent/src/c.rs", 10, 100)];
        assert_eq!(rules(&files), ["median-length"]);
    }

    #[test]
    fn too_few_tests_are_found_for_the_tree_and_for_core_apart() {
        assert_eq!(rules(&[file("agent/src/a.rs", 100, 59)]), ["test-lines"]);
        let core = judge(&[file("agent/core/src/a.rs", 100, 99)]);
        assert_eq!(core.iter().map(|found| found.subject.as_str()).collect::<Vec<_>>(), ["gwready-core"]);
    }

    #[test]
    fn a_file_without_a_header_or_with_an_empty_one_is_found() {
        for text in ["use std::fs;\n", "//!\nfn a() {}\n", "", "//! placeholder\n"] {
            let found = judge_header(&Source::count("agent/src/a.rs", text.to_owned()));
            assert_eq!(found.map(|found| found.rule), Some("module-header"), "{text:?}");
        }
    }

    #[test]
    fn an_ignored_test_is_found_with_its_line() {
        let text = ["//! m", "#[test]", concat!("#[", "ignore = \"slow\"]"), "fn t() {}"].join("\n");
        let found = judge_ignored(&Source::count("tests/tests/a.rs", text));
        assert_eq!(found.map(|found| found.message), Some("line 3: tests are never ignored".to_owned()));
    }
}
