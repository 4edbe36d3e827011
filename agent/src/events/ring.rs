//! The ring buffer: poll its descriptor, drain it, learn what was lost.

use super::KernelEvent;
use super::decode::decode_record;
use aya::maps::{MapData, PerCpuArray, RingBuf};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Records taken in one [`Ring::drain`] at most: a producer that never rests must not keep the caller.
/// More than the ring holds, so an ordinary drain empties it.
const DRAIN_LIMIT: usize = 8192;

/// Reader of the programs' records. Its descriptor is readable while records wait; level-triggered.
pub struct Ring {
    ring: RingBuf<MapData>,
    lost: PerCpuArray<MapData, u64>,
    lost_before: u64,
    /// The drain before found something.
    busy: bool,
}

/// What one [`Ring::drain`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Events handed to the caller.
    pub events: usize,
    /// Records that found no room since the drain before: what they said is unknown, read everything anew.
    /// A record that this version can't decode counts too.
    pub lost: u64,
}

impl Ring {
    pub(super) fn new(ring: RingBuf<MapData>, lost: PerCpuArray<MapData, u64>) -> Self {
        Self { ring, lost, lost_before: 0, busy: true }
    }

    /// Hands every waiting event to `each`, oldest first, without waiting.
    pub fn drain(&mut self, mut each: impl FnMut(KernelEvent)) -> Drained {
        let mut drained = Drained::default();
        for _ in 0..DRAIN_LIMIT {
            let Some(record) = self.ring.next() else { break };
            match decode_record(&record) {
                Some(event) => {
                    drained.events += 1;
                    each(event);
                }
                None => drained.lost += 1,
            }
        }
        // A ring that was full is not empty at the next drain; the one after a busy drain looks too, for a loss that the program was
        // just about to count.
        let busy = drained != Drained::default();
        if !busy && !std::mem::replace(&mut self.busy, busy) {
            return drained;
        }
        self.busy = busy;
        // A failed read leaves the sum as it was: the loss shows at the next drain.
        let total = self.lost_total().unwrap_or(self.lost_before);
        drained.lost += total.saturating_sub(self.lost_before);
        self.lost_before = total;
        drained
    }

    fn lost_total(&self) -> Option<u64> {
        let each = self.lost.get(&0, 0).ok()?;
        Some(each.iter().sum())
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}
