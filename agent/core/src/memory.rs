//! What the judge remembers from one judgement to the next. Plain data: it is written to snapshot files and to `state_dir`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::condition::{ConditionType, Status};
use crate::net::{Endpoint, Family, Front};
use crate::plan::ReadPlan;
use crate::reason::Reason;
use crate::time::{Mono, Now};
use crate::verdict::{Outcome, State};

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// Which statement.
    pub kind: ConditionType,
    /// Where; none = the node.
    pub endpoint: Option<Endpoint>,
}

/// The last known status of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Known {
    /// Last status that was True or False; none = never known.
    pub status: Option<Status>,
    /// Reason of that status.
    pub reason: Option<Reason>,
    /// Since when the subject has been Unknown without a break.
    pub unknown_since: Option<Mono>,
}

/// The recovery rule's state of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// The outcome as last published; none before the first one after `Starting`.
    pub last: Option<Outcome>,
    /// Everything required holds since then, but the wait is not over.
    pub good_since: Option<Mono>,
    /// When recoveries were completed, within the last five minutes: each doubles the next wait.
    pub recovered_at: Vec<Mono>,
}

/// A condition as last published, to tell since when it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Status.
    pub status: Status,
    /// Reason.
    pub reason: Option<Reason>,
    /// Since when both are unchanged.
    pub since: Mono,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The start rule has been met.
    pub started: bool,
    /// The agent was restarted less than 60 s after a verdict that was down: leaving `Starting` waits for `min_up`.
    pub was_down: bool,
    /// Since when the start waits for nothing but the search for the listeners' holders.
    pub all_tried_at: Option<Mono>,
    /// End of the last good read of the socket source.
    pub sockets_read_at: Option<Mono>,
    /// The last plan.
    pub plan: ReadPlan,
    /// Ports learnt from Envoy's gateway listeners, with when each was last named.
    #[serde(with = "pairs")]
    pub ports_seen: BTreeMap<u16, Mono>,
    /// Families of which a gateway listener has been seen.
    pub families_seen: BTreeSet<Family>,
    /// Cookies of the sockets that were proven Envoy's, per endpoint.
    #[serde(with = "pairs")]
    pub proven: BTreeMap<Endpoint, BTreeSet<u64>>,
    /// Last known status of every subject.
    #[serde(with = "pairs")]
    pub known: BTreeMap<Subject, Known>,
    /// Recovery state of every endpoint that has been judged.
    #[serde(with = "pairs")]
    pub recovery: BTreeMap<Endpoint, Recovery>,
    /// Every published condition.
    #[serde(with = "pairs")]
    pub standing: BTreeMap<(ConditionType, Option<Front>), Standing>,
    /// History of the accept queues.
    pub queues: crate::memory_queues::QueueMemory,
    /// The node's state and since when.
    pub node: Option<(State, Now)>,
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
