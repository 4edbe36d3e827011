//! Who is at the other end of a probe: the kernel's own answers, before the connection and while it is open.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use gwready_core::decode::inet_diag_row::TcpState;
use gwready_core::facts::probes::Acceptor;

use crate::observe::sockets::{SocketReader, TupleLookup};

/// A connection to an address of this host arrives on the loopback device, whatever the address; its index is always 1.
const LOOPBACK_IF: u32 = 1;

/// Asks the kernel. Cheap to clone; needs no capability. Its sockets are opened by the first question, in the network
/// namespace of the thread that asks.
#[derive(Clone, Default)]
pub struct AcceptorReader {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    tuples: TupleLookup,
    listeners: SocketReader,
}

impl std::fmt::Debug for AcceptorReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AcceptorReader")
    }
}

/// What is known of the accepted end at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceptedEnd {
    /// In this namespace; inode 0 = not accepted yet.
    Here { inode: u64, mark: Option<u32> },
    /// No such connection in this namespace.
    Missing,
    /// The kernel did not say.
    Unreadable,
}

impl AcceptorReader {
    fn with<T>(&self, ask: impl FnOnce(&mut Inner) -> T) -> T {
        // A panic elsewhere leaves nothing half done here: the next exchange begins anew.
        ask(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Inode of the listener that the kernel would give a SYN from `client` to `server`: microseconds.
    pub(super) fn read_listener(&self, client: SocketAddr, server: SocketAddr) -> Option<u64> {
        let found = self.with(|inner| inner.listeners.read_listener_for(server, client, LOOPBACK_IF));
        found.ok().flatten().map(|listener| listener.id.inode).filter(|inode| *inode != 0)
    }

    /// The accepted end of an open connection: microseconds.
    pub(super) fn read_accepted_end(&self, client: SocketAddr, server: SocketAddr) -> AcceptedEnd {
        match self.with(|inner| inner.tuples.read_accepted_end(client, server)) {
            Ok(Some(row)) if matches!(row.state, TcpState::TimeWait | TcpState::Other(_)) => AcceptedEnd::Missing,
            Ok(Some(row)) => AcceptedEnd::Here { inode: row.id.inode, mark: row.mark },
            Ok(None) => AcceptedEnd::Missing,
            Err(_) => AcceptedEnd::Unreadable,
        }
    }

    /// Where a connection went whose accepted end is missing. Walks over all connections of the host (milliseconds with tens of
    /// thousands), so it runs on a thread for blocking work.
    pub(super) async fn read_elsewhere(&self, client: SocketAddr, server: SocketAddr, cookie: u64) -> Acceptor {
        let this = self.clone();
        let asked = tokio::task::spawn_blocking(move || this.with(|inner| inner.tuples.read_acceptor(client, server, cookie)));
        asked.await.unwrap_or(Acceptor::Unknown)
    }
}
