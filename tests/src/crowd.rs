//! What else lives on a busy node: processes with open files, listeners and connections of other
//! namespaces. For measurements of cost.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::space::Space;

/// Running load. All of it ends when dropped.
#[derive(Debug)]
pub struct Crowd {
    children: Vec<Child>,
    // The namespace of load that lives elsewhere; dropped after its processes.
    elsewhere: Option<Space>,
}

/// Few enough for a descriptor limit of 20,000 with both ends of a connection in one process.
const PER_PROCESS: u32 = 8_000;

impl Crowd {
    /// `count` processes with `files` open files each, in `space`.
    pub fn processes(space: &Space, count: usize, files: u32) -> Result<Self> {
        let shares = std::iter::repeat_n(files, count);
        Self::start(space, "files", shares)
    }

    /// `count` listeners in a network namespace of their own.
    pub fn listeners_elsewhere(count: u32) -> Result<Self> {
        let elsewhere = loopback_space()?;
        Self::start_elsewhere(elsewhere, "listeners", [count].into_iter())
    }

    /// `count` established connections in a network namespace of their own. At most 28,000 fit
    /// one listener's loopback ports; each process has a listener of its own.
    pub fn connections_elsewhere(count: u32) -> Result<Self> {
        let elsewhere = loopback_space()?;
        Self::start_elsewhere(elsewhere, "connections", split(count))
    }

    /// `count` established connections over loopback in `space`.
    pub fn connections(space: &Space, count: u32) -> Result<Self> {
        Self::start(space, "connections", split(count))
    }

    /// Process ids.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    fn start_elsewhere(space: Space, kind: &str, shares: impl Iterator<Item = u32>) -> Result<Self> {
        let mut crowd = Self::start(&space, kind, shares)?;
        crowd.elsewhere = Some(space);
        Ok(crowd)
    }

    fn start(space: &Space, kind: &str, shares: impl Iterator<Item = u32>) -> Result<Self> {
        let exe = paths::own("crowd")?;
        let mut crowd = Self { children: Vec::new(), elsewhere: None };
        for share in shares {
            let mut command = Command::new(&exe);
            command.arg(kind).arg(share.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            crowd.children.push(space.spawn(command)?);
        }
        for child in &mut crowd.children {
            let stdout = child.stdout.take().context("no output")?;
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            ensure!(line.trim() == "ready", "a crowd process ended early");
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Fails when it has ended already.
            drop(child.kill());
        }
        for child in &mut self.children {
            drop(child.wait());
        }
    }
}

fn loopback_space() -> Result<Space> {
    let space = Space::new("elsewhere")?;
    crate::node::run_batch(&space, "link set lo up\n")?;
    Ok(space)
}

fn split(mut count: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let share = count.min(PER_PROCESS);
        count -= share;
        (share > 0).then_some(share)
    })
}
