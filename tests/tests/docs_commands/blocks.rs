//! The fenced shell blocks of the documentation, as commands and what is shown after them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// One file.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// One command, its continuation lines joined.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// Lines that a console block shows after it.
    pub(crate) shows: Vec<String>,
}

/// What a line of a shell block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `NAME=value`, `NAME=$(command)` or a function: for the lines after it.
    Setting,
    /// Anything else.
    Command,
}

/// Every page with a command: those that a person finds beside the code and below `docs` and `deploy`.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for (name, text) in files(root)? {
        let steps: Vec<Step> = fenced(&text).into_iter().flat_map(|block| block.steps()).collect();
        if !steps.is_empty() {
            pages.push(Page { name, steps });
        }
    }
    Ok(pages)
}

/// File, line and text of every line of a block that names no language.
pub(crate) fn lines_without_language(root: &Path) -> Result<Vec<(String, usize, String)>> {
    let mut lines = Vec::new();
    for (name, text) in files(root)? {
        let bare = fenced(&text).into_iter().filter(|block| block.language.is_empty());
        lines.extend(bare.flat_map(|block| block.lines).map(|(line, text)| (name.clone(), line, text)));
    }
    Ok(lines)
}

/// Name and text of every page.
pub(crate) fn files(root: &Path) -> Result<Vec<(String, String)>> {
    let mut paths = vec![root.join("README.md"), root.join("SECURITY.md"), root.join("tests/README.md")];
    for folder in ["docs", "deploy"] {
        collect(&root.join(folder), &mut paths)?;
    }
    paths.sort();
    let read = |path: PathBuf| Ok((path.strip_prefix(root)?.display().to_string(), fs::read_to_string(&path)?));
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    Ok(())
}

struct Block {
    language: String,
    lines: Vec<(usize, String)>,
}

fn fenced(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (open.take(), fence) {
            (None, Some(language)) => open = Some(Block { language: language.trim().to_owned(), lines: Vec::new() }),
            (Some(block), Some(_)) => blocks.push(block),
            (Some(mut block), None) => {
                block.lines.push((index + 1, line.trim().to_owned()));
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

impl Block {
    fn steps(self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let prompt = self.prompt();
        let mut continues = false;
        for (line, text) in self.lines {
            if continues {
                let Some(step) = steps.last_mut() else { continue };
                continues = text.ends_with('\\');
                step.text.push_str(text.trim_end_matches('\\'));
                continue;
            }
            let command = match prompt {
                Prompt::Foreign => return steps,
                Prompt::None if text.is_empty() || text.starts_with('#') => continue,
                Prompt::None => text.as_str(),
                Prompt::Dollar | Prompt::Hash => {
                    let sign = if prompt == Prompt::Dollar { "$ " } else { "# " };
                    match text.strip_prefix(sign) {
                        Some(command) => command,
                        // A comment of the console, or output.
                        None if text.is_empty() || text.starts_with('#') => continue,
                        None => {
                            if let Some(step) = steps.last_mut() {
                                step.shows.push(text);
                            }
                            continue;
                        }
                    }
                }
            };
            continues = command.ends_with('\\');
            let text = command.trim_end_matches('\\').to_owned();
            steps.push(Step { line, kind: kind_of(&text), text, shows: Vec::new() });
        }
        steps
    }

    fn prompt(&self) -> Prompt {
        let has = |sign| self.lines.iter().any(|(_, text)| text.starts_with(sign));
        match self.language.as_str() {
            "sh" | "bash" | "shell" => Prompt::None,
            // Where one person's prompt is `$`, a `#` begins a comment.
            "console" if has("$ ") => Prompt::Dollar,
            "console" if has("# ") => Prompt::Hash,
            _ => Prompt::Foreign,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Prompt {
    None,
    Dollar,
    Hash,
    /// No shell block, or one that shows output only.
    Foreign,
}

fn kind_of(text: &str) -> Kind {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase());
    let code = text.split(" #").next().unwrap_or_default().trim();
    let assigns = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let from_command = code.split_once("=$(").is_some_and(|(name, rest)| is_name(name) && rest.ends_with(')'));
    if from_command || code.split_whitespace().all(assigns) || code.contains("() {") { Kind::Setting } else { Kind::Command }
}
