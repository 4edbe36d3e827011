//! The open connections and when each expires.

use std::collections::BTreeSet;

use gwready_core::time::Mono;

/// Slots with a deadline each. `T` is what is kept; the slot number is the event loop's token.
#[derive(Debug)]
pub(super) struct Connections<T> {
    slots: Vec<Option<(Mono, T)>>,
    free: Vec<usize>,
    deadlines: BTreeSet<(Mono, usize)>,
}

impl<T> Connections<T> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), deadlines: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// A slot for a new item: [`Connections::put`] or [`Connections::release`] has to follow.
    pub(super) fn reserve(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        })
    }

    /// Takes out what is in `slot`, which stays reserved for [`Connections::put`] until [`Connections::release`].
    pub(super) fn take(&mut self, slot: usize) -> Option<(Mono, T)> {
        let (deadline, item) = self.slots.get_mut(slot)?.take()?;
        self.deadlines.remove(&(deadline, slot));
        Some((deadline, item))
    }

    /// Keeps `item` in a reserved slot until `deadline`.
    pub(super) fn put(&mut self, slot: usize, deadline: Mono, item: T) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some((deadline, item));
            self.deadlines.insert((deadline, slot));
        }
    }

    /// Gives a slot that was taken back for reuse.
    pub(super) fn release(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// The next to expire.
    pub(super) fn first(&self) -> Option<(Mono, usize)> {
        self.deadlines.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_order_and_slot_reuse() {
        let mut connections = Connections::new();
        let (late, early) = (connections.reserve(), connections.reserve());
        connections.put(late, Mono(20), "late");
        connections.put(early, Mono(10), "early");
        assert_eq!(connections.first(), Some((Mono(10), early)));
        assert_eq!(connections.take(early), Some((Mono(10), "early")));
        assert_eq!(connections.take(early), None, "taken");
        connections.put(early, Mono(30), "again");
        assert_eq!(connections.first(), Some((Mono(20), late)));
        assert_eq!(connections.take(late).map(|(_, item)| item), Some("late"));
        connections.release(late);
        assert_eq!(connections.reserve(), late);
        assert_eq!(connections.len(), 1, "reserved is not yet kept");
    }
}
