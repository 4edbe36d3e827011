//! Requests and responses, one JSON object per line.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest line in either direction that is a request, in bytes. Responses may be longer.
pub(super) const MAX_REQUEST: u64 = 64 * 1024;

/// What the command line asks for. Unknown fields are ignored: a newer command line may talk to an older daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// The status document.
    Status,
    /// Take the node out.
    Drain {
        /// Ends by itself after so many milliseconds; none = until `undrain`.
        #[serde(default)]
        for_ms: Option<u64>,
        /// Why, as given by the operator, raw text.
        #[serde(default)]
        reason: String,
    },
    /// End a drain.
    Undrain,
    /// A snapshot file.
    Snapshot,
    /// Is the agent alive? ([`Readiness`])
    Live,
    /// Is the agent itself ready? ([`Readiness`])
    Ready,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// Done; the value depends on the request.
    Ok(Value),
    /// Not done, one sentence why.
    Error(String),
}

impl Response {
    /// Done, with this value.
    #[must_use]
    pub fn of(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self::Ok(value),
            Err(error) => Self::Error(format!("the answer can't be written: {error}")),
        }
    }
}

/// Answer to `live` and `ready`, on the socket and on the admin port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Readiness {
    /// What is pending or broken, one sentence each; empty = fine.
    pub pending: Vec<String>,
}

impl Readiness {
    /// Nothing is pending.
    #[must_use]
    pub const fn is_fine(&self) -> bool {
        self.pending.is_empty()
    }
}
