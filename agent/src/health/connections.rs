//! The open connections, when each expires, and which has to go first when there is no room.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use gwready_core::time::Mono;

/// Slots with a deadline each. `T` is what is kept; the slot number is the event loop's token.
#[derive(Debug)]
pub(super) struct Connections<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    deadlines: BTreeSet<(Mono, usize)>,
    per_peer: HashMap<Option<IpAddr>, usize>,
}

#[derive(Debug)]
struct Slot<T> {
    peer: Option<IpAddr>,
    kept: Option<(Mono, T)>,
}

impl<T> Connections<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), deadlines: BTreeSet::new(), per_peer: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// A slot for a new item of this peer: [`Connections::put`] or [`Connections::release`] has to follow.
    pub(super) fn reserve(&mut self, peer: Option<IpAddr>) -> usize {
        *self.per_peer.entry(peer).or_default() += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(slot) {
            Some(place) => place.peer = peer,
            None => self.slots.push(Slot { peer, kept: None }),
        }
        slot
    }

    /// Takes out what is in `slot`, which stays reserved for [`Connections::put`] until [`Connections::release`].
    pub(super) fn take(&mut self, slot: usize) -> Option<(Mono, T)> {
        let (deadline, item) = self.slots.get_mut(slot)?.kept.take()?;
        self.deadlines.remove(&(deadline, slot));
        Some((deadline, item))
    }

    /// Keeps `item` in a reserved slot until `deadline`.
    pub(super) fn put(&mut self, slot: usize, deadline: Mono, item: T) {
        if let Some(place) = self.slots.get_mut(slot) {
            place.kept = Some((deadline, item));
            self.deadlines.insert((deadline, slot));
        }
    }

    /// Gives a slot that was taken back for reuse.
    pub(super) fn release(&mut self, slot: usize) {
        if let Some(place) = self.slots.get(slot) {
            if let Some(count) = self.per_peer.get_mut(&place.peer) {
                *count -= 1;
                if *count == 0 {
                    self.per_peer.remove(&place.peer);
                }
            }
            self.free.push(slot);
        }
    }

    /// The next to expire.
    pub(super) fn first(&self) -> Option<(Mono, usize)> {
        self.deadlines.first().copied()
    }

    /// The next to expire of the peer that holds most: a flood pushes out its own connections, not a balancer's.
    pub(super) fn first_of_the_greediest(&self) -> Option<usize> {
        let most = self.per_peer.values().max()?;
        let greedy = |slot: usize| self.slots.get(slot).and_then(|place| self.per_peer.get(&place.peer)) == Some(most);
        self.deadlines.iter().map(|(_, slot)| *slot).find(|slot| greedy(*slot)).or_else(|| self.first().map(|(_, slot)| slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 66)));
    const BALANCER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

    #[test]
    fn expiry_order_and_slot_reuse() {
        let mut connections = Connections::new();
        let (late, early) = (connections.reserve(None), connections.reserve(None));
        connections.put(late, Mono(20), "late");
        connections.put(early, Mono(10), "early");
        assert_eq!(connections.first(), Some((Mono(10), early)));
        assert_eq!(connections.take(early), Some((Mono(10), "early")));
        assert_eq!(connections.take(early), None, "taken");
        connections.put(early, Mono(30), "again");
        assert_eq!(connections.first(), Some((Mono(20), late)));
        assert_eq!(connections.take(late).map(|(_, item)| item), Some("late"));
        connections.release(late);
        assert_eq!(connections.reserve(None), late);
        assert_eq!(connections.len(), 1, "reserved is not yet kept");
    }

    #[test]
    fn a_flood_pushes_out_its_own() {
        let mut connections = Connections::new();
        let good = connections.reserve(BALANCER);
        connections.put(good, Mono(1), ());
        let flood: Vec<usize> = (2..5)
            .map(|deadline| {
                let slot = connections.reserve(FLOOD);
                connections.put(slot, Mono(deadline), ());
                slot
            })
            .collect();
        assert_eq!(connections.first_of_the_greediest(), Some(flood[0]), "its oldest, though the balancer's is older");
        for &slot in &flood[..2] {
            connections.take(slot);
            connections.release(slot);
        }
        assert_eq!(connections.first_of_the_greediest(), Some(good), "one each: the oldest of all");
        assert_eq!(Connections::<()>::new().first_of_the_greediest(), None);
    }
}
