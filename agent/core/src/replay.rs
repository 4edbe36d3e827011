//! Snapshot files: everything one judgement depended on, so that it replays on another machine.

use serde::{Deserialize, Serialize};

use crate::facts::Snapshot;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::time::Now;

/// The version this agent writes. Older ones stay readable: a field that came later has a default.
pub const VERSION: u32 = 1;

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    /// Version of this layout.
    pub version: u32,
    /// Version of the agent that wrote it.
    #[serde(default)]
    pub agent: String,
    /// Name of the node.
    #[serde(default)]
    pub node: String,
    /// Effective policy.
    pub policy: Policy,
    /// The whole effective configuration, for a person; the judge takes `policy`.
    #[serde(default)]
    pub config: serde_json::Value,
    /// Memory as it was before the judgement.
    #[serde(default)]
    pub memory: Memory,
    /// What was observed.
    pub snapshot: Snapshot,
    /// When it was judged.
    pub now: Now,
}

/// Why a text is no snapshot file.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Not JSON, or of another shape.
    #[error("not a snapshot file: {0}")]
    Shape(#[from] serde_json::Error),
    /// Nothing in it.
    #[error("not a snapshot file: it is empty")]
    Empty,
    /// Written by a newer agent.
    #[error("snapshot file version {0} is newer than this gwready knows ({VERSION}); use a newer one")]
    Newer(u64),
}

/// Reads the text of a snapshot file of this or an older version.
///
/// # Errors
/// A newer version, or text that is not a snapshot file.
pub fn parse_snapshot_file(text: &str) -> Result<SnapshotFile, ReplayError> {
    if text.trim().is_empty() {
        return Err(ReplayError::Empty);
    }
    let tree: serde_json::Value = serde_json::from_str(text)?;
    match tree.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version > u64::from(VERSION) => Err(ReplayError::Newer(version)),
        _ => Ok(serde_json::from_value(tree)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::snapshot_file;

    fn file() -> SnapshotFile {
        snapshot_file(Snapshot::default(), Now::default())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = serde_json::to_string(&file()).expect("json");
        assert_eq!(parse_snapshot_file(&text).expect("readable"), file());
    }

    #[test]
    fn a_newer_version_and_other_text_say_so() {
        let text = serde_json::to_string(&SnapshotFile { version: 99, ..file() }).expect("json");
        assert!(parse_snapshot_file(&text).expect_err("newer").to_string().contains("version 99 is newer"));
        for text in ["", "{}", "[1]", "{\"version\": 1}"] {
            assert!(parse_snapshot_file(text).expect_err(text).to_string().starts_with("not a snapshot file"));
        }
    }
}
