//! One remembered process: its folder's descriptor, what does not change while it lives, and its description at one moment.
//! Must not judge.

use std::path::Path;

use gwready_core::facts::processes::{Pod, Process, Readable, RunState};
use gwready_core::time::Mono;

use super::cgroups::Cgroups;
use super::pods::PodNames;
use super::procfs_root::{Fault, ProcRoot, ProcessDir};

/// A process that holds a socket of ours, or is an Envoy.
#[derive(Debug)]
pub(super) struct Tracked {
    /// Its folder.
    pub dir: ProcessDir,
    /// Start time when it was first seen; another one means another process.
    start_ticks: u64,
    /// Resolved when its cgroup text changes.
    pub cgroups: Option<Cgroups>,
}

/// What the description needs besides the process.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub root: &'a ProcRoot,
    pub cgroup_root: &'a Path,
    pub pods: &'a mut PodNames,
    pub own_netns: Option<u64>,
    pub now: Mono,
}

impl Tracked {
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(super) fn new(dir: ProcessDir) -> Result<Self, Fault> {
        let start_ticks = dir.stat()?.starttime;
        Ok(Self { dir, start_ticks, cgroups: None })
    }

    /// Still the process that was first seen, by pid and start time.
    pub(super) const fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Reads everything that is reported about it.
    ///
    /// # Errors
    /// [`Fault::Gone`] also when the pid belongs to another process now.
    pub(super) fn describe(&mut self, around: &mut Surroundings<'_>) -> Result<Process, Fault> {
        let stat = self.dir.stat()?;
        if stat.starttime != self.start_ticks {
            return Err(Fault::Gone);
        }
        let status = self.dir.status()?;
        self.refresh_cgroups(around.cgroup_root);
        let own_netns = around.own_netns;
        Ok(Process {
            pid: self.dir.pid(),
            start_ticks: stat.starttime,
            exe: self.dir.exe(),
            comm: stat.comm,
            uid: status.uid,
            no_new_privs: status.no_new_privs,
            cap_effective: status.cap_effective,
            cap_permitted: status.cap_permitted,
            parent: status.parent,
            parent_name: around.root.name_of(status.parent),
            state: RunState::from_letter(stat.state),
            frozen: self.cgroups.as_ref().and_then(Cgroups::frozen),
            same_netns: self.dir.netns().and_then(|netns| own_netns.map(|own| own == netns)),
            pod: self.pod(around),
            open_files: self.dir.open_files(),
            open_files_limit: self.dir.open_files_limit(),
        })
    }

    fn refresh_cgroups(&mut self, cgroup_root: &Path) {
        match self.dir.read("cgroup") {
            Ok(text) if self.cgroups.as_ref().is_some_and(|known| known.is_of(&text)) => {}
            Ok(text) => self.cgroups = Some(Cgroups::resolve(cgroup_root, self.dir.pid(), text)),
            Err(_) => self.cgroups = None,
        }
    }

    fn pod(&self, around: &mut Surroundings<'_>) -> Option<Pod> {
        let place = &self.cgroups.as_ref()?.place;
        let uid = place.pod_uid.clone()?;
        let (namespace, name) = around.pods.of(&uid, around.now).unzip();
        Some(Pod { uid, container_id: place.container_id.clone(), namespace, name })
    }
}

/// Whether a process counts as an Envoy: by executable or, where that is hidden, by comm (cut at 15 bytes by the kernel).
pub(super) fn is_envoy(exe: &Readable<String>, comm: impl FnOnce() -> Option<String>, envoy_exe: &str) -> bool {
    match exe {
        Readable::Is(exe) => exe == envoy_exe,
        Readable::Hidden(_) => comm().is_some_and(|comm| comm.as_bytes() == cut(envoy_exe)),
    }
}

fn cut(name: &str) -> &[u8] {
    name.as_bytes().get(..15).unwrap_or(name.as_bytes())
}
