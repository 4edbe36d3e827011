//! Every reason has its page: `docs/conditions/<Reason>.md`.
//!
//! Reasons are read from the source text of `pub enum Reason` in `gwready-core`, so that this check
//! needs no build.

use super::Finding;
use super::source::Source;
use std::collections::BTreeSet;
use std::path::Path;

/// Names of the pages without `.md`; none where the folder does not exist.
pub(super) fn read_pages(root: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(root.join("docs/conditions")) else {
        return BTreeSet::new();
    };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".md").map(str::to_owned)).collect()
}

pub(super) fn judge(files: &[Source], pages: &BTreeSet<String>) -> Vec<Finding> {
    let reasons: BTreeSet<String> = files.iter().filter(|file| file.in_core()).flat_map(|file| parse_reasons(&file.text)).collect();
    reasons
        .difference(pages)
        .map(|reason| Finding { rule: "reason-page", subject: reason.clone(), message: format!("docs/conditions/{reason}.md is missing") })
        .collect()
}

/// Variants of `pub enum Reason`, also where a macro wraps it: one name a line, with or without a
/// value behind it.
fn parse_reasons(text: &str) -> Vec<String> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with("pub enum Reason {"));
    let Some(head) = lines.next() else {
        return Vec::new();
    };
    let indent = head.len() - head.trim_start().len();
    lines
        .take_while(|line| line.trim() != "}" || line.len() - line.trim_start().len() > indent)
        .filter_map(|line| {
            let line = line.trim();
            let name: String = line.chars().take_while(char::is_ascii_alphanumeric).collect();
            let variant = name.starts_with(|first: char| first.is_ascii_uppercase());
            variant.then_some(name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = "//! r\n/// Why.\npub enum Reason {\n    /// Nobody listens.\n    NoListener,\n    #[serde(rename = \"x\")]\n    HostPort = 4,\n}\nenum Other {\n    Else,\n}\n";

    #[test]
    fn variants_are_read_and_nothing_else() {
        assert_eq!(parse_reasons(CORE), ["NoListener", "HostPort"]);
        let wrapped = "reasons! {\n    pub enum Reason {\n        /// A.\n        Stale => \"x\",\n    }\n}\n";
        assert_eq!(parse_reasons(wrapped), ["Stale"]);
    }

    #[test]
    fn a_reason_without_a_page_is_found() {
        let files = [Source::count("agent/core/src/reason.rs", CORE.to_owned())];
        let pages = BTreeSet::from(["HostPort".to_owned(), "README".to_owned()]);
        let found: Vec<String> = judge(&files, &pages).into_iter().map(|finding| finding.subject).collect();
        assert_eq!(found, ["NoListener"]);
    }

    #[test]
    fn only_the_enum_of_core_counts() {
        let files = [Source::count("agent/src/reason.rs", CORE.to_owned())];
        assert_eq!(judge(&files, &BTreeSet::new()), []);
    }
}
