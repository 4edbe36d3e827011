//! One remembered process: its folder's descriptor, what does not change while it lives, and its description at one moment.
//! Must not judge.

use std::path::Path;
use std::time::Duration;

use gwready_core::decode::proc_status::ProcStatus;
use gwready_core::facts::processes::{Pod, Process, Readable, RunState};
use gwready_core::time::Mono;

use super::cgroups::Cgroups;
use super::pods::PodNames;
use super::procfs_root::{Fault, ProcRoot, ProcessDir};

/// What a process rarely changes is read anew after this long, at once if it runs another program or has another parent.
const CREDENTIALS_AGE: Duration = Duration::from_secs(5);
/// The limit of descriptors is read anew after this long, and each time while none is free: what it decides is a verdict.
const LIMIT_AGE: Duration = Duration::from_secs(1);
/// A process seen for less than this long is read whole each time: privileges are dropped and limits set at a start.
const YOUNG: Duration = Duration::from_secs(2);

/// A process that holds a socket of ours, or is an Envoy.
#[derive(Debug)]
pub(super) struct Tracked {
    /// Its folder.
    pub dir: ProcessDir,
    /// Start time when it was first seen; another one means another process.
    start_ticks: u64,
    /// Resolved when its cgroup text changes.
    pub cgroups: Option<Cgroups>,
    first_described: Option<Mono>,
    credentials: Option<Box<Credentials>>,
    /// Soft `RLIMIT_NOFILE`, and when it was read.
    open_files_limit: Option<(Mono, Option<u64>)>,
}

/// Identity and privileges: as much of the cost of a description as all the rest, and all but constant.
#[derive(Debug)]
struct Credentials {
    read_at: Mono,
    exe: Readable<String>,
    status: ProcStatus,
    parent_name: Option<String>,
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
        Ok(Self { dir, start_ticks, cgroups: None, first_described: None, credentials: None, open_files_limit: None })
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
        self.refresh_cgroups(around.cgroup_root);
        let own_netns = around.own_netns;
        let credentials = self.credentials(around, u32::try_from(stat.ppid).unwrap_or_default())?;
        let status = credentials.status;
        let (exe, parent_name) = (credentials.exe.clone(), credentials.parent_name.clone());
        let open_files = self.dir.open_files();
        let open_files_limit = self.open_files_limit(around.now, open_files);
        Ok(Process {
            pid: self.dir.pid(),
            start_ticks: stat.starttime,
            exe,
            comm: stat.comm,
            uid: status.uid,
            no_new_privs: status.no_new_privs,
            cap_effective: status.cap_effective,
            cap_permitted: status.cap_permitted,
            parent: status.parent,
            parent_name,
            state: run_state(stat.state, stat.num_threads),
            frozen: self.cgroups.as_ref().and_then(Cgroups::frozen),
            same_netns: self.dir.netns().and_then(|netns| own_netns.map(|own| own == netns)),
            pod: self.pod(around),
            open_files,
            open_files_limit,
        })
    }

    /// As last read, if that may stand.
    fn credentials(&mut self, around: &Surroundings<'_>, parent: u32) -> Result<&Credentials, Fault> {
        let now = around.now;
        let exe = self.dir.exe();
        let young = now.since(*self.first_described.get_or_insert(now)) < YOUNG;
        let stands = |known: &Credentials| known.exe == exe && known.status.parent == parent && now.since(known.read_at) < CREDENTIALS_AGE;
        match self.credentials.take().filter(|known| !young && stands(known)) {
            Some(known) => Ok(self.credentials.insert(known)),
            None => {
                let status = self.dir.status()?;
                let parent_name = around.root.name_of(status.parent);
                let credentials = Credentials { read_at: now, exe, status, parent_name };
                Ok(self.credentials.insert(Box::new(credentials)))
            }
        }
    }

    /// As last read, if that may stand: not for a young process, nor for one that has so many open.
    fn open_files_limit(&mut self, now: Mono, open: Option<u64>) -> Option<u64> {
        let young = self.first_described.is_none_or(|first| now.since(first) < YOUNG);
        let exhausted = |limit: Option<u64>| open.zip(limit).is_some_and(|(open, limit)| open >= limit);
        let stands = |(read_at, limit): &(Mono, Option<u64>)| !young && now.since(*read_at) < LIMIT_AGE && !exhausted(*limit);
        let known = self.open_files_limit.filter(stands).unwrap_or_else(|| (now, self.dir.open_files_limit()));
        self.open_files_limit.insert(known).1
    }

    fn refresh_cgroups(&mut self, cgroup_root: &Path) {
        match self.dir.read("cgroup") {
            Ok(text) if self.cgroups.as_ref().is_some_and(|known| known.is_of(&text)) => {}
            Ok(text) => self.cgroups = Some(Cgroups::resolve(cgroup_root, self.dir.pid(), text)),
            Err(Fault::Exhausted(_)) => {}
            Err(Fault::Gone | Fault::Refused(_) | Fault::Failed(_)) => self.cgroups = None,
        }
    }

    fn pod(&self, around: &mut Surroundings<'_>) -> Option<Pod> {
        let place = &self.cgroups.as_ref()?.place;
        let uid = place.pod_uid.clone()?;
        let (namespace, name) = around.pods.of(&uid, around.now).unzip();
        Some(Pod { uid, container_id: place.container_id.clone(), namespace, name })
    }
}

