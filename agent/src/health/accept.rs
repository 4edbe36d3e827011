//! Accepting: one listening socket, and what to do when the kernel has no more descriptors to give.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

/// What a listening socket serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// HTTP, as in `parse` and `respond`.
    Health,
    /// HAProxy agent-check: one line, unasked.
    AgentCheck,
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) kind: Kind,
    pub(super) socket: OwnedFd,
}

/// The outcome of one accept.
#[derive(Debug)]
pub(super) enum Accepted {
    /// A connection with its peer.
    Connection(OwnedFd, Option<SocketAddr>),
    /// The queue is empty.
    None,
    /// The connection died in the queue, or a signal came: try the next.
    Again,
    /// No descriptors or memory. The connection stays queued and the socket readable, so trying again at once would spin.
    Exhausted,
}

impl Listener {
    pub(super) fn accept(&self) -> Accepted {
        match acceptfrom_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((socket, peer)) => Accepted::Connection(socket, peer.and_then(|peer| SocketAddr::try_from(peer).ok())),
            Err(Errno::AGAIN) => Accepted::None,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Accepted::Exhausted,
            // accept(2): errors of the connection, not of the socket, are to be treated like EAGAIN by retrying.
            Err(_) => Accepted::Again,
        }
    }
}

/// A peer's address as a client on the wire speaks it.
pub(super) fn peer_ip(peer: Option<SocketAddr>) -> Option<IpAddr> {
    peer.map(|peer| peer.ip().to_canonical())
}
