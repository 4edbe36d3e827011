//! Who is at the other end of a connection of this host: exact lookups of existing connections. For the prober; needs no
//! privilege, and its own socket keeps it apart from the observer's.

use std::net::SocketAddr;
use std::time::Duration;

use gwready_core::decode::inet_diag_request::{SOCK_DIAG_BY_FAMILY, STATES_CONNECTED, encode_dump};
use gwready_core::decode::inet_diag_row::{Row, RowError, TcpState, decode_row};
use gwready_core::facts::probes::Acceptor;
use gwready_core::facts::sockets::Listener;
use gwready_core::net::Family;

use super::lookup;
use crate::observe::netlink::{Exchange, NetlinkError, Protocol};

/// A connection to an address of this host arrives on the loopback device, whatever the address; its index is always 1.
const LOOPBACK_IF: u32 = 1;
const DEADLINE: Duration = Duration::from_millis(500);

/// Looks up existing connections in the network namespace of the thread that uses it. Blocking: microseconds for
/// [`TupleLookup::read_accepted_end`], a walk over all connections of the host for [`TupleLookup::read_destination`].
pub struct TupleLookup {
    exchange: Exchange,
}

impl Default for TupleLookup {
    fn default() -> Self {
        Self::new()
    }
}

impl TupleLookup {
    /// A lookup; nothing is opened yet.
    #[must_use]
    pub fn new() -> Self {
        Self { exchange: Exchange::new(Protocol::SockDiag, DEADLINE) }
    }

    /// The accepted end of the connection that a socket of this host with local address `client` made to `server`: its inode
    /// (0 = not accepted yet), mark (absent without `CAP_NET_ADMIN`), uid, cookie, state. None: no such socket here.
    ///
    /// # Errors
    /// Any [`NetlinkError`].
    pub fn read_accepted_end(&mut self, client: SocketAddr, server: SocketAddr) -> Result<Option<Row>, NetlinkError> {
        let row = lookup::read_row(&mut self.exchange, server, client, LOOPBACK_IF)?;
        // Without a connection of this tuple the kernel answers with the listener.
        Ok(row.filter(|row| row.state != TcpState::Listen))
    }

    /// The listener that the kernel would give the SYN of a connection from `client`, an address of this host that is not
    /// connected yet, to `server`. None: it would answer RST, or the connection exists.
    ///
    /// # Errors
    /// Any [`NetlinkError`].
    pub fn read_listener(&mut self, client: SocketAddr, server: SocketAddr) -> Result<Option<Listener>, NetlinkError> {
        Ok(lookup::read_row(&mut self.exchange, server, client, LOOPBACK_IF)?.and_then(Row::into_listener))
    }

    /// Where the kernel says the socket with this cookie (`SO_COOKIE`) and local address is connected to. Differs from what
    /// its owner asked for when a socket load balancer translated the connect. None: no such connected socket.
    ///
    /// # Errors
    /// Any [`NetlinkError`].
    pub fn read_destination(&mut self, local: SocketAddr, cookie: u64) -> Result<Option<SocketAddr>, NetlinkError> {
        let family = if local.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
        let Some(request) = encode_dump(family, STATES_CONNECTED, &[local.port()]) else {
            return Ok(None);
        };
        let found = self.exchange.dump(SOCK_DIAG_BY_FAMILY, &request, |_, body| -> Result<_, RowError> {
            decode_row(body).map(|row| (row.id.cookie == cookie).then_some(row.remote))
        })?;
        Ok(found.items.first().map(|remote| SocketAddr::new(remote.ip().to_canonical(), remote.port())))
    }

    /// The same as the fact of a probe: `client` and `cookie` are of the probe's socket, `server` is what it asked for. To be
    /// called while the connection is open.
    pub fn read_acceptor(&mut self, client: SocketAddr, server: SocketAddr, cookie: u64) -> Acceptor {
        match self.read_accepted_end(client, server) {
            Ok(Some(Row { state: TcpState::TimeWait | TcpState::Other(_), .. })) | Err(_) => Acceptor::Unknown,
            Ok(Some(row)) => Acceptor::Local { inode: row.id.inode, mark: row.mark, listener: None },
            Ok(None) => match self.read_destination(client, cookie) {
                Ok(Some(peer)) if peer == server => Acceptor::Elsewhere,
                Ok(Some(peer)) => self.read_translated(client, peer),
                Ok(None) | Err(_) => Acceptor::Unknown,
            },
        }
    }

    /// The acceptor of a connection that really went to `to`.
    fn read_translated(&mut self, client: SocketAddr, to: SocketAddr) -> Acceptor {
        let row = self.read_accepted_end(client, to).ok().flatten();
        let (inode, mark) = row.map_or((None, None), |row| (Some(row.id.inode), row.mark));
        Acceptor::Translated { to: Some((to.ip(), to.port())), inode, mark }
    }
}
