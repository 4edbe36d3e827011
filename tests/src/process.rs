//! A program that a test started: its pid, its log, its end.
//!
//! Ends its whole process group by pid when dropped, also in a panic.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::space::Space;
use crate::wait::eventually;

/// A running child. Standard output and error go to one file, or to the terminal.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    ended: bool,
}

/// How [`Process::start`] places the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A plain child.
    Plain,
    /// First process of a new pid namespace, as in a container.
    Init,
}

impl Process {
    /// Starts a command in the namespaces of `space`; its output goes to the file `log`, appended.
    pub fn start(space: &Space, mut command: Command, log: &Path, place: Place) -> Result<Self> {
        let out = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = match place {
            Place::Plain => space.spawn(command)?,
            Place::Init => space.spawn_as_init(command)?,
        };
        Ok(Self { child, log: log.into(), ended: false })
    }

    /// Process id as the host sees it.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.raw_pid().as_raw_pid()
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// All that it wrote so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(&self.log).map_or_else(|error| format!("(no log: {error})"), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The file that its output goes to.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Waits until a line contains `text` and returns that line.
    pub fn wait_log(&mut self, text: &str, timeout: Duration) -> Result<String> {
        eventually(timeout, || {
            let log = self.log();
            log.lines().find(|line| line.contains(text)).map(str::to_owned).ok_or_else(|| anyhow!("no line with {text:?} in:\n{log}"))
        })
    }

    /// Sends a signal to the process (not to its children).
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.raw_pid(), signal).with_context(|| format!("{signal:?} {}", self.pid()))
    }

    /// The exit status, or `None` while it runs.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.ended |= status.is_some();
        Ok(status)
    }

    /// An error with its log when it has ended.
    pub fn ensure_running(&mut self) -> Result<()> {
        if let Some(status) = self.exit_status()? {
            bail!("ended with {status}; its log:\n{}", self.log());
        }
        Ok(())
    }

    /// Waits for its end.
    pub fn wait_exit(&mut self, timeout: Duration) -> Result<ExitStatus> {
        eventually(timeout, || {
            let status = self.exit_status()?;
            status.with_context(|| format!("pid {} still runs", self.pid()))
        })
    }

    /// TERM, then waits for its end.
    pub fn terminate(&mut self, timeout: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_exit(timeout)
    }

    /// KILL to the whole group, then waits for its end. Nothing happens when it has ended already.
    pub fn kill(&mut self) -> Result<()> {
        if !self.ended {
            // ESRCH: the group has ended in between, and wait() tells the rest.
            let _ = kill_process_group(self.raw_pid(), Signal::KILL);
            self.child.wait()?;
            self.ended = true;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("pid {} could not be ended: {error:#}", self.pid());
        }
    }
}
