//! What the command line needs of the daemon. A seam, so that commands are tested without privileges.

use gwready_core::render::sources::NotVisible;
use gwready_core::replay::SnapshotFile;

use super::exit::Exit;
use super::output;
use crate::config::Config;

/// Why something could not be done: a sentence and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How the program ends.
    pub exit: Exit,
    /// One sentence for a person.
    pub sentence: String,
}

impl Failure {
    /// Writes the sentence and gives the code.
    pub(super) fn report(&self) -> Exit {
        output::complain(&format!("gwready: {}\n", self.sentence));
        self.exit
    }
}

/// One pass and one probe round, without a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Everything the judgement needs.
    pub file: SnapshotFile,
    /// What this process can't see for want of a privilege, a mount or a kernel feature, beside unreadable sources.
    pub not_visible: Vec<NotVisible>,
}

/// The daemon's part of the program.
pub trait Engine {
    /// Runs the daemon until it is told to end.
    ///
    /// # Errors
    /// It can't start, or a long task ended.
    fn run(&self, config: &Config) -> Result<(), Failure>;

    /// Observes once.
    ///
    /// # Errors
    /// Nothing could be observed at all. Sources that can't be read are no error: they stand in the observation.
    fn observe(&self, config: &Config) -> Result<Observation, Failure>;
}
