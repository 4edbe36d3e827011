//! `NETLINK_SOCK_DIAG`: who would get a SYN (exact lookups, they decide) and the LISTEN rows of the expected ports (they
//! explain). Only reads and decodes: who owns a socket and what follows from it is not known here.

mod dump;
mod lookup;
mod steady;
mod tuple;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use gwready_core::facts::Reading;
use gwready_core::facts::sockets::{Listener, SocketTable};
use gwready_core::plan::ReadPlan;
use gwready_core::time::Window;

use self::steady::Steady;
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
    steady: Option<Steady>,
    dumps: u64,
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
        Self { exchange: Exchange::new(Protocol::SockDiag, DEADLINE), steady: None, dumps: 0 }
    }

    /// Everything that the plan asks for, or why it could not be read; never a part.
    ///
    /// `lookups` are in the order of [`ReadPlan::endpoints`], several source ports of one endpoint together; `listeners` are
    /// sorted by family, port, address, device and cookie.
    pub fn read(&mut self, plan: &ReadPlan) -> Reading<SocketTable> {
        self.steady = None;
        reading(|| self.read_table(plan))
    }

    /// As [`SocketReader::read`], for a pass that nothing asked for: while the lookups answer what they answered at the last
    /// whole read, its rows stand, with fresh figures of their queues. `docs/decisions/steady-reads.md` says what makes it
    /// read whole again.
    pub fn read_steady(&mut self, plan: &ReadPlan) -> Reading<SocketTable> {
        reading(|| {
            let begin = clock::mono();
            if let Some(mut steady) = self.steady.take()
                && let Some(table) = steady.read_again(&mut self.exchange, plan, begin)?
            {
                self.steady = Some(steady);
                return Ok(table);
            }
            let table = self.read_table(plan)?;
            self.steady = Steady::watch(&mut self.exchange, plan, &table, begin)?;
            Ok(table)
        })
    }

    /// How often the whole table was dumped so far.
    #[must_use]
    pub const fn dumps(&self) -> u64 {
        self.dumps
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
            self.dumps += 1;
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

fn reading(read: impl FnOnce() -> Result<SocketTable, NetlinkError>) -> Reading<SocketTable> {
    let begin = clock::mono();
    let result = read();
    let window = Window { begin, end: clock::mono() };
    match result {
        Ok(value) => Reading::Observed { value, window },
        Err(error) => Reading::Unavailable(error.unavailable(window)),
    }
}
