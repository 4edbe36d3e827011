//! Answers golden cases: one JSON line in (`tests/golden/README.md`), one JSON line out with the rule's outcome for every version
//! that the line names. `--settings "1.17.1-nodiff"` answers that version alone, `--proto0` rewrites the keys as 1.16 does.
//!
//! `cargo run -p gwready-core --example datapath < agent/core/tests/golden/datapath-outcomes.jsonl`

#[path = "../tests/support/golden.rs"]
mod golden;

use std::error::Error;
use std::io::{BufRead, Write};

use golden::Case;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let proto0 = arguments.iter().any(|argument| argument == "--proto0");
    let label = arguments.iter().skip_while(|argument| *argument != "--settings").nth(1);
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let case = Case::parse(&line?)?;
        let answer = match label {
            Some(label) => {
                let decision = case.decide(&golden::settings(label)?, proto0)?;
                serde_json::json!({"name": case.name, "outcome": golden::render(&case.json["packet"], &decision.outcome)})
            }
            None => case.answers()?,
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
