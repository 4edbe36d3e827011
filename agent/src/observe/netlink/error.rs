//! How a netlink exchange fails, and which [`Why`] that is for the snapshot.

use std::io;
use std::time::Duration;

use gwready_core::facts::{Unavailable, Why};
use gwready_core::time::Window;
use rustix::io::Errno;

use crate::observe::failure::sentence;

/// A failed exchange. Nothing of its answer was used.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket could not be made.
    #[error("cannot open a netlink socket")]
    Open(#[source] io::Error),
    /// The request could not be sent.
    #[error("cannot send a netlink request")]
    Send(#[source] io::Error),
    /// The answer could not be received.
    #[error("cannot receive a netlink answer")]
    Receive(#[source] io::Error),
    /// The kernel refused the request (`NLMSG_ERROR`, or an error in `NLMSG_DONE`).
    #[error("the kernel refused the netlink request: {0}")]
    Refused(Errno),
    /// The answer was not complete in time.
    #[error("no complete netlink answer within {0:?}")]
    Deadline(Duration),
    /// The table changed during every try.
    #[error("the table changed while it was read, {0} times in a row")]
    Interrupted(u32),
    /// The kernel dropped messages because the receive buffer was full (`ENOBUFS`).
    #[error("netlink messages were lost: the receive buffer was full")]
    Overrun,
    /// A message was longer than the buffer and was cut.
    #[error("a netlink message of {length} bytes was cut to {buffer}")]
    Truncated {
        /// Its full length.
        length: usize,
        /// What fitted.
        buffer: usize,
    },
    /// The bytes are no netlink messages, or not an answer to what was asked.
    #[error("malformed netlink answer: {0}")]
    Malformed(String),
    /// A message could not be decoded by the caller's decoder.
    #[error("netlink message not understood: {0}")]
    Decode(String),
}

impl NetlinkError {
    /// The kind of failure, for the snapshot and the metric label.
    #[must_use]
    pub fn why(&self) -> Why {
        match self {
            Self::Open(error) | Self::Send(error) | Self::Receive(error) => Errno::from_io_error(error).map_or(Why::Failed, why_of_errno),
            Self::Refused(errno) => why_of_errno(*errno),
            Self::Deadline(_) => Why::Deadline,
            Self::Interrupted(_) | Self::Overrun => Why::Interrupted,
            Self::Malformed(_) | Self::Decode(_) => Why::Layout,
            Self::Truncated { .. } => Why::Failed,
        }
    }

    /// The failed reading of a source, with the whole chain of causes as its sentence.
    #[must_use]
    pub fn unavailable(&self, window: Window) -> Unavailable {
        Unavailable { why: self.why(), detail: sentence(self), window }
    }

    /// A new try may succeed: the answer was disturbed, not refused.
    pub(super) const fn is_disturbed(&self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::Overrun | Self::Truncated { .. })
    }
}

fn why_of_errno(errno: Errno) -> Why {
    match errno {
        Errno::PERM | Errno::ACCESS => Why::Permission,
        Errno::NOENT | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => Why::Absent,
        Errno::INTR => Why::Interrupted,
        _ => Why::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_why() {
        let os = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let cases = [
            (NetlinkError::Open(os(Errno::PERM)), Why::Permission),
            (NetlinkError::Open(os(Errno::PROTONOSUPPORT)), Why::Absent),
            (NetlinkError::Send(os(Errno::IO)), Why::Failed),
            (NetlinkError::Refused(Errno::NOENT), Why::Absent),
            (NetlinkError::Refused(Errno::INVAL), Why::Failed),
            (NetlinkError::Deadline(Duration::from_secs(1)), Why::Deadline),
            (NetlinkError::Interrupted(3), Why::Interrupted),
            (NetlinkError::Overrun, Why::Interrupted),
            (NetlinkError::Malformed(String::new()), Why::Layout),
            (NetlinkError::Decode(String::new()), Why::Layout),
        ];
        for (error, why) in cases {
            assert_eq!(error.why(), why, "{error}");
        }
    }

    #[test]
    fn the_sentence_names_the_cause() {
        let error = NetlinkError::Open(io::Error::other("no sockets left"));
        let unavailable = error.unavailable(Window::default());
        assert_eq!(unavailable.detail, "cannot open a netlink socket: no sockets left");
    }
}
