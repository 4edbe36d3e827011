//! The probe's own connection: bound before it connects, so that the kernel can be asked about exactly this client.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use gwready_core::facts::probes::Acceptor;
use gwready_core::net::Endpoint;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout_at};

use super::acceptor::{AcceptedEnd, AcceptorReader};

/// Longest pause between two looks at whether the connection has been accepted.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum NotConnected {
    /// RST.
    Refused,
    /// Reset during the handshake.
    Reset,
    /// No handshake before the deadline.
    Timeout,
    /// A local error: nothing was asked.
    Local(String),
}

/// A socket that is about to connect.
pub(super) struct Client {
    socket: TcpSocket,
    /// Local address and port.
    local: SocketAddr,
    /// `SO_COOKIE`.
    cookie: u64,
    server: SocketAddr,
    /// Inode of the listener that the kernel picks for this client.
    listener: Option<u64>,
}

/// An open connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    local: SocketAddr,
    server: SocketAddr,
    cookie: u64,
    listener: Option<u64>,
}

impl Client {
    /// Binds a socket on the probed address itself: that is where a local client of it comes from.
    pub(super) fn bind(endpoint: Endpoint, acceptors: &AcceptorReader) -> io::Result<Self> {
        let server = SocketAddr::new(endpoint.address, endpoint.port);
        let socket = if server.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind(SocketAddr::new(endpoint.address, 0))?;
        let local = socket.local_addr()?;
        let cookie = rustix::net::sockopt::socket_cookie(&socket)?;
        let listener = acceptors.read_listener(local, server);
        Ok(Self { socket, local, cookie, server, listener })
    }

    /// Inode of the listener that the kernel picks for this client, as the acceptor of a probe that never got through.
    pub(super) const fn not_accepted(&self) -> Acceptor {
        Acceptor::Local { inode: 0, mark: None, listener: self.listener }
    }

    pub(super) async fn connect(self, deadline: Instant) -> Result<Connection, NotConnected> {
        let Self { socket, local, cookie, server, listener } = self;
        let stream = match timeout_at(deadline, socket.connect(server)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(why(&error)),
            Err(_) => return Err(NotConnected::Timeout),
        };
        Ok(Connection { stream, local, server, cookie, listener })
    }
}

fn why(error: &io::Error) -> NotConnected {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => NotConnected::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => NotConnected::Reset,
        io::ErrorKind::TimedOut => NotConnected::Timeout,
        _ => NotConnected::Local(format!("connecting: {error}")),
    }
}

/// What became of a connection before anything was sent.
pub(super) struct Taken {
    pub(super) acceptor: Acceptor,
    /// A process has accepted it, or it was closed already; false = nobody did before the deadline.
    pub(super) accepted: bool,
    /// It is known to have gone somewhere where nothing may be asked.
    pub(super) elsewhere: bool,
}

impl Connection {
    /// Waits until the connection is accepted, answered or closed. Nothing has been sent yet, so a server that is alive holds it
    /// open and its accepted end can be read.
    pub(super) async fn wait_accepted(&self, acceptors: &AcceptorReader, deadline: Instant) -> Taken {
        let mut pause = Duration::from_millis(1);
        let mut translated = None;
        loop {
            let not_yet = match acceptors.read_accepted_end(self.local, translated.unwrap_or(self.server)) {
                AcceptedEnd::Here { inode, mark } => {
                    let acceptor = self.acceptor(translated, inode, mark);
                    if inode != 0 {
                        return Taken { acceptor, accepted: true, elsewhere: false };
                    }
                    acceptor
                }
                AcceptedEnd::Unreadable => return Taken { acceptor: Acceptor::Unknown, accepted: true, elsewhere: false },
                AcceptedEnd::Missing if translated.is_some() => return elsewhere(translated),
                AcceptedEnd::Missing => match acceptors.read_elsewhere(self.local, self.server, self.cookie).await {
                    // Looked at again below: it is where the connection really went.
                    Acceptor::Translated { to: Some((ip, port)), .. } => {
                        translated = Some(SocketAddr::new(ip, port));
                        continue;
                    }
                    Acceptor::Translated { to: None, .. } | Acceptor::Elsewhere => return elsewhere(None),
                    Acceptor::Local { inode, mark, .. } => self.acceptor(None, inode, mark),
                    // Closed in the meantime: what is read from it says how.
                    Acceptor::Unknown => return Taken { acceptor: Acceptor::Unknown, accepted: true, elsewhere: false },
                },
            };
            tokio::select! {
                _ = self.stream.readable() => return Taken { acceptor: not_yet, accepted: true, elsewhere: false },
                () = sleep(pause) => {}
            }
            if Instant::now() >= deadline {
                return Taken { acceptor: not_yet, accepted: false, elsewhere: false };
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
    }

    fn acceptor(&self, translated: Option<SocketAddr>, inode: u64, mark: Option<u32>) -> Acceptor {
        match translated {
            None => Acceptor::Local { inode, mark, listener: self.listener },
            Some(to) => Acceptor::Translated { to: Some((to.ip(), to.port())), inode: Some(inode), mark },
        }
    }

    /// The accepted end once more, now that an answer has come. Only ever adds to what is known.
    pub(super) fn recheck(&self, acceptors: &AcceptorReader, known: Acceptor) -> Acceptor {
        let accepted = matches!(known, Acceptor::Local { inode: 1.., .. } | Acceptor::Translated { .. } | Acceptor::Elsewhere);
        match acceptors.read_accepted_end(self.local, self.server) {
            AcceptedEnd::Here { inode: inode @ 1.., mark } if !accepted => Acceptor::Local { inode, mark, listener: self.listener },
            _ => known,
        }
    }
}

fn elsewhere(translated: Option<SocketAddr>) -> Taken {
    let acceptor =
        translated.map_or(Acceptor::Elsewhere, |to| Acceptor::Translated { to: Some((to.ip(), to.port())), inode: None, mark: None });
    Taken { acceptor, accepted: true, elsewhere: true }
}
