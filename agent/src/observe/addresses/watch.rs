//! The notice that addresses, links, routes or rules changed. Says only that, never what: the tables are read anew.

use std::os::fd::{AsFd, BorrowedFd};

use super::decode::is_default;
use crate::observe::netlink::{NetlinkError, Protocol, Subscription};

/// `RTNLGRP_LINK`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV4_RULE`, `_IPV6_IFADDR`, `_IPV6_ROUTE`, `_IPV6_RULE` (rtnetlink.h).
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];
/// Datagrams per drain, so that a flood of route changes can't hold the observer; the descriptor stays readable.
const MOST: u32 = 4096;

/// What has changed since the last drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Addresses, links or default routes: read [`super::AddressReader`] again.
    pub addresses: bool,
    /// Rules or default routes (the TPROXY path has one in its own table): read the TPROXY routes again.
    pub rules: bool,
    /// Notifications were lost; both of the above are set.
    pub overflow: bool,
}

impl Changes {
    fn note(&mut self, kind: u16, body: &[u8]) {
        match kind {
            // RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR, RTM_DELADDR.
            16 | 17 | 20 | 21 => self.addresses = true,
            // RTM_NEWROUTE, RTM_DELROUTE. Routes to pods come and go all day and concern nobody here.
            24 | 25 if is_default(body) => {
                self.addresses = true;
                self.rules = true;
            }
            // RTM_NEWRULE, RTM_DELRULE.
            32 | 33 => self.rules = true,
            _ => {}
        }
    }
}

/// Hears rtnetlink's notifications. Open it before the first read, so that no change falls between; poll its descriptor for
/// input, then [`AddressWatch::drain`].
pub struct AddressWatch {
    subscription: Subscription,
}

impl AddressWatch {
    /// Joins the groups, in the network namespace of the calling thread. Needs no privilege.
    ///
    /// # Errors
    /// [`NetlinkError::Open`]; polling alone still gives the right answer.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { subscription: Subscription::open(Protocol::Route, &GROUPS)? })
    }

    /// Takes what waits and says what it concerns. Never blocks.
    pub fn drain(&mut self) -> Changes {
        let mut changes = Changes::default();
        for _ in 0..MOST {
            match self.subscription.read_next(|kind, body| changes.note(kind, body)) {
                Ok(true) => {}
                Ok(false) => break,
                // ENOBUFS, a cut datagram, or bytes that are no message: something was lost, what follows may still be there.
                Err(_) => changes = Changes { addresses: true, rules: true, overflow: true },
            }
        }
        changes
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(kind: u16, body: &[u8]) -> (bool, bool) {
        let mut changes = Changes::default();
        changes.note(kind, body);
        assert!(!changes.overflow);
        (changes.addresses, changes.rules)
    }

    #[test]
    fn each_message_concerns_who_reads_its_table() {
        for kind in [16, 17, 20, 21] {
            assert_eq!(noted(kind, &[]), (true, false), "kind {kind}");
        }
        for kind in [32, 33] {
            assert_eq!(noted(kind, &[]), (false, true), "kind {kind}");
        }
        assert_eq!(noted(24, &[2, 0]), (true, true), "a default route concerns both");
        assert_eq!(noted(25, &[2, 32]), (false, false), "a pod's route concerns nobody");
        assert_eq!(noted(28, &[]), (false, false), "a neighbour concerns nobody");
    }
}
