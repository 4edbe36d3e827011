//! Writes `state_dir`: drain, last verdict, what was seen, history. Never on the observer's thread.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::board::Board;
use crate::state::{Saved, StateFile};

/// How often changes are written.
const LOOK: Duration = Duration::from_secs(1);
/// The last verdict's time is written at least this often: the start rule asks whether it is younger than 60 s.
const REFRESH_EVERY: u32 = 10;

/// The state file, written by one at a time.
#[derive(Debug)]
pub struct Journal {
    file: Arc<Mutex<StateFile>>,
    warned: Mutex<Option<String>>,
}

impl Journal {
    /// A journal in this folder, and what an earlier run left there. A file that can't be used is said once.
    #[must_use]
    pub fn open(folder: &Path) -> (Self, Saved) {
        let file = StateFile::in_folder(folder);
        let (saved, warning) = file.read();
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        (Self { file: Arc::new(Mutex::new(file)), warned: Mutex::default() }, saved)
    }

    /// Writes what the board has now.
    ///
    /// # Errors
    /// As the file system's.
    pub async fn save_now(&self, board: &Board) -> io::Result<()> {
        match board.to_save(true) {
            Some(saved) => self.save(saved).await,
            None => Ok(()),
        }
    }

    /// Writes changes as they come, for ever. A file that can't be written is said once per reason.
    pub async fn run(&self, board: Arc<Board>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 0_u32.. {
            looks.tick().await;
            if let Some(saved) = board.to_save(look % REFRESH_EVERY == 0) {
                let outcome = self.save(saved).await.err().map(|error| error.to_string());
                let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(error) = outcome.as_ref().filter(|_| *warned != outcome) {
                    tracing::warn!("state_dir can't be written, a restart will forget: {error}");
                }
                *warned = outcome;
            }
        }
    }

    async fn save(&self, saved: Saved) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        let write = move || file.lock().unwrap_or_else(PoisonError::into_inner).write(&saved);
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }
}
