//! What is remembered of accept queues and of their owners' state: whether a queue has moved, since when it stands still.
//!
//! The kernel shows lengths only. What they prove (net/ipv4/inet_connection_sock.c): a connection leaves the accept queue by
//! `accept` alone (a client's reset leaves it there), so *a length that went down, or 0, proves an accept*, and a socket that
//! accepts nothing never goes down. The reverse is not proof: a busy queue can be read at the same length twice. So a queue
//! counts as standing still only after a run of readings, [`SPACING`] apart, without one step down at these or any other
//! reading, besides the time that the judge asks for. A reading that is not full counts [`WEIGHT`] times as much as a full one,
//! and [`MIN_SCORE`] is asked for: eight independent lengths are in ascending order once in 8! runs. A queue that more clients
//! than Envoy can take keep at its limit reads the same whether it moves or not, except in the gap that each accept leaves
//! until the next client fills it; so it takes four times as many readings, and close samples ([`crate::facts::queues`]), every
//! few milliseconds, of which one in some hundred must fall into such a gap.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Mono;

/// What a reading counts for whose queue is not full.
pub const WEIGHT: u32 = 4;
/// Sum of the readings without a step down before a queue may count as standing still: 8 readings, or 32 full ones.
pub const MIN_SCORE: u32 = 8 * WEIGHT;
/// Readings closer than this after the last counted one can show a step down, but do not count as another one without.
pub const SPACING: Duration = Duration::from_millis(100);

/// The history of one listening socket, by cookie.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueTrack {
    /// Length at the last reading.
    pub length: u32,
    /// Limit at the last reading.
    pub limit: u32,
    /// Overflows at the last reading.
    pub drops: Option<u32>,
    /// First of the readings in a row that were not empty and never went down; none = it moved, or is empty.
    pub still_since: Option<Mono>,
    /// What these readings, [`SPACING`] apart, sum up to.
    pub still_score: u32,
    /// How many they are.
    pub still_readings: u32,
    /// The last one that was counted.
    pub counted_at: Option<Mono>,
    /// When an accept was last proven: the length had gone down.
    pub moved_at: Option<Mono>,
    /// When it was last seen full, or had overflowed since the reading before.
    pub full_at: Option<Mono>,
    /// One worker of several was found stuck here; ends when the queue is seen empty.
    pub worker_stuck: bool,
}

/// The history of one process, by pid and start time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnerTrack {
    /// In state D at every reading since then.
    pub uninterruptible_since: Option<Mono>,
    /// No descriptor was free at every reading since then.
    pub exhausted_since: Option<Mono>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueMemory {
    /// End of the last reading of the socket source that was taken in.
    pub read_at: Option<Mono>,
    /// End of the last reading of the owner source that was taken in.
    pub owners_read_at: Option<Mono>,
    /// Time of the last close sample that was taken in.
    pub sampled_at: Option<Mono>,
    /// By socket cookie.
    pub sockets: BTreeMap<u64, QueueTrack>,
    /// By pid and start time.
    #[serde(with = "crate::memory::pairs")]
    pub owners: BTreeMap<(u32, u64), OwnerTrack>,
}

impl QueueMemory {
    /// Sockets that deserve close samples: not empty, and not seen to move at two readings in a row.
    pub fn suspects(&self) -> impl Iterator<Item = u64> + '_ {
        self.sockets.iter().filter(|(_, track)| track.still_readings >= 2 || track.worker_stuck).map(|(cookie, _)| *cookie)
    }
}
