//! Close samples of accept queues that look as if they stood still. Source: the same exact lookups as
//! [`crate::facts::sockets`], repeated every few milliseconds, evenly over time; taken only while a queue is suspected.

use serde::{Deserialize, Serialize};

use crate::time::Mono;

/// The length of one queue at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Cookie of the listening socket.
    pub cookie: u64,
    /// Connections waiting to be accepted.
    pub length: u32,
    /// When.
    pub at: Mono,
}

/// Samples of one pass, in the order of time. Empty where nothing was suspected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueueSamples(pub Vec<QueueSample>);
