//! The process `health-stand`: the agent's real health port with a verdict set over standard input.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use gwready_core::verdict::State;
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::eventually;

/// A running stand. Killed when dropped.
#[derive(Debug)]
pub struct Stand {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Stand {
    /// Starts the program with these arguments; its log goes to the file `log`, appended.
    pub fn start(program: &Path, arguments: &[&str], log: &Path) -> Result<Self> {
        let errors = std::fs::File::options().create(true).append(true).open(log)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let input = child.stdin.take().context("stdin")?;
        let output = child.stdout.take().context("stdout")?;
        let (sender, lines) = channel();
        // Ends with the child's output; a receiver that is gone ends it at the next line.
        thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Self { child, input, lines, log: log.into() })
    }

    /// Waits until it serves; the health address and, if there is one, the agent-check address.
    pub fn wait_serving(&mut self) -> Result<(SocketAddr, Option<SocketAddr>)> {
        let line = self.wait_line("serving ")?;
        let mut words = line.split(' ').skip(1).map(str::parse);
        let health = words.next().context("no address")??;
        Ok((health, words.next().transpose()?))
    }

    /// Publishes another state, and waits until it is published.
    pub fn set(&mut self, state: State) -> Result<()> {
        writeln!(self.input, "{state}")?;
        self.wait_line(&format!("published {state}")).map(drop)
    }

    fn wait_line(&self, start: &str) -> Result<String> {
        let line = self.lines.recv_timeout(Duration::from_secs(20)).map_err(|error| anyhow!("{error}; log:\n{}", self.log()))?;
        if !line.starts_with(start) {
            bail!("expected {start:?}, got {line:?}");
        }
        Ok(line)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Waits for its end.
    pub fn wait_exit(&mut self, timeout: Duration) -> Result<ExitStatus> {
        eventually(timeout, || self.child.try_wait()?.context("still runs"))
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // Fails only if it has ended, and then wait() tells.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
