//! The notice that nf_tables' rules changed. Says only that, never what: the rules are read anew.

use std::os::fd::{AsFd, BorrowedFd};

use crate::observe::netlink::{NetlinkError, Protocol, Subscription};

/// `NFNLGRP_NFTABLES` (nfnetlink.h).
const GROUP: u32 = 7;
/// Datagrams per drain, so that a flood can't hold the thread.
const MOST: u32 = 64;

/// Hears nf_tables' notifications. Open it before a read, so that no change falls between; poll its descriptor, then
/// [`RuleWatch::drain`].
pub(super) struct RuleWatch {
    subscription: Subscription,
}

impl RuleWatch {
    /// Joins the group, in the network namespace of the calling thread.
    pub(super) fn open() -> Result<Self, NetlinkError> {
        Ok(Self { subscription: Subscription::open(Protocol::Netfilter, &[GROUP])?.with_least_buffer()? })
    }

    /// Takes what waits; whether there was anything. Never blocks.
    pub(super) fn drain(&mut self) -> bool {
        let mut any = false;
        for _ in 0..MOST {
            match self.subscription.read_next(|_, _| {}) {
                Ok(false) => break,
                // Lost notifications are notifications too.
                Ok(true) | Err(_) => any = true,
            }
        }
        any
    }
}

impl AsFd for RuleWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}
