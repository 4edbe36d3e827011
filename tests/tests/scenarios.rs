//! The table `tests/scenarios.txt` against the closed list of reasons and against the tests that it names.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gwready_core::reason::Reason;

/// Reasons without a scenario, at most: a further one is a decision, not an oversight.
const EXCEPTIONS: usize = 10;

#[test]
fn every_reason_has_a_scenario_that_exists_or_a_reasoned_exception() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("scenarios.txt")).unwrap();
    let mut rows: BTreeMap<Reason, (&str, &str)> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        let (reason, file, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
        let reason = Reason::from_word(reason).unwrap_or_else(|| panic!("no reason {reason}"));
        assert!(rows.insert(reason, (file, rest)).is_none(), "{reason} twice");
    }
    let mut exceptions = Vec::new();
    for reason in Reason::ALL {
        let (file, rest) = rows.get(reason).unwrap_or_else(|| panic!("{reason} has no row in scenarios.txt"));
        if *file == "-" {
            assert!(rest.split(' ').count() >= 5, "{reason}: why has it none? {rest:?}");
            exceptions.push(reason.as_str());
            continue;
        }
        let source = fs::read_to_string(root.join(format!("tests/{file}.rs"))).unwrap_or_else(|error| panic!("{reason}: {file}: {error}"));
        assert!(source.contains(&format!("#[test]\nfn {rest}()")), "{reason}: no test {rest} in {file}");
        assert!(body(&source, rest).contains(reason.as_str()) || derives(*reason), "{reason} is not looked for in {rest}");
    }
    assert!(exceptions.len() <= EXCEPTIONS, "{exceptions:?}");
}

/// Text of one test function.
fn body<'a>(source: &'a str, test: &str) -> &'a str {
    let (_, rest) = source.split_once(&format!("fn {test}()")).unwrap();
    rest.split_once("\n}\n").map_or(rest, |(body, _)| body)
}

/// Shown by its effect on the probe's facts, which stand in the test under their own names.
fn derives(reason: Reason) -> bool {
    matches!(reason, Reason::ProbeTranslated)
}
