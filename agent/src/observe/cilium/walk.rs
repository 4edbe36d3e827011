//! Whole walks of a hash map, in batches: for the snapshot command, and for the L7 frontends, which no direct lookup can find.

use std::io;
use std::os::fd::BorrowedFd;

use super::bpf::{Cursor, lookup_batch};

/// Rows per system call, to begin with: about 60 µs.
const BATCH: usize = 512;
/// A bucket with more rows than this is taken for a broken map.
const LARGEST: usize = 1 << 16;

/// A walk that can be carried on later. Rows that exist all the while are seen; rows that come or go may be missed or seen twice.
pub(super) struct Walk<K, V> {
    cursor: Cursor,
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Copy + Default, V: Copy + Default> Default for Walk<K, V> {
    fn default() -> Self {
        Self { cursor: None, keys: vec![K::default(); BATCH], values: vec![V::default(); BATCH] }
    }
}

impl<K: Copy + Default, V: Copy + Default> Walk<K, V> {
    /// Goes on for about `budget` rows; true when the walk is over, after which it begins anew.
    pub(super) fn step(&mut self, map: BorrowedFd<'_>, budget: usize, mut each: impl FnMut(&K, &V)) -> io::Result<bool> {
        let mut seen = 0;
        while seen < budget {
            match lookup_batch(map, &mut self.cursor, &mut self.keys, &mut self.values) {
                Ok(batch) => {
                    for (key, value) in self.keys.iter().zip(&self.values).take(batch.count) {
                        each(key, value);
                    }
                    seen += batch.count.max(1);
                    if batch.done {
                        self.cursor = None;
                        return Ok(true);
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && self.keys.len() < LARGEST => {
                    self.keys.resize(self.keys.len() * 4, K::default());
                    self.values.resize(self.values.len() * 4, V::default());
                }
                Err(error) => {
                    self.cursor = None;
                    return Err(error);
                }
            }
        }
        Ok(false)
    }

    /// The whole map, in one go.
    pub(super) fn whole(map: BorrowedFd<'_>, each: impl FnMut(&K, &V)) -> io::Result<()> {
        Self::default().step(map, usize::MAX, each).map(drop)
    }
}
