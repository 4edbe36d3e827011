//! The reader over a small fake procfs: what is remembered, what is searched, what is reported.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use gwready_core::facts::processes::{Holders, Owners, Readable};
use gwready_core::facts::sockets::{Listener, SocketId};
use gwready_core::facts::{Reading, Why};

use super::fake::{FakeProc, FakeProcess};
use super::{OwnerReader, Settings};

const BOUND: Duration = Duration::from_secs(20);

fn listener(inode: u64, cookie: u64) -> Listener {
    Listener::bound_to(SocketId { inode, cookie }, (Ipv4Addr::UNSPECIFIED, 80).into())
}

fn listeners(inodes: &[u64]) -> Vec<Listener> {
    inodes.iter().map(|inode| listener(*inode, *inode)).collect()
}

struct Reader {
    reader: OwnerReader,
    woken: Receiver<()>,
}

impl Reader {
    fn new(fake: &FakeProc) -> Self {
        let (send, woken) = channel();
        let settings = Settings {
            proc_root: fake.path().to_owned(),
            cgroup_root: fake.path().join("cgroup"),
            pod_logs: fake.path().join("pods"),
            first_walk: BOUND,
            ..Settings::default()
        };
        let wake = Arc::new(move || {
            let _ = send.send(());
        });
        Self { reader: OwnerReader::new(settings, wake), woken }
    }

