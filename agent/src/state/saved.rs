//! The content of the state file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gwready_core::facts::DrainRequest;
use gwready_core::memory::Memory;
use gwready_core::net::Family;
use gwready_core::reason::Reason;
use gwready_core::render::transition::Transition;
use gwready_core::time::{Mono, Now};
use gwready_core::verdict::{State, Verdict};
use serde::{Deserialize, Serialize};

/// So many transitions are kept.
pub const HISTORY: usize = 64;
/// A down that is younger makes the new agent wait for `min_up` before its first up (the start rule).
const REMEMBERED_DOWN: Duration = Duration::from_secs(60);
/// The version this agent writes; a file of a newer one is not read.
pub(super) const VERSION: u32 = 1;

/// The last published verdict of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastVerdict {
    /// State of the node.
    pub state: State,
    /// Why it was not up.
    pub reason: Option<Reason>,
    /// When the node entered that state.
    pub since: Now,
    /// When it was last published, milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
}

/// Everything that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// Version of this layout.
    pub version: u32,
    /// The drain in force.
    pub drain: Option<DrainRequest>,
    /// The last verdict.
    pub last: Option<LastVerdict>,
    /// Ports learnt from Envoy's gateway listeners, with when each was last named.
    pub ports_seen: BTreeMap<u16, Mono>,
    /// Families seen served before.
    pub families_seen: BTreeSet<Family>,
    /// At most [`HISTORY`], newest last.
    pub transitions: Vec<Transition>,
}

impl Default for Saved {
    fn default() -> Self {
        Self {
            version: VERSION,
            drain: None,
            last: None,
            ports_seen: BTreeMap::new(),
            families_seen: BTreeSet::new(),
            transitions: Vec::new(),
        }
    }
}

impl Saved {
    /// Adds a transition; the oldest goes when there are more than [`HISTORY`].
    pub fn push(&mut self, transition: Transition) {
        self.transitions.push(transition);
        let surplus = self.transitions.len().saturating_sub(HISTORY);
        self.transitions.drain(..surplus);
    }

    /// Notes the verdict as published, and what was learnt on the way.
    pub fn note(&mut self, verdict: &Verdict, memory: &Memory) {
        self.ports_seen.clone_from(&memory.ports_seen);
        self.families_seen.clone_from(&memory.families_seen);
        self.last = Some(LastVerdict {
            state: verdict.node.state,
            reason: verdict.node.reason,
            since: verdict.node_since,
            at_unix_ms: verdict.judged_at.unix_ms,
        });
    }

    /// The memory that a new agent begins with.
    #[must_use]
    pub fn recall(&self, now_unix_ms: u64) -> Memory {
        Memory {
            was_down: self.was_down_within(REMEMBERED_DOWN, now_unix_ms),
            ports_seen: self.ports_seen.clone(),
            families_seen: self.families_seen.clone(),
            node: self.last.as_ref().map(|last| (last.state, last.since)),
            ..Memory::default()
        }
    }

    /// True if the last verdict is younger than `age` and was down (the start rule: `min_up` then applies to leaving Starting).
    /// A verdict from the future, after the clock was set back, counts as young.
    #[must_use]
    pub fn was_down_within(&self, age: Duration, now_unix_ms: u64) -> bool {
        let limit = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        self.last.as_ref().is_some_and(|last| last.state == State::Down && now_unix_ms.saturating_sub(last.at_unix_ms) < limit)
    }

    /// The drain, unless its time is over.
    #[must_use]
    pub fn drain_in_force(&self, now_unix_ms: u64) -> Option<&DrainRequest> {
        self.drain.as_ref().filter(|drain| drain.until_unix_ms.is_none_or(|until| now_unix_ms < until))
    }
}
