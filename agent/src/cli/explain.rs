//! `gwready explain`: the same judgement on another machine, step by step. Needs no privilege.

use std::io::Read;
use std::path::Path;

use gwready_core::judge::{Judgement, judge};
use gwready_core::reason::Reason;
use gwready_core::render::explain::render_explain;
use gwready_core::replay::parse_snapshot_file;
use gwready_core::verdict::State;

use super::args::ExplainOptions;
use super::exit::Exit;
use super::output;

/// Larger files are no snapshots.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Reads, judges, tells.
pub(super) fn run(options: &ExplainOptions) -> Exit {
    let file = match read_text(&options.file)
        .map_err(|error| error.to_string())
        .and_then(|text| parse_snapshot_file(&text).map_err(|error| error.to_string()))
    {
        Ok(file) => file,
        Err(sentence) => {
            output::complain(&format!("gwready: {}: {sentence}\n", options.file.display()));
            return Exit::CannotTell;
        }
    };
    let Judgement { verdict, memory } = judge(&file.policy, &file.snapshot, &file.memory, file.now);
    output::print(&render_explain(&file, &verdict, &memory));
    match (verdict.node.state, verdict.node.reason) {
        (State::Up, _) => Exit::Ok,
        (_, Some(Reason::Starting | Reason::Stale)) => Exit::CannotTell,
        _ => Exit::NotUp,
    }
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    }
    Ok(text)
}
