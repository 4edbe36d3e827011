//! The owner reader against the real /proc: shared sockets, reused pids, refusals, frozen and foreign processes. Needs root.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gwready::observe::owners::{OwnerReader, Settings};
use gwready_core::facts::Reading;
use gwready_core::facts::processes::{Holders, Owners, Process, Readable, RunState};
use gwready_core::facts::sockets::{Listener, SocketId};
use gwready_tests::paths::copy_program;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_thread_res_uid};

const BOUND: Duration = Duration::from_secs(20);

/// A listening socket, and its row as far as the owner source needs it.
struct Socket {
    listener: TcpListener,
    inode: u64,
}

impl Socket {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let inode = rustix::fs::fstat(&listener).unwrap().st_ino;
        Self { listener, inode }
    }

    fn row(&self) -> Listener {
        row(self.inode)
    }

    /// A copy for a child's standard input: inherited by that child alone.
    fn copy(&self) -> OwnedFd {
        self.listener.as_fd().try_clone_to_owned().unwrap()
    }
}

fn row(inode: u64) -> Listener {
    Listener::bound_to(SocketId { inode, cookie: inode }, (Ipv4Addr::LOCALHOST, 80).into())
}

/// A process that this test started and ends.
struct Running(Child);

impl Running {
    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A real program under another name.
struct Program {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        rustix::fs::chmod(folder.path(), rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        let path = folder.path().join(name);
        copy_program(Path::new("/bin/sleep"), &path).unwrap();
        Self { folder, path }
    }

    fn start(&self, socket: Option<&Socket>) -> Running {
        self.start_by(Command::new(&self.path).arg("600"), socket)
    }

    /// Started by another program, waited for until it is this one.
    fn start_by(&self, command: &mut Command, socket: Option<&Socket>) -> Running {
        let stdin = socket.map_or_else(Stdio::null, |socket| socket.copy().into());
        let running = Running(command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let exe = format!("/proc/{}/exe", running.pid());
        eventually("exec", || fs::read_link(&exe).is_ok_and(|link| link == self.path).then_some(()));
        running
    }
}

#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < BOUND, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Reader {
    reader: OwnerReader,
    woken: Receiver<()>,
}

impl Reader {
    fn new() -> Self {
        Self::with(Settings { first_walk: BOUND, ..Settings::default() })
    }

    fn with(settings: Settings) -> Self {
        let (send, woken) = channel();
        let wake = Arc::new(move || {
            let _ = send.send(());
        });
        Self { reader: OwnerReader::new(settings, wake), woken }
    }

    #[track_caller]
    fn read(&mut self, rows: &[Listener]) -> Owners {
        match self.reader.read(rows) {
            Reading::Observed { value, .. } => value,
            other => panic!("{other:?}"),
        }
    }

