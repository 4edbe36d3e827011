//! `NETLINK_SOCK_DIAG`: who would get a SYN (exact lookups, they decide) and the LISTEN rows of the expected ports (they
//! explain). Only reads and decodes: who owns a socket and what follows from it is not known here.

mod dump;
mod lookup;
mod tuple;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use gwready_core::facts::Reading;
use gwready_core::facts::sockets::{Listener, SocketTable};
use gwready_core::plan::ReadPlan;
use gwready_core::time::Window;

use super::netlink::{Exchange, NetlinkError, Protocol, TRIES};
use crate::clock;

pub use lookup::{MADE_UP_V4, MADE_UP_V6};
pub use tuple::TupleLookup;

/// Bound of one exchange. A dump of 15,000 listeners takes milliseconds: beyond this the kernel is in trouble.
const DEADLINE: Duration = Duration::from_secs(1);

/// Reads the socket table of the network namespace of the thread that uses it. Needs no privilege; without
/// `CAP_NET_ADMIN` the marks are absent.
pub struct SocketReader {
    exchange: Exchange,
}

impl Default for SocketReader {
    fn default() -> Self {
        Self::new()
    }
}

impl SocketReader {
    /// A reader; nothing is opened or asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self { exchange: Exchange::new(Protocol::SockDiag, DEADLINE) }
    }

    /// Everything that the plan asks for, or why it could not be read; never a part.
    ///
    /// `lookups` are in the order of [`ReadPlan::endpoints`], several source ports of one endpoint together; `listeners` are
    /// sorted by family, port, address, device and cookie.
    pub fn read(&mut self, plan: &ReadPlan) -> Reading<SocketTable> {
        let begin = clock::mono();
        let result = self.read_table(plan);
        let window = Window { begin, end: clock::mono() };
        match result {
            Ok(value) => Reading::Observed { value, window },
            Err(error) => Reading::Unavailable(error.unavailable(window)),
        }
    }

    /// The listeners of these ports, any address, both families; sorted as in [`SocketReader::read`].
    ///
    /// # Errors
    /// Any [`NetlinkError`]; no part of the table is handed out then.
    pub fn read_listeners(&mut self, ports: &[u16]) -> Result<Vec<Listener>, NetlinkError> {
        dump::read_listeners(&mut self.exchange, ports)
    }

    /// The listener that the kernel would give a SYN from exactly `remote` to `local` arriving on `ifindex`; none for RST,
    /// and none when a connection of that tuple exists.
    ///
    /// # Errors
    /// Any [`NetlinkError`].
    pub fn read_listener_for(&mut self, local: SocketAddr, remote: SocketAddr, ifindex: u32) -> Result<Option<Listener>, NetlinkError> {
        let row = lookup::read_row(&mut self.exchange, local, remote, ifindex)?;
        Ok(row.and_then(gwready_core::decode::inet_diag_row::Row::into_listener))
    }

    /// Rows and lookups are two questions: when a picked socket is not among the rows, the table changed in between.
    fn read_table(&mut self, plan: &ReadPlan) -> Result<SocketTable, NetlinkError> {
        for _ in 0..TRIES {
            let listeners = self.read_listeners(&plan.ports)?;
            let lookups = lookup::read_lookups(&mut self.exchange, plan.endpoints(), &listeners)?;
            let known: HashSet<u64> = listeners.iter().map(|listener| listener.id.cookie).collect();
            let mut picked = lookups.iter().filter_map(|lookup| lookup.picked.as_ref());
            // A socket of another port can be picked too (sk_lookup): it is no row of the expected ports.
            if picked.all(|listener| !plan.ports.contains(&listener.port) || known.contains(&listener.id.cookie)) {
                return Ok(SocketTable { lookups, listeners });
            }
        }
        Err(NetlinkError::Interrupted(TRIES))
    }
}
