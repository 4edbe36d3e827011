//! The netlink socket: open, send, receive whole datagrams. Errors keep their kind; nothing is retried here but `EINTR`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};

use super::NetlinkError;

/// Size of the receive buffer at start: the most the kernel puts in one dump datagram (`netlink_recvmsg` caps at 32 KiB)
/// unless a single message is longer; then it grows.
const BUFFER: usize = 32 * 1024;
/// `MSG_TRUNC` as a receive flag: return the full length of a datagram that was cut.
const MSG_TRUNC: i32 = 0x20;

/// Netlink family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `NETLINK_SOCK_DIAG`.
    SockDiag,
    /// `NETLINK_ROUTE`.
    Route,
    /// `NETLINK_NETFILTER`.
    Netfilter,
}

impl Protocol {
    const fn number(self) -> isize {
        match self {
            Self::SockDiag => netlink_sys::protocols::NETLINK_SOCK_DIAG,
            Self::Route => netlink_sys::protocols::NETLINK_ROUTE,
            Self::Netfilter => netlink_sys::protocols::NETLINK_NETFILTER,
        }
    }
}

/// Receives one datagram from the kernel into `buffer`.
fn receive(socket: &Socket, buffer: &mut [u8], deadline: Duration) -> Result<usize, NetlinkError> {
    loop {
        let room = buffer.len();
        match socket.recv_from(&mut &mut buffer[..], MSG_TRUNC) {
            // Only the kernel has port number 0; what another process sends here is not an answer.
            Ok((_, sender)) if sender.port_number() != 0 => {}
            Ok((length, _)) if length > room => return Err(NetlinkError::Truncated { length, buffer: room }),
            Ok((length, _)) => return Ok(length),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN) => return Err(NetlinkError::Deadline(deadline)),
                Some(Errno::NOBUFS) => return Err(NetlinkError::Overrun),
                _ => return Err(NetlinkError::Receive(error)),
            },
        }
    }
}

/// A socket for requests and answers, blocking with a deadline per receive.
pub(super) struct RequestSocket {
    socket: Socket,
    deadline: Duration,
}

impl RequestSocket {
    pub(super) fn open(protocol: Protocol, deadline: Duration) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(protocol.number()).map_err(NetlinkError::Open)?;
        socket.bind_auto().map_err(NetlinkError::Open)?;
        // Refusals then carry the header of the request only, not all of it.
        socket.set_cap_ack(true).map_err(NetlinkError::Open)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(deadline)).map_err(|errno| NetlinkError::Open(errno.into()))?;
        Ok(Self { socket, deadline })
    }

    pub(super) fn send(&self, datagram: &[u8]) -> Result<(), NetlinkError> {
        loop {
            match self.socket.send_to(datagram, &SocketAddr::new(0, 0), 0) {
                Ok(sent) if sent == datagram.len() => return Ok(()),
                Ok(sent) => return Err(NetlinkError::Send(io::Error::other(format!("{sent} of {} bytes sent", datagram.len())))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(NetlinkError::Send(error)),
            }
        }
    }

    pub(super) fn receive<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], NetlinkError> {
        let length = receive(&self.socket, buffer, self.deadline)?;
        Ok(buffer.get(..length).unwrap_or_default())
    }
}

/// A buffer of the size that dumps need.
pub(super) fn new_buffer() -> Vec<u8> {
    vec![0; BUFFER]
}

/// A non-blocking socket that hears multicast groups. Poll its descriptor, then [`Subscription::read_next`] until nothing waits.
pub struct Subscription {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Subscription {
    /// Joins `groups` (`RTNLGRP_*` and the like, numbers not masks).
    ///
    /// # Errors
    /// [`NetlinkError::Open`] when the socket or a group is refused.
    pub fn open(protocol: Protocol, groups: &[u32]) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(protocol.number()).map_err(NetlinkError::Open)?;
        socket.bind_auto().map_err(NetlinkError::Open)?;
        socket.set_non_blocking(true).map_err(NetlinkError::Open)?;
        for group in groups {
            socket.add_membership(*group).map_err(NetlinkError::Open)?;
        }
        Ok(Self { socket, buffer: new_buffer() })
    }

    /// Keeps the receive buffer as small as the kernel allows: for who needs to know that something changed, not what. A flood of
    /// notifications is then one lost datagram instead of thousands that must be taken.
    ///
    /// # Errors
    /// [`NetlinkError::Open`] when the option is refused.
    pub fn with_least_buffer(self) -> Result<Self, NetlinkError> {
        // The kernel raises it to SOCK_MIN_RCVBUF; the first datagram is queued whatever its size (netlink_broadcast_deliver).
        set_socket_recv_buffer_size(&self.socket, 1).map_err(|errno| NetlinkError::Open(errno.into()))?;
        Ok(self)
    }

    /// Takes the next datagram, if one waits, and hands type and body of its messages to `each`. False: nothing waits.
    ///
    /// # Errors
    /// [`NetlinkError::Overrun`] or [`NetlinkError::Truncated`] when notifications were lost: read everything again.
    pub fn read_next(&mut self, mut each: impl FnMut(u16, &[u8])) -> Result<bool, NetlinkError> {
        let length = match receive(&self.socket, &mut self.buffer, Duration::ZERO) {
            Ok(length) => length,
            Err(NetlinkError::Deadline(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        for frame in super::frame::Frames(self.buffer.get(..length).unwrap_or_default()) {
            let frame = frame?;
            each(frame.kind, frame.body);
        }
        Ok(true)
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