    fn read(&mut self, listeners: &[Listener]) -> Owners {
        match self.reader.read(listeners) {
            Reading::Observed { value, window } => {
                assert!(window.begin <= window.end);
                value
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reads, and again after each wake, until no walk is under way or due any more.
    fn settle(&mut self, listeners: &[Listener]) -> Owners {
        let mut owners = self.read(listeners);
        while self.reader.searching() {
            self.woken.recv_timeout(BOUND).expect("a walk under way wakes the reader");
            owners = self.read(listeners);
        }
        owners
    }

    fn walked_at(&self) -> gwready_core::time::Mono {
        self.reader.last_walk.as_ref().unwrap().begin
    }
}

/// Envoy holds socket 77, and one read has found that.
fn envoy_at_work() -> (FakeProc, Reader) {
    let fake = FakeProc::new();
    fake.write(&FakeProcess::new(20, "cilium-envoy", &[(7, 77)]));
    let mut reader = Reader::new(&fake);
    reader.read(&listeners(&[77]));
    (fake, reader)
}

#[track_caller]
fn held_by(owners: &Owners, inode: u64) -> (Vec<u32>, bool) {
    match owners.holders.get(&inode) {
        Some(Holders::Known { pids, complete }) => (pids.clone(), *complete),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_read_answers_with_holder_envoy_pod_and_limits() {
    let fake = FakeProc::new();
    let uid = "0fca34b1-9a3e-4c3d-8a69-5a9e3f6b7c21";
    let container = "8f3c0a5d1b7e9246f0a1b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f8";
    let mut envoy = FakeProcess::new(20, "cilium-envoy", &[(7, 77)]);
    envoy.parent = 19;
    envoy.cgroup = format!("0::/kubepods/burstable/pod{uid}/{container}\n");
    fake.write(&FakeProcess::new(19, "cilium-envoy-starter", &[]));
    fake.write(&envoy);
    std::fs::create_dir_all(fake.path().join(format!("pods/kube-system_cilium-envoy-x_{uid}"))).unwrap();

    let mut reader = Reader::new(&fake);
    let owners = reader.read(&listeners(&[77]));
    assert_eq!(held_by(&owners, 77), (vec![20], true));
    assert_eq!((owners.envoys.as_slice(), owners.envoys_complete), ([20].as_slice(), true));
    assert_eq!(owners.unprivileged_port_start, Some(1024));
    let process = &owners.processes[&20];
    assert_eq!(process.exe, Readable::Is("cilium-envoy".to_owned()));
    assert_eq!((process.parent, process.parent_name.as_deref()), (19, Some("cilium-envoy-starter")));
    assert_eq!((process.no_new_privs, process.cap_effective, process.open_files_limit), (Some(true), Some(0x400), Some(1024)));
    let pod = process.pod.as_ref().unwrap();
    assert_eq!((pod.uid.as_str(), pod.container_id.as_deref()), (uid, Some(container)));
    assert_eq!((pod.namespace.as_deref(), pod.name.as_deref()), (Some("kube-system"), Some("cilium-envoy-x")));
}

#[test]
fn the_steady_state_never_walks() {
    let (_fake, mut reader) = envoy_at_work();
    let walked = reader.walked_at();
    for _ in 0..50 {
        assert_eq!(held_by(&reader.read(&listeners(&[77])), 77), (vec![20], true));
    }
    assert!(!reader.reader.searching());
    assert_eq!(reader.walked_at(), walked);
}

#[test]
fn a_new_socket_of_a_known_process_is_found_within_the_pass_and_walked_for_once() {
    let (fake, mut reader) = envoy_at_work();
    fake.open_socket(20, 9, 99);
    assert_eq!(held_by(&reader.read(&listeners(&[77, 99])), 99), (vec![20], false));
    assert_eq!(held_by(&reader.settle(&listeners(&[77, 99])), 99), (vec![20], true));
    let walked = reader.walked_at();
    reader.settle(&listeners(&[77, 99]));
    assert_eq!(reader.walked_at(), walked);
}

#[test]
fn a_socket_of_a_stranger_is_unknown_until_the_walk_has_found_it() {
    let (fake, mut reader) = envoy_at_work();
    fake.write(&FakeProcess::new(30, "nginx", &[(5, 88)]));
    fake.write(&FakeProcess::new(31, "nginx", &[(5, 88)]));
    let during = reader.read(&listeners(&[77, 88]));
    assert_eq!(during.holders[&88], Holders::Searching("the search is still running".to_owned()));
    let after = reader.settle(&listeners(&[77, 88]));
    assert_eq!(held_by(&after, 88), (vec![30, 31], true));
    assert_eq!(after.processes.keys().copied().collect::<Vec<_>>(), [20, 30, 31]);
}

#[test]
fn who_is_said_to_have_begun_to_listen_is_asked_at_once() {
    let (fake, mut reader) = envoy_at_work();
    fake.write(&FakeProcess::new(30, "nginx", &[(5, 88)]));
    // Gone, another one's pid, and the right one; before the socket can be seen, and not lost until it is.
    reader.reader.note_openers([4711, 1, 30]);
    reader.read(&listeners(&[77]));
    assert_eq!(held_by(&reader.read(&listeners(&[77, 88])), 88), (vec![30], false));
    assert_eq!(held_by(&reader.settle(&listeners(&[77, 88])), 88), (vec![30], true), "the walk says that nobody else holds it");
}

#[test]
fn of_several_holders_the_one_that_ends_is_left_out_at_once_and_its_successor_found() {
    let fake = FakeProc::new();
    for pid in [30, 31] {
        fake.write(&FakeProcess::new(pid, "nginx", &[(5, 88)]));
    }
    fake.write(&FakeProcess::new(20, "cilium-envoy", &[]));
    let mut reader = Reader::new(&fake);
    reader.read(&listeners(&[88]));
    fake.end(30);
    let owners = reader.read(&listeners(&[88]));
    assert_eq!(held_by(&owners, 88), (vec![31], true));
    assert!(!owners.processes.contains_key(&30));
    // The walk for a successor has a pause that depends on the machine; one that is there by then is found.
    fake.write(&FakeProcess::new(32, "nginx", &[(5, 88)]));
    reader.settle(&listeners(&[88]));
    fake.end(31);
    assert_eq!(held_by(&reader.settle(&listeners(&[88])), 88), (vec![32], true));
}

#[test]
fn a_closed_descriptor_with_a_second_copy_in_the_same_process_keeps_the_holder() {
    let fake = FakeProc::new();
    fake.write(&FakeProcess::new(20, "cilium-envoy", &[(7, 77), (8, 77)]));
    let mut reader = Reader::new(&fake);
    reader.read(&listeners(&[77]));
    // Whichever of the two was remembered.
    for fd in [7, 8] {
        fake.close(20, fd);
        fake.open_socket(20, fd + 10, 77);
        assert_eq!(held_by(&reader.read(&listeners(&[77])), 77).0, [20]);
    }
}

#[test]
fn a_reused_pid_is_another_process() {
    let fake = FakeProc::new();
    let mut process = FakeProcess::new(20, "cilium-envoy", &[(7, 77)]);
    fake.write(&process);
    let mut reader = Reader::new(&fake);
    assert_eq!(reader.read(&listeners(&[77])).processes[&20].start_ticks, 200);
    process.start_ticks = 999;
    fake.write_stat(&process);
    let during = reader.read(&listeners(&[77]));
    assert!(matches!(during.holders[&77], Holders::Searching(_)), "{during:?}");
    assert_eq!(reader.settle(&listeners(&[77])).processes[&20].start_ticks, 999);
}

#[test]
fn a_reused_inode_number_is_another_socket_and_searched_for_again() {
    let (fake, mut reader) = envoy_at_work();
    // The new socket has number and descriptor of the old one, and one more holder.
    fake.write(&FakeProcess::new(30, "nginx", &[(5, 77)]));
    assert_eq!(held_by(&reader.settle(&[listener(77, 4711)]), 77), (vec![20, 30], true));
}

#[test]
fn a_restarted_envoy_is_found_by_the_next_read_among_new_processes() {
    let (fake, mut reader) = envoy_at_work();
    fake.end(20);
    let gone = reader.read(&[]);
    assert_eq!((gone.envoys.as_slice(), gone.envoys_complete), ([].as_slice(), true), "absence is proven at once");
    // Born under another name; execs later.
    let mut newborn = FakeProcess::new(40, "runc", &[]);
    fake.write(&newborn);
    assert!(reader.read(&[]).envoys.is_empty());
    newborn = FakeProcess::new(40, "cilium-envoy", &[]);
    fake.end(40);
    fake.write(&newborn);
    assert_eq!(reader.read(&[]).envoys, [40]);
    assert!(!reader.reader.searching(), "no walk was needed");
}

#[test]
fn more_new_processes_than_a_read_can_name_do_not_undo_the_absence_of_envoy() {
    let fake = FakeProc::new();
    let mut reader = Reader::new(&fake);
    assert!(reader.settle(&[]).envoys_complete);
    fake.write(&FakeProcess::new(100, "cilium-envoy", &[]));
    for pid in 1_000..2_000 {
        fake.write(&FakeProcess::new(pid, "busy", &[]));
    }
    let owners = reader.read(&[]);
    assert!(owners.envoys.is_empty() && owners.envoys_complete, "the newest are named first, and there is no time for all");
    let found = (0..1_000).any(|_| reader.read(&[]).envoys == [100]);
    assert!(found, "later reads name the rest");
}

#[test]
fn a_walk_after_the_last_sight_of_envoy_proves_its_absence_where_a_read_has_no_time_for_it() {
    let (fake, mut reader) = envoy_at_work();
    for pid in 1_000..2_000 {
        fake.write(&FakeProcess::new(pid, "busy", &[]));
    }
    reader.settle(&listeners(&[77]));
    fake.end(20);
    fake.write(&FakeProcess::new(5_000, "nginx", &[(5, 88)]));
    assert!(!reader.read(&listeners(&[88])).envoys_complete, "there is no time within a read to name them all");
    let owners = reader.settle(&listeners(&[88]));
    assert_eq!(held_by(&owners, 88).0, [5_000]);
    assert!(owners.envoys.is_empty() && owners.envoys_complete);
}

#[test]
fn half_a_search_says_so_until_every_process_is_named() {
    let fake = FakeProc::new();
    fake.write(&FakeProcess::new(20, "cilium-envoy", &[]));
    let mut reader = Reader::new(&fake);
    assert_eq!(reader.settle(&[]).envoys, [20]);
    assert!(!reader.reader.half_searched(), "an Envoy is found");
    for pid in 1_000..3_000 {
        fake.write(&FakeProcess::new(pid, "busy", &[]));
    }
    fake.end(20);
    let mut owners = reader.read(&[]);
    assert!(!owners.envoys_complete && reader.reader.half_searched(), "there is no time within a read to name them all");
    for _ in 0..2_000 {
        if !reader.reader.half_searched() {
            break;
        }
        owners = reader.read(&[]);
    }
    assert!(!reader.reader.half_searched() && owners.envoys.is_empty() && owners.envoys_complete);
}

#[test]
fn who_takes_the_time_names_any_number_of_new_processes_in_one_read() {
    let fake = FakeProc::new();
    fake.write(&FakeProcess::new(20, "cilium-envoy", &[]));
    let mut reader = Reader::new(&fake);
    reader.settle(&[]);
    for pid in 1_000..3_000 {
        fake.write(&FakeProcess::new(pid, "busy", &[]));
    }
    fake.end(20);
    reader.reader.take_time(BOUND);
    let owners = reader.read(&[]);
    assert!(owners.envoys.is_empty() && owners.envoys_complete && !reader.reader.half_searched());
}

#[test]
fn an_envoy_of_another_network_namespace_is_not_ours() {
    let fake = FakeProc::new();
    let mut other = FakeProcess::new(20, "cilium-envoy", &[]);
    other.same_netns = false;
    fake.write(&other);
    fake.write(&FakeProcess::new(21, "cilium-envoy", &[]));
    assert_eq!(Reader::new(&fake).read(&[]).envoys, [21]);
}

#[test]
fn where_namespaces_are_hidden_only_an_envoy_that_holds_our_socket_counts_as_started() {
    let fake = FakeProc::new();
    for (pid, sockets) in [(501, &[][..]), (502, &[]), (503, &[(7, 9000)])] {
        let start_ticks = crate::clock::boot().as_secs() * rustix::param::clock_ticks_per_second();
        fake.write(&FakeProcess { start_ticks, ..FakeProcess::new(pid, "cilium-envoy", sockets) });
        std::fs::remove_file(fake.of(pid).join("ns/net")).unwrap();
    }
    let owners = Reader::new(&fake).settle(&listeners(&[9000]));
    assert_eq!(owners.envoys, [501, 502, 503], "none is known to be elsewhere");
    assert_eq!(owners.envoy_starts.len(), 1, "{:?}", owners.envoy_starts);
}

#[test]
fn where_the_executable_is_hidden_comm_finds_the_envoy() {
    let fake = FakeProc::new();
    let mut hidden = FakeProcess::new(20, "cilium-envoy", &[]);
    hidden.exe = None;
    fake.write(&hidden);
    let mut imitator = FakeProcess::new(30, "nginx", &[]);
    imitator.comm = "cilium-envoy";
    fake.write(&imitator);
    let owners = Reader::new(&fake).read(&[]);
    assert_eq!(owners.envoys, [20]);
    assert!(owners.processes[&20].exe.get().is_none());
}

#[test]
fn a_procfs_that_hides_processes_proves_nothing() {
    let fake = FakeProc::new();
    fake.write(&FakeProcess::new(30, "nginx", &[(5, 88)]));
    fake.end(1);
    let owners = Reader::new(&fake).read(&listeners(&[88, 89]));
    assert_eq!(held_by(&owners, 88), (vec![30], false));
    let Holders::Unknown(why) = &owners.holders[&89] else { panic!("{owners:?}") };
    assert!(why.contains("hidepid"), "{why}");
    assert!(owners.envoys.is_empty() && !owners.envoys_complete);
}

#[test]
fn a_listener_that_no_process_holds_shows_that_this_procfs_is_not_the_whole_node() {
    let fake = FakeProc::new();
    let owners = Reader::new(&fake).read(&listeners(&[77]));
    assert_eq!(owners.holders[&77], Holders::Unknown("no process of this /proc holds it".to_owned()));
    assert!(!owners.envoys_complete);
}

#[test]
fn an_envoy_with_fifty_thousand_descriptors_is_left_to_the_walk_and_found() {
    let (fake, mut reader) = envoy_at_work();
    for fd in 100..50_000 {
        fake.open_socket(20, fd, u64::from(fd) + 1_000_000);
    }
    let new = [77, 1_049_999, 1_025_000, 1_000_100];
    let during = reader.read(&listeners(&new));
    assert_eq!(held_by(&during, 77).0, [20], "the verified one does not depend on the search");
    let open = new.iter().filter(|inode| matches!(during.holders[inode], Holders::Searching(_))).count();
    assert!(open > 0, "50,000 descriptors were searched within a pass");
    let after = reader.settle(&listeners(&new));
    for inode in new {
        assert_eq!(held_by(&after, inode), (vec![20], true));
    }
}

#[test]
fn a_procfs_that_is_not_there_is_unavailable() {
    let settings = Settings { proc_root: "/nonexistent".into(), ..Settings::default() };
    let mut reader = OwnerReader::new(settings, Arc::new(|| {}));
    let unavailable = reader.read(&[]);
    assert_eq!(unavailable.unavailable().map(|unavailable| unavailable.why), Some(Why::Absent), "{unavailable:?}");
}

#[test]
fn ancestors_end_at_the_container_and_never_include_a_shell() {
    let fake = FakeProc::new();
    let container = "8f3c0a5d1b7e9246f0a1b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f8";
    let (inside, outside) = (format!("0::/kubepods/pod1/{container}\n"), "0::/system.slice/containerd.service\n".to_owned());
    for (pid, parent, exe, cgroup) in [
        (18, 1, "containerd-shim", &outside),
        (19, 18, "cilium-agent", &inside),
        (20, 19, "cilium-envoy-starter", &inside),
        (21, 20, "cilium-envoy", &inside),
        (30, 1, "bash", &outside),
        (31, 30, "cilium-envoy", &outside),
        (32, 30, "cilium-envoy-starter", &outside),
        (33, 32, "cilium-envoy", &outside),
    ] {
        let mut process = FakeProcess::new(pid, exe, &[]);
        process.parent = parent;
        process.cgroup = cgroup.clone();
        fake.write(&process);
    }
    let mut reader = Reader::new(&fake);
    reader.read(&[]);
    assert_eq!(reader.reader.ancestors(21), [21, 20, 19]);
    assert_eq!(reader.reader.ancestors(31), [31]);
    assert_eq!(reader.reader.ancestors(33), [33, 32]);
    assert!(reader.reader.ancestors(99).is_empty());
}