    /// Reads after each wake until the facts are as wanted.
    #[track_caller]
    fn read_until(&mut self, rows: &[Listener], wanted: impl Fn(&Owners) -> bool) -> Owners {
        let begin = Instant::now();
        loop {
            let owners = self.read(rows);
            if wanted(&owners) {
                return owners;
            }
            assert!(begin.elapsed() < BOUND, "{owners:#?}");
            let _ = self.woken.recv_timeout(Duration::from_millis(100));
        }
    }
}

/// Holders besides this test's own process.
#[track_caller]
fn holders(owners: &Owners, inode: u64) -> Vec<u32> {
    match owners.holders.get(&inode) {
        Some(Holders::Known { pids, .. }) => pids.iter().copied().filter(|pid| *pid != std::process::id()).collect(),
        other => panic!("{other:?}"),
    }
}

fn unknown(owners: &Owners, inode: u64) -> Option<&str> {
    match owners.holders.get(&inode) {
        Some(Holders::Unknown(why)) => Some(why),
        _ => None,
    }
}

#[test]
fn a_socket_shared_by_two_processes_has_two_holders_and_each_is_described() {
    let (socket, program) = (Socket::new(), Program::named("nginx"));
    let (mut first, second) = (program.start(Some(&socket)), program.start(Some(&socket)));
    let mut reader = Reader::new();
    let owners = reader.read(&[socket.row()]);
    let mut expected = vec![first.pid(), second.pid()];
    expected.sort_unstable();
    assert_eq!(holders(&owners, socket.inode), expected);

    let process = &owners.processes[&first.pid()];
    assert_eq!((&process.exe, process.comm.as_str()), (&Readable::Is("nginx".to_owned()), "nginx"));
    assert_eq!((process.uid, process.parent, process.state), (0, std::process::id(), RunState::Alive));
    assert_eq!((process.no_new_privs, process.same_netns), (Some(false), Some(true)));
    let listed = fs::read_dir(format!("/proc/{}/fd", first.pid())).unwrap().count();
    assert_eq!(process.open_files, Some(u64::try_from(listed).unwrap()), "counted without listing");
    let limits = fs::read_to_string(format!("/proc/{}/limits", first.pid())).unwrap();
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
    assert_eq!(process.open_files_limit, soft);

    first.end();
    let owners = reader.read(&[socket.row()]);
    assert_eq!(holders(&owners, socket.inode), [second.pid()], "by the next read");
    assert!(!owners.processes.contains_key(&first.pid()));
}

#[test]
fn a_deleted_executable_keeps_its_name() {
    let (socket, program) = (Socket::new(), Program::named("cilium-envoy"));
    let envoy = program.start(Some(&socket));
    fs::remove_file(&program.path).unwrap();
    assert!(fs::read_link(format!("/proc/{}/exe", envoy.pid())).unwrap().to_string_lossy().ends_with(" (deleted)"));
    let owners = Reader::new().read(&[socket.row()]);
    assert_eq!(owners.processes[&envoy.pid()].exe, Readable::Is("cilium-envoy".to_owned()));
    assert!(owners.envoys.contains(&envoy.pid()));
    drop(program.folder);
}

#[test]
fn a_restarted_envoy_is_found_and_each_start_is_noted() {
    let (socket, program) = (Socket::new(), Program::named("restarted-envoy"));
    let settings = Settings { envoy_exe: "restarted-envoy".to_owned(), first_walk: BOUND, ..Settings::default() };
    let mut reader = Reader::with(settings);
    let mut first = program.start(Some(&socket));
    let owners = reader.read(&[socket.row()]);
    assert_eq!((owners.envoys.as_slice(), owners.envoy_starts.len()), ([first.pid()].as_slice(), 1));
    first.end();
    let owners = reader.read(&[]);
    assert!(owners.envoys.is_empty() && owners.envoys_complete, "{owners:?}");
    let before = gwready::clock::mono();
    let second = program.start(None);
    let owners = reader.read_until(&[], |owners| owners.envoys == [second.pid()]);
    assert_eq!(owners.envoy_starts.len(), 2);
    let started = *owners.envoy_starts.last().unwrap();
    // A start time is cut to whole ticks of 10 ms.
    assert!(started.plus(Duration::from_millis(11)) >= before && started <= gwready::clock::mono(), "{started:?} is not after {before:?}");
}

#[test]
fn a_pid_that_was_given_to_another_process_is_not_the_old_owner() {
    let (socket, old, new) = (Socket::new(), Program::named("old-owner"), Program::named("new-owner"));
    let mut reader = Reader::new();
    let mut owner = old.start(Some(&socket));
    let pid = owner.pid();
    let before = reader.read(&[socket.row()]).processes[&pid].clone();
    owner.end();
    // Others fork too: the kernel gives the number only to who comes first.
    let again = eventually("the same pid", || {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let taken = new.start(Some(&socket));
        (taken.pid() == pid).then_some(taken)
    });
    // The new process has the same socket under the same number, and is still not who was remembered.
    let during = reader.read(&[socket.row()]);
    assert!(!during.processes.contains_key(&pid), "{during:?}");
    assert!(reader.reader.searching(), "a lost holder is followed by one walk");
    let after = reader.read_until(&[socket.row()], |owners| owners.processes.contains_key(&again.pid()));
    let process = &after.processes[&pid];
    assert_eq!(process.exe, Readable::Is("new-owner".to_owned()));
    // That clock ticks a hundred times a second: both may have begun in the same tick, which is why it alone proves nothing.
    assert!(process.start_ticks >= before.start_ticks);
}

/// Runs in a thread of its own whose identity and capabilities are its own, as the reader's walker inherits them.
fn as_thread<T: Send + 'static>(become_it: impl FnOnce() + Send + 'static, then: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        become_it();
        then()
    });
    thread.join().unwrap()
}

fn only(capabilities: CapabilitySet) {
    let sets = CapabilitySets { effective: capabilities, permitted: capabilities, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).unwrap();
}