/// Of the main thread; where that has ended and others go on, the process is alive.
const fn run_state(letter: char, threads: i64) -> RunState {
    match RunState::from_letter(letter) {
        RunState::Dead if threads > 1 => RunState::Alive,
        state => state,
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

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeProc, FakeProcess};
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    struct Scene {
        fake: FakeProc,
        root: ProcRoot,
        process: Tracked,
    }

    impl Scene {
        fn new() -> Self {
            let fake = FakeProc::new();
            fake.write(&FakeProcess::new(20, "cilium-envoy", &[]));
            let root = ProcRoot::open(fake.path()).unwrap();
            let process = Tracked::new(root.process(20).unwrap()).unwrap();
            Self { fake, root, process }
        }

        /// Uid and limit as reported at `seconds`.
        fn at(&mut self, seconds: u64) -> (u32, Option<u64>) {
            let mut pods = PodNames::new(self.fake.path().join("pods"));
            let now = Mono(seconds * SECOND);
            let mut around =
                Surroundings { root: &self.root, cgroup_root: &self.fake.path().join("cgroup"), pods: &mut pods, own_netns: None, now };
            let process = self.process.describe(&mut around).unwrap();
            (process.uid, process.open_files_limit)
        }

        fn rewrite(&self, name: &str, from: &str, to: &str) {
            let path = self.fake.of(20).join(name);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            std::fs::write(path, text.replace(from, to)).unwrap();
        }
    }

    #[test]
    fn credentials_are_read_each_time_at_first_and_then_every_few_seconds() {
        let mut scene = Scene::new();
        assert_eq!(scene.at(100), (0, Some(1024)));
        scene.rewrite("status", "Uid:\t0", "Uid:\t7");
        scene.rewrite("limits", "1024 ", "200000 ");
        assert_eq!(scene.at(101), (7, Some(200000)), "young");
        scene.rewrite("status", "Uid:\t7", "Uid:\t8");
        scene.rewrite("limits", "200000 ", "400000 ");
        assert_eq!(scene.at(102), (7, Some(400000)), "the limit is a second old");
        scene.rewrite("limits", "400000 ", "800000 ");
        assert_eq!(scene.at(102), (7, Some(400000)), "as just read");
        assert_eq!(scene.at(105), (7, Some(800000)), "as of second 101");
        assert_eq!(scene.at(106).0, 8);
    }

    #[test]
    fn a_limit_without_a_free_descriptor_is_read_each_time() {
        let mut scene = Scene::new();
        scene.at(100);
        // More are open than 1: the folder's size counts them, less than 200000 with any file system.
        scene.rewrite("limits", "1024 ", "1    ");
        assert_eq!(scene.at(102).1, Some(1));
        scene.rewrite("limits", "1    ", "200000 ");
        assert_eq!(scene.at(102).1, Some(200000));
    }

    #[test]
    fn another_program_and_another_parent_are_new_credentials_at_once() {
        let mut scene = Scene::new();
        scene.at(100);
        scene.at(101);
        scene.rewrite("status", "Uid:\t0", "Uid:\t7");
        std::fs::remove_file(scene.fake.of(20).join("exe")).unwrap();
        std::os::unix::fs::symlink("/usr/bin/nginx", scene.fake.of(20).join("exe")).unwrap();
        assert_eq!(scene.at(104).0, 7);
        scene.rewrite("status", "Uid:\t7", "Uid:\t8");
        scene.rewrite("status", "PPid:\t1", "PPid:\t19");
        let mut orphan = FakeProcess::new(20, "nginx", &[]);
        orphan.parent = 19;
        scene.fake.write_stat(&orphan);
        assert_eq!(scene.at(105).0, 8);
    }
}
