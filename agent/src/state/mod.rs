//! What survives a restart of the agent: drain, last verdict, ports and families seen, the last transitions.
//!
//! One versioned JSON file in `state_dir`, written whole or not at all. A file that can't be read is never a reason not to
//! start: the agent says so and begins fresh.

mod file;
mod saved;

pub use file::StateFile;
pub use saved::{HISTORY, LastVerdict, Saved};
