//! Searching the descriptors of one process for sockets. Must not keep anything.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use gwready_core::time::Mono;
use rustix::fs::Dir;

use super::procfs_root::{Fault, ProcessDir, socket_link};
use crate::clock;

/// How much may be looked at before the search is left to somebody with more time.
#[derive(Debug)]
pub(super) struct Budget {
    /// Descriptors.
    pub left: usize,
    /// Moment.
    pub until: Mono,
}

impl Budget {
    /// Takes one descriptor; false when there is nothing left. The clock is asked once in 64.
    fn take(&mut self) -> bool {
        if self.left == 0 || (self.left.is_multiple_of(64) && clock::mono() >= self.until) {
            self.left = 0;
            return false;
        }
        self.left -= 1;
        true
    }
}

/// Socket inode and one descriptor number of it.
pub(super) type Descriptors = Vec<(u64, u32)>;

/// What one process holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The wanted sockets, each once.
    pub sockets: Descriptors,
    /// Every descriptor was looked at.
    pub complete: bool,
    /// So many descriptors were.
    seen: usize,
}

/// Looks for `wanted` among the descriptors of one process.
///
/// # Errors
/// A refusal, also of a single link: a folder can be listed by capability while its links need ptrace access, and a list
/// without them would look like a process that holds nothing.
pub(super) fn search_descriptors(process: &ProcessDir, wanted: &HashSet<u64>, budget: &mut Budget) -> Result<Held, Fault> {
    let held = search_folder(&process.descriptors()?, wanted, budget)?;
    if held.seen > 0 || !held.complete {
        return Ok(held);
    }
    match process.descriptors_left()? {
        Some(folder) => search_folder(&folder, wanted, budget),
        None => Ok(held),
    }
}

fn search_folder(folder: &OwnedFd, wanted: &HashSet<u64>, budget: &mut Budget) -> Result<Held, Fault> {
    let mut held = Held::default();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let Some((name, fd)) = entry.file_name().to_str().ok().and_then(|name| Some((name, name.parse::<u32>().ok()?))) else {
            continue;
        };
        if !budget.take() {
            return Ok(held);
        }
        held.seen += 1;
        match socket_link(folder, name) {
            Ok(Some(inode)) if wanted.contains(&inode) && held.sockets.iter().all(|(seen, _)| *seen != inode) => {
                held.sockets.push((inode, fd));
            }
            Ok(_) | Err(Fault::Gone) => {}
            Err(fault) => return Err(fault),
        }
    }
    held.complete = true;
    Ok(held)
}
