//! The figures of the source tree that are held by a check.
//!
//! Limits stand here, counting in [`source`], rules in [`rules`], [`dependencies`] and [`reasons`].
//! What breaks a rule for a good reason is listed in `xtask/figures-exceptions.txt`.

mod dependencies;
mod exceptions;
mod reasons;
mod rules;
mod source;

use crate::place;
use anyhow::{Result, bail};
use exceptions::Exceptions;
use gwready_core::reason::Reason;

/// Longest source file, in lines without its tests.
const LONGEST_FILE: usize = 500;
/// The median source file is shorter than this, in lines without its tests.
const MEDIAN_FILE: usize = 140;
/// Every `main.rs` is shorter than this.
const LONGEST_MAIN: usize = 80;
/// Test lines for each hundred source lines, whole tree.
const TESTS_PER_HUNDRED: usize = 60;
/// Test lines for each hundred source lines, `gwready-core`.
const CORE_TESTS_PER_HUNDRED: usize = 100;

/// One rule broken in one place.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Short name of the rule, as exceptions name it.
    rule: &'static str,
    /// What breaks it: a path, a crate or a reason.
    subject: String,
    /// A sentence for a person.
    message: String,
}

/// Counts, prints the figures, and checks every rule.
///
/// # Errors
/// Rules are broken without an exception: all of them, one a line.
pub(crate) fn check() -> Result<()> {
    let root = place::workspace();
    eprintln!("==> figures of the source tree");
    let files = source::read_all(&root)?;
    let mut findings = rules::judge(&files);
    findings.extend(dependencies::judge(&dependencies::read()?));
    findings.extend(reasons::judge(Reason::ALL.iter().map(|reason| reason.as_str()), &reasons::read_pages(&root)));
    eprintln!("    {}", rules::render(&files));

    let mut exceptions = Exceptions::read(&root.join("xtask/figures-exceptions.txt"))?;
    findings.retain(|finding| !exceptions.excuse(finding));
    for unused in exceptions.unused() {
        eprintln!("    the exception `{unused}` excuses nothing any more: remove it");
    }
    if findings.is_empty() {
        return Ok(());
    }
    for finding in &findings {
        eprintln!("    {}: {}: {}", finding.rule, finding.subject, finding.message);
    }
    bail!("{} figures are out of bounds (rules: xtask/src/figures)", findings.len())
}
