//! Stops single threads of a running program and lets the others go on: what a stuck worker or a hung loop looks like from
//! outside. A signal stops a whole process, so this is ptrace(2).
//!
//! Must not read or change anything in the program.
#![expect(unsafe_code, reason = "ptrace(2) and waitpid(2) have no safe form for one thread")]

use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, ensure};

/// Threads that stand still. Dropping it lets them go on.
#[derive(Debug)]
pub struct Halted {
    release: Option<Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

/// Stops every thread of `pid` whose name (`/proc/PID/task/TID/comm`) begins with `name`; an error if there is none.
pub fn halt(pid: i32, name: &str) -> Result<Halted> {
    let mut threads = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        if fs::read_to_string(task.path().join("comm"))?.starts_with(name) {
            threads.push(task.file_name().to_str().context("no thread id")?.parse::<libc::pid_t>()?);
        }
    }
    ensure!(!threads.is_empty(), "pid {pid} has no thread {name}…");
    let (release, released) = channel::<()>();
    let (tell, told) = channel();
    // Only the thread that began to trace may end it.
    let tracer = std::thread::Builder::new().name("halt".into()).spawn(move || {
        let stopped = threads.iter().try_for_each(|&thread| stop(thread).with_context(|| format!("stopping thread {thread}")));
        // The other end waits for this word, and then only drops its sender.
        _ = tell.send(stopped);
        _ = released.recv();
        threads.iter().for_each(|&thread| drop(trace(libc::PTRACE_DETACH, thread)));
    })?;
    let halted = Halted { release: Some(release), tracer: Some(tracer) };
    told.recv().map_err(|_| anyhow!("the tracing thread ended"))??;
    Ok(halted)
}

impl Drop for Halted {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(tracer) = self.tracer.take() {
            drop(tracer.join());
        }
    }
}

fn stop(thread: libc::pid_t) -> Result<()> {
    trace(libc::PTRACE_SEIZE, thread)?;
    trace(libc::PTRACE_INTERRUPT, thread)?;
    // SAFETY: waitpid takes a null pointer for a status that nobody wants, and no other memory.
    let waited = unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
    ensure!(waited == thread, "waitpid: {}", std::io::Error::last_os_error());
    Ok(())
}

fn trace(request: libc::c_uint, thread: libc::pid_t) -> std::io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: SEIZE, INTERRUPT and DETACH read no memory: address and data are the null pointers that they ask for.
    let result = unsafe { libc::ptrace(request, thread, none, none) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