fn read_as(become_it: impl FnOnce() + Send + 'static, inode: u64) -> Owners {
    as_thread(become_it, move || Reader::new().read(&[row(inode)]))
}

#[test]
fn as_nobody_the_holder_is_unknown_and_comm_is_all_that_is_known_of_envoy() {
    let (socket, program) = (Socket::new(), Program::named("cilium-envoy"));
    let envoy = program.start(Some(&socket));
    // The test's own process holds the socket too, and its own descriptors are always readable to it.
    let inode = socket.inode;
    drop(socket);
    let nobody = rustix::process::Uid::from_raw(65_534);
    let owners = read_as(move || set_thread_res_uid(nobody, nobody, nobody).unwrap(), inode);
    let why = unknown(&owners, inode).expect("no holder can be seen");
    assert!(why.contains("can't be read"), "{why}");
    assert!(owners.envoys.contains(&envoy.pid()), "{owners:?}");
    let process = &owners.processes[&envoy.pid()];
    assert!(matches!(&process.exe, Readable::Hidden(why) if why.contains("permission denied")), "{process:?}");
    assert_eq!((process.same_netns, process.uid, process.comm.as_str()), (None, 0, "cilium-envoy"));
    assert!(owners.envoys_complete, "every comm could be read");
}

#[test]
fn without_sys_ptrace_a_stronger_process_is_unknown_not_empty_handed() {
    let (socket, program) = (Socket::new(), Program::named("cilium-envoy"));
    let _envoy = program.start(Some(&socket));
    let inode = socket.inode;
    drop(socket);
    // CAP_DAC_OVERRIDE lists the folder of its descriptors; each link is refused.
    let owners = read_as(|| only(CapabilitySet::DAC_OVERRIDE | CapabilitySet::NET_BIND_SERVICE), inode);
    let why = unknown(&owners, inode).expect("no holder can be seen");
    assert!(why.contains("can't be read"), "{why}");
}

#[test]
fn an_envoy_with_ciliums_capability_is_readable_to_an_agent_with_the_same_one() {
    let (socket, program) = (Socket::new(), Program::named("cilium-envoy"));
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--bounding-set=-all,+net_bind_service", "--inh-caps=-all", "--no-new-privs"]).arg(&program.path).arg("600");
    let envoy = program.start_by(&mut setpriv, Some(&socket));
    let inode = socket.inode;
    // The command keeps its copy of the socket, and the test's own descriptors are always readable to it.
    drop((socket, setpriv));

    let with = read_as(|| only(CapabilitySet::NET_BIND_SERVICE), inode);
    assert_eq!(holders(&with, inode), [envoy.pid()]);
    let process = &with.processes[&envoy.pid()];
    assert_eq!((process.cap_effective, process.cap_permitted, process.no_new_privs), (Some(0x400), Some(0x400), Some(true)));
    assert_eq!(process.exe, Readable::Is("cilium-envoy".to_owned()));

    let without = read_as(|| only(CapabilitySet::NET_ADMIN), inode);
    assert!(unknown(&without, inode).is_some(), "{without:?}");
}

#[test]
fn an_envoy_in_another_network_namespace_is_not_ours() {
    let program = Program::named("faraway-envoy");
    let (mut elsewhere, settings) = (Command::new("unshare"), Settings { envoy_exe: "faraway-envoy".to_owned(), ..Settings::default() });
    let far = program.start_by(elsewhere.arg("--net").arg(&program.path).arg("600"), None);
    let near = program.start(None);
    let owners = Reader::with(Settings { first_walk: BOUND, ..settings }).read(&[]);
    assert_eq!(owners.envoys, [near.pid()]);
    drop(far);
}

#[test]
fn a_procfs_of_a_whole_pid_namespace_is_searched_completely() {
    let (socket, program) = (Socket::new(), Program::named("cilium-envoy"));
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(&program.path).arg("600");
    let stdin = socket.copy();
    let unshare = Running(unshare.stdin(Stdio::from(stdin)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let child = eventually("the child", || {
        let children = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        children.into_iter().find(|pid| {
            let parent = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let ours = parent.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&unshare.pid().to_string());
            ours && fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program.path)
        })
    });
    let inode = socket.inode;
    drop(socket);
    let inside = Settings { proc_root: PathBuf::from(format!("/proc/{child}/root/proc")), first_walk: BOUND, ..Settings::default() };
    let owners = Reader::with(inside).read(&[row(inode)]);
    assert_eq!(owners.holders[&inode], Holders::Known { pids: vec![1], complete: true });
    assert_eq!((owners.envoys.as_slice(), owners.envoys_complete), ([1].as_slice(), true));
}

