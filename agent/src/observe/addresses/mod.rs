//! Local addresses, links and default routes over rtnetlink, and the notice that they changed. Which addresses are judged is
//! decided elsewhere, from what this reads.

mod decode;
mod watch;

use std::time::Duration;

use gwready_core::facts::Reading;
use gwready_core::facts::addresses::AddressTable;
use gwready_core::time::Window;

use super::netlink::{Exchange, NetlinkError, Protocol};
use crate::clock;

pub use watch::{AddressWatch, Changes};

/// Bound of one dump. A node with some thousand routes needs milliseconds.
const DEADLINE: Duration = Duration::from_secs(1);

const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;

/// `struct ifaddrmsg` of family `AF_UNSPEC`: the addresses of every family that this kernel has.
const EVERY_ADDRESS: [u8; 8] = [0; 8];
/// `struct rtmsg` of family `AF_UNSPEC`: the routes of every family and table.
const EVERY_ROUTE: [u8; 12] = [0; 12];

/// `struct ifinfomsg` of family `AF_UNSPEC`, and `IFLA_EXT_MASK` = `RTEXT_FILTER_SKIP_STATS`: no counters.
fn every_link() -> Vec<u8> {
    const IFLA_EXT_MASK: u16 = 29;
    const SKIP_STATS: u32 = 1 << 3;
    let mut body = vec![0; 16];
    body.extend_from_slice(&8u16.to_ne_bytes());
    body.extend_from_slice(&IFLA_EXT_MASK.to_ne_bytes());
    body.extend_from_slice(&SKIP_STATS.to_ne_bytes());
    body
}

/// Reads the addresses of the network namespace of the thread that uses it. Needs no privilege.
pub struct AddressReader {
    exchange: Exchange,
}

impl Default for AddressReader {
    fn default() -> Self {
        Self::new()
    }
}

impl AddressReader {
    /// A reader; nothing is opened or asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self { exchange: Exchange::new(Protocol::Route, DEADLINE) }
    }

    /// All addresses, links and default routes, or why they could not be read; never a part. Addresses and links in the
    /// kernel's order, default routes sorted, each link once per family.
    ///
    /// Three dumps at three moments: who needs to hear of a change between them watches with [`AddressWatch`] from before.
    pub fn read(&mut self) -> Reading<AddressTable> {
        let begin = clock::mono();
        let result = self.read_table();
        let window = Window { begin, end: clock::mono() };
        match result {
            Ok(value) => Reading::Observed { value, window },
            Err(error) => Reading::Unavailable(error.unavailable(window)),
        }
    }

    fn read_table(&mut self) -> Result<AddressTable, NetlinkError> {
        let links = self.exchange.dump(RTM_GETLINK, &every_link(), |_, body| decode::decode_link(body).map(Some))?.items;
        let addresses = self.exchange.dump(RTM_GETADDR, &EVERY_ADDRESS, |_, body| decode::decode_address(body))?.items;
        let routes = self.exchange.dump(RTM_GETROUTE, &EVERY_ROUTE, |_, body| decode::decode_default_route(body))?.items;
        let mut default_routes: Vec<_> = routes.into_iter().flatten().collect();
        default_routes.sort();
        default_routes.dedup();
        Ok(AddressTable { addresses, links, default_routes })
    }
}
