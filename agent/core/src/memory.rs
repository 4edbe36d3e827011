//! What the judge remembers from one judgement to the next. Plain data: it is written to snapshot files and to `state_dir`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::condition::{ConditionType, Status};
use crate::net::Endpoint;
use crate::reason::Reason;
use crate::time::Mono;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// Which statement.
    pub kind: ConditionType,
    /// Where; none = the node.
    pub endpoint: Option<Endpoint>,
}

/// The last known status of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Last status that was True or False; none = never known.
    pub status: Option<Status>,
    /// Reason of that status.
    pub reason: Option<Reason>,
    /// Since when the subject has been Unknown without a break.
    pub unknown_since: Option<Mono>,
}

/// The recovery rule's state of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Everything holds since then, but `min_up` is not over.
    pub good_since: Option<Mono>,
    /// Recoveries within the last five minutes: each doubles the wait.
    pub recovered_at: Vec<Mono>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Last known status of every subject.
    #[serde(with = "pairs")]
    pub known: BTreeMap<Subject, Known>,
    /// Recovery state of every endpoint that is or was not up.
    #[serde(with = "pairs")]
    pub recovery: BTreeMap<Endpoint, Recovery>,
    /// History of the accept queues.
    pub queues: crate::memory_queues::QueueMemory,
}

/// JSON objects need string keys; maps with structured keys are written as lists of pairs.
pub mod pairs {
    use std::collections::BTreeMap;

    use serde::de::DeserializeOwned;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a map as a list of `[key, value]`.
    ///
    /// # Errors
    /// As the serializer's.
    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    /// Reads a list of `[key, value]`.
    ///
    /// # Errors
    /// As the deserializer's.
    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: DeserializeOwned + Ord,
        V: DeserializeOwned,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
