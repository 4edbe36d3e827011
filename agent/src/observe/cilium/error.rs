//! How reading a pinned map fails, and which [`Why`] that is for the snapshot.

use std::io;

use aya::maps::MapError;
use gwready_core::facts::{Unavailable, Why};
use gwready_core::time::Window;

/// A map that could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is no bpffs where Cilium's should be.
    #[error("no bpffs at {0}")]
    NoBpffs(String),
    /// The pin does not exist.
    #[error("no pin {0}")]
    Absent(String),
    /// Type, key or value size are not those of a version that is known.
    #[error("{pin} has another layout: {found}")]
    Layout {
        /// Name of the pin.
        pin: &'static str,
        /// What was found, against what was expected.
        found: String,
    },
    /// The pin or the map could not be opened.
    #[error("cannot open {pin}: {source}")]
    Open {
        /// Name of the pin.
        pin: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// A row could not be read.
    #[error("cannot read {pin}: {source}")]
    Read {
        /// Name of the pin.
        pin: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

impl PinError {
    /// The kind of failure, for the snapshot and the metric label.
    #[must_use]
    pub fn why(&self) -> Why {
        match self {
            Self::NoBpffs(_) | Self::Absent(_) => Why::Absent,
            Self::Layout { .. } => Why::Layout,
            Self::Open { source, .. } | Self::Read { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => Why::Permission,
                io::ErrorKind::NotFound => Why::Absent,
                _ => Why::Failed,
            },
        }
    }

    /// The failed reading of a source.
    #[must_use]
    pub fn unavailable(&self, window: Window) -> Unavailable {
        Unavailable { why: self.why(), detail: self.to_string(), window }
    }
}

/// The system's error inside aya's.
pub(super) fn io_error(error: MapError) -> io::Error {
    match error {
        MapError::SyscallError(error) => error.io_error,
        MapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
