//! Why Envoy's admin interface could not be read, and what that means as a fact.

use std::io;

use gwready_core::decode::envoy_admin::AdminError;
use gwready_core::decode::http_reply::ReplyError;
use gwready_core::facts::Why;

use crate::observe::failure::sentence;

/// A failed read of the admin interface.
#[derive(Debug, thiserror::Error)]
pub enum AdminReadError {
    /// Connecting, writing or reading failed.
    #[error("{doing}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// No whole answer before the deadline.
    #[error("no answer to GET {path} in time")]
    Deadline {
        /// What was asked.
        path: String,
    },
    /// Not an HTTP reply, or cut short.
    #[error("bad reply to GET {path}")]
    Reply {
        /// What was asked.
        path: String,
        /// What is wrong with it.
        #[source]
        source: ReplyError,
    },
    /// A reply other than 200.
    #[error("status {status} to GET {path}")]
    Status {
        /// What was asked.
        path: String,
        /// What came.
        status: u16,
    },
    /// Larger than any admin reply that makes sense.
    #[error("the reply to GET {path} is too large")]
    TooLarge {
        /// What was asked.
        path: String,
    },
    /// A reply that this agent does not understand.
    #[error(transparent)]
    Content(#[from] AdminError),
}

impl AdminReadError {
    /// The kind of failure, for facts and metrics.
    #[must_use]
    pub fn why(&self) -> Why {
        match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => Why::Permission,
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Why::Absent,
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Why::Deadline,
                _ => Why::Failed,
            },
            Self::Deadline { .. } => Why::Deadline,
            Self::Reply { .. } | Self::Status { .. } | Self::TooLarge { .. } => Why::Failed,
            Self::Content(_) => Why::Layout,
        }
    }

    /// The whole chain in one sentence.
    #[must_use]
    pub fn detail(&self) -> String {
        sentence(self)
    }
}
