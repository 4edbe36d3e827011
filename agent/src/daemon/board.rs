//! Where the observer and the serving threads meet: the published verdict, the last snapshot, the operator's drain, the
//! history. Short locks, no IO: the observer must never wait for a client or a disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use gwready_core::facts::{DrainRequest, Snapshot};
use gwready_core::memory::Memory;
use gwready_core::time::{Mono, Now};
use gwready_core::verdict::Verdict;
use tokio::sync::Notify;

use super::kernel_events::Attached;
use super::schedule::Trigger;
use super::wake::Waker;
use crate::clock;
use crate::publish::Publisher;

/// What one pass hands over.
#[derive(Debug)]
pub struct PassReport<'a> {
    /// What caused it.
    pub triggers: &'a [Trigger],
    /// When it began.
    pub began: Mono,
    /// Kernel time of the first event that asked for it.
    pub event_at: Option<Mono>,
    /// The judgement.
    pub verdict: Verdict,
    /// What was judged.
    pub snapshot: &'a Snapshot,
    /// What was remembered.
    pub memory: &'a Memory,
}

/// The whole state of one judgement, for `status`, `snapshot` and the metrics.
#[derive(Debug, Clone)]
pub struct Latest {
    /// What was judged.
    pub snapshot: Snapshot,
    /// What was remembered after it.
    pub memory: Memory,
    /// When.
    pub now: Now,
}
