//! `cargo xtask docs`: writes the generated pages of `docs/` anew. That they are up to date is held by unit tests beside
//! the tables they are made from.

use crate::command::Step;
use crate::place;
use anyhow::{Context, Result};

/// The pages, as `gwready docs` names them; each is `docs/<name>.md`.
const PAGES: [&str; 3] = ["configuration", "metrics", "verdict"];

/// Builds the agent (without eBPF: no page depends on it) and lets it write every page.
///
/// # Errors
/// It does not build, or a page can't be written.
pub(crate) fn run() -> Result<()> {
    Step::cargo().args(["build", "--workspace", "--bins"]).about("building gwready").run()?;
    let agent = place::target().join("debug/gwready");
    for page in PAGES {
        let text = Step::new(&agent).args(["docs", page]).read()?;
        let path = place::workspace().join("docs").join(page).with_extension("md");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("    wrote {}", path.display());
    }
    Ok(())
}
