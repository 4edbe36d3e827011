//! All readers of one observer, and which of them a pass asks. Reads only; what the facts mean is the judge's.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

use gwready_core::facts::Snapshot;
use gwready_core::facts::processes::Holders;
use gwready_core::facts::sockets::Listener;
use gwready_core::judge::select;
use gwready_core::memory::Memory;
use gwready_core::plan::ReadPlan;
use gwready_core::policy::Policy;

use super::schedule::Scope;
use crate::observe::addresses::{AddressReader, AddressWatch};
use crate::observe::owners::OwnerReader;
use crate::observe::sockets::SocketReader;

/// The readers.
pub struct Sources {
    addresses: AddressReader,
    address_watch: Option<AddressWatch>,
    sockets: SocketReader,
    owners: OwnerReader,
}

impl Sources {
    /// Reads what `scope` asks for into `snapshot`, and whatever was never read. Returns the plan that the socket source
    /// was read with: addresses come first, because they decide what has to be looked up.
    pub fn read(&mut self, scope: Scope, mut plan: ReadPlan, policy: &Policy, memory: &Memory, snapshot: &mut Snapshot) -> ReadPlan {
        if scope.addresses || snapshot.addresses.window().is_none() {
            snapshot.addresses = self.addresses.read();
            plan = select::plan(policy, snapshot, memory);
        }
        if scope.sockets || snapshot.sockets.window().is_none() {
            snapshot.sockets = self.sockets.read(&plan);
            let listeners = listeners(snapshot);
            snapshot.owners = self.owners.read(&listeners);
        }
        plan
    }

    /// Readable when addresses, links, routes or rules changed.
    #[must_use]
    pub fn notifications(&self) -> Option<BorrowedFd<'_>> {
        self.address_watch.as_ref().map(AsFd::as_fd)
    }

    /// Takes the notifications that wait; true if something that is read by notification has changed.
    pub fn take_notifications(&mut self) -> bool {
        let changes = self.address_watch.as_mut().map(AddressWatch::drain).unwrap_or_default();
        changes.addresses || changes.rules || changes.overflow
    }

    /// The owners of the listeners and of the Envoys, and their ancestors up to the container's init: whose signals matter.
    #[must_use]
    pub fn watched_pids(&self, snapshot: &Snapshot) -> BTreeSet<u32> {
        let Some(owners) = snapshot.owners.value() else { return BTreeSet::new() };
        let holders = owners.holders.values().flat_map(|holders| match holders {
            Holders::Known { pids, .. } => pids.as_slice(),
            Holders::Unknown(_) => &[],
        });
        let pids: BTreeSet<u32> = holders.chain(&owners.envoys).copied().collect();
        pids.iter().flat_map(|pid| self.owners.ancestors(*pid)).chain(pids.iter().copied()).collect()
    }
}

/// Every socket of the table: LISTEN rows and whatever the lookups picked (an sk_lookup program may pick a socket of
/// another port).
fn listeners(snapshot: &Snapshot) -> Vec<Listener> {
    let Some(table) = snapshot.sockets.value() else { return Vec::new() };
    table.listeners.iter().chain(table.lookups.iter().filter_map(|lookup| lookup.picked.as_ref())).cloned().collect()
}
