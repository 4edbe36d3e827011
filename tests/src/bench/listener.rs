//! A listener that opens and closes on command and tells when: the gateway of the latency measurement.
//!
//! It runs as a process of its own from a copy named like Envoy, so that the agent takes it for one: Envoy itself can't be
//! told to close a listener at a known moment.

use std::fs;
use std::io::{BufRead, BufReader, Write, stdin};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Protocol, Socket, Type};

use crate::node::Node;

/// Monotonic time: the same for all processes, and the clock of the kernel's own time stamps.
#[must_use]
pub fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap_or(0))
}

/// The process's own side: obeys `open` and `close` on standard input, answers each with the time just before the act.
pub fn serve(address: SocketAddr) -> Result<()> {
    let mut held = None;
    for line in stdin().lock().lines() {
        let before = match line?.as_str() {
            "open" => {
                let before = monotonic();
                held = Some(open(address)?);
                before
            }
            "close" => {
                let closing = held.take();
                let before = monotonic();
                drop(closing);
                before
            }
            other => bail!("unknown command {other}"),
        };
        println!("{}", before.as_nanos());
    }
    Ok(())
}

fn open(address: SocketAddr) -> Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// The other side: a running one. Ends when dropped.
#[derive(Debug)]
pub struct Switch {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Switch {
    /// Starts a copy of this program in the node as `cilium-envoy`, without a listener yet.
    pub fn start(node: &Node, address: SocketAddr) -> Result<Self> {
        let folder = node.fresh_path("exe");
        fs::create_dir(&folder)?;
        let copy = folder.join("cilium-envoy");
        fs::copy(std::env::current_exe()?, &copy)?;
        let mut command = Command::new(copy);
        command.args(["listener", &address.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = node.space().spawn(command)?;
        let input = child.stdin.take().context("stdin")?;
        let output = BufReader::new(child.stdout.take().context("stdout")?);
        Ok(Self { child, input, output })
    }

    /// Listens from now on.
    pub fn open(&mut self) -> Result<()> {
        self.command("open").map(drop)
    }

    /// Closes; the time just before close(2).
    pub fn close(&mut self) -> Result<Duration> {
        self.command("close")
    }

    fn command(&mut self, word: &str) -> Result<Duration> {
        writeln!(self.input, "{word}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(Duration::from_nanos(line.trim().parse().with_context(|| format!("{word}: the listener has ended"))?))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
