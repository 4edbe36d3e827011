//! One network and mount namespace, kept by a thread that lives as long as the value.
//!
//! Every long-lived child is spawned from that thread: Envoy (and, by our doing, every other child)
//! dies with the *thread* that spawned it, and threads of tests end early.
//! Must not know about addresses, links or programs.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, gettid, move_into_link_name_space};

use crate::ns;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace and a private mount namespace. Both end with the value, unless a process in
/// them still runs.
#[derive(Debug)]
pub struct Space {
    name: String,
    handles: Arc<ns::Handles>,
    tid: i32,
    jobs: Option<Sender<Job>>,
    keeper: Option<JoinHandle<()>>,
}

impl Space {
    /// Makes new, empty namespaces. Needs root.
    pub fn new(name: &str) -> Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let (tell, told) = channel();
        let keeper = std::thread::Builder::new().name(format!("keep-{name}")).spawn(move || {
            let made = leave_host();
            let failed = made.is_err();
            if tell.send(made).is_err() || failed {
                return;
            }
            for job in inbox {
                job();
            }
        })?;
        let (handles, tid) = told.recv()?.with_context(|| format!("making the namespaces of {name} (needs root)"))?;
        Ok(Self { name: name.into(), handles: Arc::new(handles), tid, jobs: Some(jobs), keeper: Some(keeper) })
    }

    /// The name given to [`Space::new`], for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path that names the network namespace for `ip … netns PATH` and `nsenter --net=PATH`.
    #[must_use]
    pub fn net_path(&self) -> String {
        format!("/proc/{}/task/{}/ns/net", std::process::id(), self.tid)
    }

    /// A path that names the mount namespace for `nsenter --mount=PATH`.
    #[must_use]
    pub fn mount_path(&self) -> String {
        format!("/proc/{}/task/{}/ns/mnt", std::process::id(), self.tid)
    }

    /// Inode of the network namespace, as `/proc/PID/ns/net` shows it.
    pub fn net_inode(&self) -> Result<u64> {
        Ok(rustix::fs::fstat(&self.handles.net)?.st_ino)
    }

    /// Runs a closure on a thread of its own inside the namespaces and returns its result.
    /// Sockets that it makes stay there. A child spawned here must end here: see [`Space::spawn`].
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.handles.join().with_context(|| format!("entering {}", self.name))?;
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// A command that runs inside, whichever thread starts it. For programs that end by themselves.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        ns::join_before_exec(&mut command, Arc::clone(&self.handles));
        command
    }

    /// Spawns from the keeper thread, in a process group of its own. The child is killed when this
    /// value (or the whole test process) ends.
    pub fn spawn(&self, mut command: Command) -> Result<Child> {
        command.process_group(0);
        ns::die_with_spawning_thread(&mut command);
        let program = command.get_program().to_owned();
        self.on_keeper(move || command.spawn())?.with_context(|| format!("starting {}", program.display()))
    }

    /// Like [`Space::spawn`], with the child as the first process of a new pid namespace.
    pub fn spawn_as_init(&self, mut command: Command) -> Result<Child> {
        command.process_group(0);
        ns::die_with_spawning_thread(&mut command);
        self.on_keeper(move || -> Result<Child> {
            let own = fs::File::open("/proc/thread-self/ns/pid")?;
            ns::leave(UnshareFlags::NEWPID)?;
            let child = command.spawn();
            move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
            Ok(child?)
        })?
    }

    /// Runs a short program inside to its end and returns its standard output.
    pub fn output(&self, program: &str, args: &[&str]) -> Result<String> {
        let output = self.command(program).args(args).output().with_context(|| format!("running {program}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(anyhow!("{program} {args:?}: {}: {stderr}", output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes a sysctl of this network namespace, e.g. `net/ipv6/bindv6only`.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path = Path::new("/proc/sys").join(key);
        self.enter(|| fs::write(&path, value).with_context(|| format!("{}", path.display())))
    }

    pub(crate) fn on_keeper<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (tell, told) = channel();
        let job: Job = Box::new(move || drop(tell.send(work())));
        let jobs = self.jobs.as_ref().context("keeper thread has ended")?;
        jobs.send(job).map_err(|_| anyhow!("keeper thread has ended"))?;
        told.recv().context("keeper thread died at work")
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(keeper) = self.keeper.take() {
            // A panic on the keeper was already reported to the caller whose job it was.
            drop(keeper.join());
        }
    }
}

fn leave_host() -> Result<(ns::Handles, i32)> {
    ns::leave(UnshareFlags::NEWNET | UnshareFlags::NEWNS)?;
    // Else the mounts that follow would appear on the host too.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    Ok((ns::Handles::of_this_thread()?, gettid().as_raw_pid()))
}
