//! What is still inside a network namespace: the last look before a box ends, and the proof in
//! tests that nothing stayed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::eventually;

/// Processes whose network namespace has this inode (`/proc/PID/ns/net`). Zombies have none.
#[must_use]
pub fn processes_in(net_inode: u64) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|meta| meta.ino() == net_inode))
        .collect()
}

/// Kills whatever still runs in a namespace that this process made, and waits until it is empty.
/// Only descendants of the namespace's maker can be in it.
pub(crate) fn empty(net_inode: u64) -> Result<()> {
    eventually(Duration::from_secs(5), || {
        let left = processes_in(net_inode);
        for pid in left.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // ESRCH: it ended in between.
            let _ = kill_process(pid, Signal::KILL);
        }
        ensure!(left.is_empty(), "still in the namespace: {left:?}");
        Ok(())
    })
}
