//! The one published verdict: swapped whole, read without a lock.
//!
//! Readers (health port, metrics, control socket) see either the old verdict or the new one, never a mixture, and never
//! wait for the judge. Nothing here judges.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use gwready_core::reason::Reason;
use gwready_core::render::health::AnswerSettings;
use gwready_core::verdict::Verdict;
use tokio::sync::watch;

/// Holds the current verdict and what an answer needs besides it. Before the first verdict every answer is down `Starting`.
#[derive(Debug)]
pub struct Publisher {
    current: ArcSwapOption<Verdict>,
    answers: AnswerSettings,
    standing: watch::Sender<bool>,
}

impl Publisher {
    /// Nothing published yet.
    #[must_use]
    pub fn new(answers: AnswerSettings) -> Self {
        Self { current: ArcSwapOption::empty(), answers, standing: watch::Sender::new(false) }
    }

    /// Replaces the verdict for every reader at once.
    pub fn publish(&self, verdict: impl Into<Arc<Verdict>>) {
        let verdict = verdict.into();
        let stands = verdict.node.reason != Some(Reason::Starting);
        self.current.store(Some(verdict));
        if stands {
            self.standing.send_if_modified(|standing| !std::mem::replace(standing, true));
        }
    }

    /// The current verdict for a moment; cheaper than [`Publisher::current`], not to be held across a wait.
    #[must_use]
    pub fn load(&self) -> Guard<Option<Arc<Verdict>>> {
        self.current.load()
    }

    /// The current verdict, to keep.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Verdict>> {
        self.current.load_full()
    }

    /// Node name, staleness, scope and detail: fixed for the life of the process.
    #[must_use]
    pub const fn answers(&self) -> &AnswerSettings {
        &self.answers
    }

    /// True once a verdict other than `Starting` was published.
    #[must_use]
    pub fn stands(&self) -> bool {
        *self.standing.borrow()
    }

    /// Resolves when a verdict other than `Starting` has been published: the moment to take over from a predecessor.
    pub async fn first_standing(&self) {
        // An error means that the sender is gone; it lives as long as `self`.
        _ = self.standing.subscribe().wait_for(|standing| *standing).await;
    }
}