#[test]
fn a_stopped_process_is_seen_as_stopped() {
    let (socket, program) = (Socket::new(), Program::named("nginx"));
    let owner = program.start(Some(&socket));
    let pid = rustix::process::Pid::from_raw(i32::try_from(owner.pid()).unwrap()).unwrap();
    let mut reader = Reader::new();
    let rows = [socket.row()];
    let state = |owners: &Owners| owners.processes[&owner.pid()].state;
    assert_eq!(state(&reader.read(&rows)), RunState::Alive);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    reader.read_until(&rows, |owners| state(owners) == RunState::Stopped);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    reader.read_until(&rows, |owners| state(owners) == RunState::Alive);
}

/// Listens with its second thread, tells its socket's inode, and ends its main thread alone.
const HEADLESS: &str = "import ctypes, os, platform, socket, sys, threading
listener = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=sys.stdin.read).start()
print(os.fstat(listener.fileno()).st_ino, flush=True)
ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)";

#[test]
fn a_process_whose_main_thread_has_ended_is_alive_and_holds_what_its_other_threads_hold() {
    let python = fs::canonicalize("/usr/bin/python3").unwrap();
    let mut child = Command::new(&python).args(["-c", HEADLESS]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut inode = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut inode).unwrap();
    let (pid, inode) = (child.id(), inode.trim().parse().unwrap());
    let owner = Running(child);
    eventually("the end of the main thread", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.contains(") Z ").then_some(())
    });
    let mut reader = Reader::new();
    for _ in 0..2 {
        let owners = reader.read(&[row(inode)]);
        assert_eq!(holders(&owners, inode), [pid]);
        let process = &owners.processes[&pid];
        assert_eq!(process.state, RunState::Alive);
        assert_eq!(process.exe.get().map(String::as_str), python.file_name().unwrap().to_str());
    }
    drop(owner);
    reader.read_until(&[row(inode)], |owners| !matches!(owners.holders[&inode], Holders::Known { .. }));
}

/// A cgroup that this test made.
struct Cgroup(PathBuf);

impl Cgroup {
    fn under(hierarchy: &Path) -> Self {
        let path = hierarchy.join(format!("gwready-test-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let begin = Instant::now();
        while fs::remove_dir(&self.0).is_err() && begin.elapsed() < BOUND {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Freezes and thaws; `freeze` and `thaw` are file and text.
fn assert_freezing_shows(cgroup: &Cgroup, freeze: (&str, &str), thaw: (&str, &str)) {
    let (socket, program) = (Socket::new(), Program::named("nginx"));
    let owner = program.start(Some(&socket));
    let mut reader = Reader::new();
    let rows = [socket.row()];
    let frozen = |owners: &Owners| owners.processes.get(&owner.pid()).and_then(|process: &Process| process.frozen);
    cgroup.write("cgroup.procs", &owner.pid().to_string());
    assert_eq!(frozen(&reader.read(&rows)), Some(false));
    cgroup.write(freeze.0, freeze.1);
    reader.read_until(&rows, |owners| frozen(owners) == Some(true));
    cgroup.write(thaw.0, thaw.1);
    reader.read_until(&rows, |owners| frozen(owners) == Some(false));
}

#[test]
fn the_v2_freezer_shows() {
    let root = Path::new("/sys/fs/cgroup");
    let v2 = if root.join("cgroup.controllers").exists() { root.to_owned() } else { root.join("unified") };
    assert_freezing_shows(&Cgroup::under(&v2), ("cgroup.freeze", "1"), ("cgroup.freeze", "0"));
}

#[test]
fn the_v1_freezer_shows_where_it_exists() {
    let v1 = Path::new("/sys/fs/cgroup/freezer");
    if v1.join("cgroup.procs").metadata().is_ok_and(|metadata| metadata.uid() == 0) {
        assert_freezing_shows(&Cgroup::under(v1), ("freezer.state", "FROZEN"), ("freezer.state", "THAWED"));
    } else {
        // A machine with v2 alone has nothing to freeze by v1: the v2 test is the one that counts there.
        assert!(Path::new("/sys/fs/cgroup/cgroup.controllers").exists(), "neither freezer is mounted");
    }
}
