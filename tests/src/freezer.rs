//! A process in a cgroup of its own, frozen or named like a pod's, of whichever kinds of cgroup this machine has.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};

use crate::scene::SOON;
use crate::wait::eventually;

/// A cgroup made for one process. When dropped it thaws, the process goes back to the root, and the cgroup ends.
#[derive(Debug)]
pub struct Confined {
    path: PathBuf,
    root: PathBuf,
    thaw: (&'static str, &'static str),
}

/// Where a kind of freezer is, how it freezes and how it thaws.
type Kind = (PathBuf, (&'static str, &'static str), (&'static str, &'static str));

fn kinds() -> Result<Vec<Kind>> {
    let root = Path::new("/sys/fs/cgroup");
    let mut kinds = vec![
        (root.join("freezer"), ("freezer.state", "FROZEN"), ("freezer.state", "THAWED")),
        (root.join("unified"), ("cgroup.freeze", "1"), ("cgroup.freeze", "0")),
        (root.to_owned(), ("cgroup.freeze", "1"), ("cgroup.freeze", "0")),
    ];
    // Which of them a machine has is its own affair; one it must have.
    kinds.retain(|(root, ..)| root.join("cgroup.procs").exists());
    ensure!(!kinds.is_empty(), "no freezer is mounted");
    Ok(kinds)
}

/// How many kinds of freezer there are here, at least one.
pub fn count() -> Result<usize> {
    Ok(kinds()?.len())
}

/// Freezes a process by the freezer of this number.
pub fn freeze(number: usize, pid: i32) -> Result<Confined> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let kind = kinds()?.into_iter().nth(number).context("no such freezer")?;
    let (file, word) = kind.1;
    let confined = confine(kind, &format!("gwready-test-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)), pid)?;
    fs::write(confined.path.join(file), word)?;
    Ok(confined)
}

/// Moves a process into a cgroup of this name, e.g. `podUID`. Nothing is frozen.
pub fn place(name: &str, pid: i32) -> Result<Confined> {
    confine(kinds()?.into_iter().next().context("no cgroup")?, name, pid)
}

fn confine((root, _, thaw): Kind, name: &str, pid: i32) -> Result<Confined> {
    let path = root.join(name);
    fs::create_dir(&path)?;
    let confined = Confined { path, root, thaw };
    fs::write(confined.path.join("cgroup.procs"), pid.to_string())?;
    Ok(confined)
}

impl Drop for Confined {
    fn drop(&mut self) {
        let (file, word) = self.thaw;
        drop(fs::write(self.path.join(file), word));
        for pid in fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default().lines() {
            drop(fs::write(self.root.join("cgroup.procs"), pid));
        }
        if let Err(error) = eventually(SOON, || Ok(fs::remove_dir(&self.path)?)) {
            eprintln!("{}: {error:#}", self.path.display());
        }
    }
}
