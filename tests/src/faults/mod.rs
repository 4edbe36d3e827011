//! The ways in which a gateway node looks fine to somebody and is not, or the reverse: each produced with real parts, with the
//! answers of four usual checks and of the agent side by side. `docs/faults.md` is generated from what is seen here.
//!
//! A fault says how it is made and what the agent must answer; what the other checks answer is only looked at, never demanded.
//! Must not hold anything against a check that it was not asked.

mod coming;
mod control;
mod look;
mod monitor;
pub mod page;
mod partial;
mod request;
mod stage;
mod taking;
mod theft;

use std::sync::Mutex;

use anyhow::{Result, anyhow};

pub use look::Claim;
pub use stage::{Seen, Stage};

/// How many faults are played at once; most of the time is spent waiting.
const AT_ONCE: usize = 4;

/// One way to be fooled.
pub struct Fault {
    /// Number of the row.
    pub id: &'static str,
    /// The fault in words.
    pub what: &'static str,
    /// Words that the agent's state line must contain; none where `make` has seen the answer itself.
    pub answer: &'static str,
    /// Produces it. Its errors are those of the box, or of an agent that does not see what it must.
    pub make: fn() -> Result<Stage>,
}

/// Faults of one kind.
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// In the order of the page.
    pub faults: &'static [Fault],
}

/// All that one machine can show.
pub const SECTIONS: &[Section] = &[
    Section { title: "Envoy's control path", faults: control::FAULTS },
    Section { title: "Someone else gets the connection", faults: theft::FAULTS },
    Section { title: "Partial", faults: partial::FAULTS },
    Section { title: "Alive but not taking", faults: taking::FAULTS },
    Section { title: "Coming and going", faults: coming::FAULTS },
    Section { title: "Configuration fine, request not", faults: request::FAULTS },
    Section { title: "The monitor itself", faults: monitor::FAULTS },
];

/// Plays every fault of a section and returns its rows in order; an error names every fault that the agent did not tell.
pub fn play(section: &Section) -> Result<Vec<Seen>> {
    let next = Mutex::new(section.faults.iter().enumerate());
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let taken = next.lock().ok().and_then(|mut next| next.next());
                    let Some((place, fault)) = taken else { return };
                    let row = stage::play(fault).map_err(|error| format!("{} {}: {error:#}", fault.id, fault.what));
                    if let Ok(mut seen) = seen.lock() {
                        seen.push((place, row));
                    }
                }
            });
        }
    });
    let mut seen = seen.into_inner().map_err(|_| anyhow!("a fault panicked"))?;
    seen.sort_by_key(|(place, _)| *place);
    let wrong: Vec<&str> = seen.iter().filter_map(|(_, row)| row.as_ref().err()).map(String::as_str).collect();
    if !wrong.is_empty() || seen.len() != section.faults.len() {
        return Err(anyhow!("{}: {} of {} faults:\n{}", section.title, wrong.len(), section.faults.len(), wrong.join("\n\n")));
    }
    Ok(seen.into_iter().filter_map(|(_, row)| row.ok()).collect())
}
