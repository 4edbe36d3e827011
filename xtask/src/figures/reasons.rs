//! Every reason has its page: `docs/conditions/<Reason>.md`.

use super::Finding;
use std::collections::BTreeSet;
use std::path::Path;

/// Names of the pages without `.md`; none where the folder does not exist.
pub(super) fn read_pages(root: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(root.join("docs/conditions")) else {
        return BTreeSet::new();
    };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".md").map(str::to_owned)).collect()
}

/// Reasons without a page.
pub(super) fn judge<'a>(reasons: impl Iterator<Item = &'a str>, pages: &BTreeSet<String>) -> Vec<Finding> {
    reasons
        .filter(|reason| !pages.contains(*reason))
        .map(|reason| Finding {
            rule: "reason-page",
            subject: reason.to_owned(),
            message: format!("docs/conditions/{reason}.md is missing"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_without_a_page_is_found() {
        let pages = BTreeSet::from(["HostPort".to_owned(), "README".to_owned()]);
        let found: Vec<String> = judge(["NoListener", "HostPort"].into_iter(), &pages).into_iter().map(|finding| finding.subject).collect();
        assert_eq!(found, ["NoListener"]);
    }
}
