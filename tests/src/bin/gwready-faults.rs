//! Plays every fault that one machine can show and writes what everybody said of it: `gwready-faults PAGE`, or with words only
//! those sections whose title contains one, printed. `cargo xtask test faults` builds and starts this.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use gwready_tests::faults::{SECTIONS, page, play};

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).map(PathBuf::from).context("no path of the page")?;
    let words: Vec<String> = std::env::args().skip(2).collect();
    let (mut tables, mut wrong) = (Vec::new(), Vec::new());
    for section in SECTIONS.iter().filter(|section| words.is_empty() || words.iter().any(|word| section.title.contains(word.as_str()))) {
        match play(section) {
            Ok(rows) => {
                let table = page::render_section(section, &rows);
                println!("{table}");
                tables.push(table);
            }
            Err(error) => {
                println!("{error:#}\n");
                wrong.push(section.title);
            }
        }
    }
    if !wrong.is_empty() {
        bail!("the agent was wrong in: {}", wrong.join(", "));
    }
    if words.is_empty() {
        std::fs::write(&path, page::render(&tables)).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
