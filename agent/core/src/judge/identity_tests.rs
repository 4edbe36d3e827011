//! The identity rules as a truth table: one test per rule, named after it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::super::testing::{self, Scene};
use super::*;
use crate::facts::processes::Pod;
use crate::facts::sockets::SocketId;

const INODE: u64 = 77;

fn listener(mark: Option<u32>, transparent: Option<bool>, uid: u32) -> Listener {
    Listener {
        uid,
        mark,
        transparent,
        drops: Some(0),
        ..Listener::bound_to(SocketId { inode: INODE, cookie: 1 }, (Ipv4Addr::UNSPECIFIED, 80).into())
    }
}

fn matching() -> Listener {
    listener(Some(0xb00), Some(true), 0)
}

fn contradicting() -> Listener {
    listener(Some(0), Some(false), 0)
}

fn unreadable() -> Listener {
    listener(None, Some(true), 0)
}

fn process(pid: u32, parent: u32, exe: Option<&str>) -> Process {
    Process {
        pid,
        start_ticks: u64::from(pid),
        exe: exe.map_or_else(|| Readable::Hidden("Permission denied".to_owned()), |exe| Readable::Is(exe.to_owned())),
        comm: "cilium-envoy".to_owned(),
        uid: 0,
        no_new_privs: Some(false),
        cap_effective: None,
        cap_permitted: None,
        parent,
        parent_name: None,
        state: RunState::Alive,
        frozen: None,
        same_netns: Some(true),
        pod: None,
        open_files: None,
        open_files_limit: None,
    }
}

fn in_container(mut process: Process, container: &str) -> Process {
    process.pod = Some(Pod { uid: "u".to_owned(), container_id: Some(container.to_owned()), namespace: None, name: None });
    process
}

fn owners(holders: &[Process]) -> Owners {
    let pids = holders.iter().map(|process| process.pid).collect();
    Owners {
        holders: BTreeMap::from([(INODE, Holders::Known { pids, complete: true })]),
        processes: holders.iter().map(|process| (process.pid, process.clone())).collect(),
        ..Owners::default()
    }
}

fn with_maps(holders: &[Process], listener: &Listener) -> Identity {
    identify(&Policy::default(), &owners(holders), listener, true)
}

fn without_maps(holders: &[Process], listener: &Listener) -> Identity {
    identify(&Policy::default(), &owners(holders), listener, false)
}

fn envoy(pid: u32) -> Identity {
    Identity::Envoy { pid: Some(pid), more_envoys: Vec::new(), co_holders: Vec::new() }
}

fn foreign(pid: u32) -> Identity {
    Identity::Foreign { pid, others: Vec::new() }
}

#[track_caller]
fn assert_unidentified(identity: &Identity, says: &[&str]) {
    let Identity::Unidentified { why, .. } = identity else { panic!("{identity:?}") };
    for part in says {
        assert!(why.contains(part), "{why:?} lacks {part:?}");
    }
}

#[test]
fn fingerprint_table() {
    use Fingerprint::{Contradicts, Matches, Unreadable};
    let table = [
        (Some(0xb00), Some(true), 0, Matches),
        (Some(0xb00), None, 0, Matches),
        (Some(0), Some(true), 0, Contradicts),
        (Some(0xa00), Some(true), 0, Contradicts),
        (Some(0xb00), Some(false), 0, Contradicts),
        (Some(0xb00), Some(true), 101, Contradicts),
        (None, Some(true), 0, Unreadable),
        (None, None, 0, Unreadable),
        (None, Some(false), 0, Contradicts),
        (None, None, 101, Contradicts),
    ];
    for (mark, transparent, uid, expected) in table {
        assert_eq!(fingerprint(&listener(mark, transparent, uid)), expected, "{mark:?} {transparent:?} {uid}");
    }
}

#[test]
fn proxy_ports_on_loopback_may_carry_the_ingress_mark() {
    let at = |address: &str| Listener { address: address.parse().unwrap(), ..listener(Some(0xa00), Some(true), 0) };
    for (address, expected) in [("127.0.0.1", Fingerprint::Matches), ("::1", Fingerprint::Matches), ("0.0.0.0", Fingerprint::Contradicts)] {
        assert_eq!(fingerprint(&at(address)), expected, "{address}");
    }
}

#[test]
fn exe_and_fingerprint_agree_is_envoy() {
    assert_eq!(with_maps(&[process(10, 9, Some("cilium-envoy"))], &matching()), envoy(10));
}

#[test]
fn exe_alone_is_envoy_where_the_mark_is_unreadable() {
    assert_eq!(with_maps(&[process(10, 9, Some("cilium-envoy"))], &unreadable()), envoy(10));
}

#[test]
fn exe_against_the_fingerprint_with_maps_is_unidentified_and_shows_both() {
    let identity = with_maps(&[process(10, 9, Some("cilium-envoy"))], &contradicting());
    assert_unidentified(&identity, &["pid 10", "cilium-envoy", "mark 0x0", "not transparent", "uid 0"]);
}

#[test]
fn exe_against_the_fingerprint_without_maps_is_envoy_by_exe() {
    assert_eq!(without_maps(&[process(10, 9, Some("cilium-envoy"))], &contradicting()), envoy(10));
}

#[test]
fn another_exe_is_foreign_whatever_its_comm_says() {
    assert_eq!(with_maps(&[process(10, 9, Some("nginx"))], &contradicting()), foreign(10));
    assert_eq!(with_maps(&[process(10, 9, Some("nginx"))], &unreadable()), foreign(10));
    assert_eq!(without_maps(&[process(10, 9, Some("nginx"))], &matching()), foreign(10));
}

#[test]
fn another_exe_with_ciliums_fingerprint_and_maps_is_unidentified_and_shows_both() {
    let identity = with_maps(&[process(10, 9, Some("nginx"))], &matching());
    assert_unidentified(&identity, &["pid 10", "nginx", "mark 0xb00", "transparent"]);
}

#[test]
fn hidden_exe_with_matching_fingerprint_is_envoy() {
    for maps in [true, false] {
        assert_eq!(identify(&Policy::default(), &owners(&[process(10, 9, None)]), &matching(), maps), envoy(10));
    }
}

#[test]
fn hidden_exe_with_contradicting_fingerprint_is_foreign() {
    assert_eq!(with_maps(&[process(10, 9, None)], &contradicting()), foreign(10));
}

#[test]
fn hidden_exe_and_unreadable_fingerprint_is_never_a_guess_though_comm_fits() {
    assert_unidentified(&with_maps(&[process(10, 9, None)], &unreadable()), &["pid 10", "Permission denied", "comm is cilium-envoy"]);
}

#[test]
fn the_operators_name_of_the_executable_counts() {
    let policy = Policy { envoy_exe: "my-envoy".to_owned(), ..Policy::default() };
    assert_eq!(identify(&policy, &owners(&[process(10, 9, Some("my-envoy"))]), &unreadable(), true), envoy(10));
    assert_eq!(identify(&policy, &owners(&[process(10, 9, Some("cilium-envoy"))]), &unreadable(), true), foreign(10));
}

#[test]
fn the_starter_holding_a_copy_is_no_thief() {
    let holders = [process(9, 8, Some("cilium-envoy-starter")), process(10, 9, Some("cilium-envoy"))];
    assert_eq!(with_maps(&holders, &matching()), envoy(10));
}

#[test]
fn a_hidden_starter_is_told_from_its_child() {
    assert_eq!(with_maps(&[process(9, 8, None), process(10, 9, None)], &matching()), envoy(10));
    assert_eq!(with_maps(&[process(9, 8, None), process(10, 9, Some("cilium-envoy"))], &unreadable()), envoy(10));
}

#[test]
fn the_starter_alone_serves_nobody() {
    assert_unidentified(&with_maps(&[process(9, 8, Some("cilium-envoy-starter"))], &matching()), &["only the starter", "pid 9"]);
}

#[test]
fn the_same_container_is_kin() {
    let holders = [in_container(process(7, 1, Some("cilium-agent")), "c"), in_container(process(10, 9, Some("cilium-envoy")), "c")];
    assert_eq!(with_maps(&holders, &unreadable()), envoy(10));
}

#[test]
fn another_container_of_the_same_pod_is_a_co_holder() {
    let holders = [in_container(process(7, 1, Some("sidecar")), "d"), in_container(process(10, 9, Some("cilium-envoy")), "c")];
    let expected = Identity::Envoy { pid: Some(10), more_envoys: Vec::new(), co_holders: vec![7] };
    assert_eq!(with_maps(&holders, &unreadable()), expected);
}

#[test]
fn a_foreign_parent_that_holds_it_too_is_a_co_holder() {
    let holders = [process(9, 1, Some("socket-activator")), process(10, 9, Some("cilium-envoy"))];
    let expected = Identity::Envoy { pid: Some(10), more_envoys: Vec::new(), co_holders: vec![9] };
    assert_eq!(with_maps(&holders, &unreadable()), expected);
}

#[test]
fn an_unclear_stranger_beside_envoy_is_unidentified() {
    let holders = [process(10, 9, Some("cilium-envoy")), process(30, 1, None)];
    assert_unidentified(&with_maps(&holders, &unreadable()), &["pid 10", "pid 30", "Permission denied"]);
}

#[test]
fn two_envoys_with_one_socket_are_both_named() {
    let holders = [process(10, 9, Some("cilium-envoy")), process(20, 19, Some("cilium-envoy"))];
    let expected = Identity::Envoy { pid: Some(10), more_envoys: vec![20], co_holders: Vec::new() };
    assert_eq!(with_maps(&holders, &matching()), expected);
}

#[test]
fn a_forked_thief_is_named_by_its_eldest() {
    let holders = [process(30, 40, Some("nginx")), process(31, 40, Some("nginx")), process(40, 1, Some("nginx"))];
    assert_eq!(with_maps(&holders, &contradicting()), Identity::Foreign { pid: 40, others: vec![30, 31] });
}

#[test]
fn a_dead_envoy_owns_nothing() {
    let mut dead = process(10, 9, Some("cilium-envoy"));
    dead.state = RunState::Dead;
    assert_unidentified(&with_maps(std::slice::from_ref(&dead), &unreadable()), &["no live process"]);
    assert_eq!(with_maps(&[dead, process(30, 1, Some("nginx"))], &unreadable()), foreign(30));
}

#[test]
fn without_a_holder_only_a_matching_fingerprint_identifies() {
    let nobody = Owners { holders: BTreeMap::from([(INODE, Holders::Unknown("search refused".to_owned()))]), ..Owners::default() };
    let by_mark = Identity::Envoy { pid: None, more_envoys: Vec::new(), co_holders: Vec::new() };
    let found = |listener: &Listener| identify(&Policy::default(), &nobody, listener, true);
    assert_eq!(found(&matching()), by_mark);
    assert_unidentified(&found(&unreadable()), &["no holder is known", "search refused", "an unreadable mark"]);
    assert_unidentified(&found(&contradicting()), &["no holder is known", "mark 0x0"]);
}

#[test]
fn while_the_holder_is_searched_for_a_matching_fingerprint_identifies_nobody() {
    let running = Holders::Searching("the search is still running".to_owned());
    let searched = Owners { holders: BTreeMap::from([(INODE, running)]), ..Owners::default() };
    let mut ended = process(10, 9, Some("cilium-envoy"));
    ended.state = RunState::Dead;
    for owners in [searched, Owners::default(), owners(&[ended])] {
        for (listener, expected) in [(matching(), Doubt::Searching), (unreadable(), Doubt::Searching), (contradicting(), Doubt::Hidden)] {
            let identity = identify(&Policy::default(), &owners, &listener, true);
            assert_eq!(identity.doubt().map(|(doubt, _)| doubt), Some(expected), "{identity:?}");
        }
    }
}

#[test]
fn where_envoys_other_sockets_are_seen_in_its_hands_marks_without_a_holder_prove_nothing() {
    let mut owners = owners(&[process(10, 9, Some("cilium-envoy"))]);
    let nowhere = Holders::Unknown("no process of this /proc holds it".to_owned());
    let known = owners.holders.insert(INODE, nowhere).unwrap();
    owners.holders.insert(INODE + 1, known);
    let judged = |owners: &Owners| identify(&Policy::default(), owners, &matching(), true);
    assert_unidentified(&judged(&owners), &["no process of this /proc holds it"]);
    // Where its executable is hidden, so may its other descriptors be.
    owners.processes.get_mut(&10).unwrap().exe = Readable::Hidden("Permission denied".to_owned());
    assert!(matches!(judged(&owners), Identity::Envoy { pid: None, .. }));
}

#[test]
fn who_only_has_envoys_name_is_not_among_those_whose_end_matters() {
    let maps = |scene: Scene| {
        let mut snapshot = scene.snapshot;
        snapshot.lb.seen.insert(crate::net::Family::Ipv4);
        snapshot
    };
    let own = |id: u64| Listener { mark: Some(0xb00), transparent: Some(true), ..testing::listener(id, "0.0.0.0:80") };
    let imitated = testing::foreign_listener(9, "10.0.0.11:80");
    let scene = Scene::new(&["10.0.0.11"]).process(100, "cilium-envoy").process(7, "cilium-envoy");
    let both = maps(scene.clone().listens(&own(1), &[100]).listens(&imitated, &[7]));
    assert_eq!(serving_envoys(&Policy::default(), &both), [100].into());
    let no_listener = maps(scene);
    assert_eq!(serving_envoys(&Policy::default(), &no_listener), [7, 100].into(), "nobody holds anything: both may be meant");
}

#[test]
fn another_program_with_ciliums_marks_is_an_imitator() {
    let identity = with_maps(&[process(10, 9, Some("nginx"))], &matching());
    assert_eq!(identity.doubt().map(|(doubt, _)| doubt), Some(Doubt::Imitated), "{identity:?}");
    let renamed = with_maps(&[process(10, 9, Some("cilium-envoy"))], &contradicting());
    assert_eq!(renamed.doubt().map(|(doubt, _)| doubt), Some(Doubt::Hidden), "{renamed:?}");
}

fn any_process() -> impl Strategy<Value = Process> {
    let exe = prop::option::of(prop::sample::select(vec!["cilium-envoy", "cilium-envoy-starter", "nginx"]));
    let state = prop::sample::select(vec![RunState::Alive, RunState::Stopped, RunState::Dead]);
    (1_u32..6, 0_u32..6, exe, state, prop::option::of("[ab]")).prop_map(|(pid, parent, exe, state, container)| {
        let mut built = process(pid, parent, exe);
        built.state = state;
        container.map_or(built.clone(), |container| in_container(built, &container))
    })
}

fn any_listener() -> impl Strategy<Value = Listener> {
    let mark = prop::sample::select(vec![None, Some(0), Some(0xb00)]);
    (mark, any::<Option<bool>>(), prop::sample::select(vec![0, 33])).prop_map(|(mark, transparent, uid)| listener(mark, transparent, uid))
}

proptest! {
    /// The order in which holders were found does not matter.
    #[test]
    fn order_is_irrelevant(mut holders in prop::collection::vec(any_process(), 0..5), listener in any_listener(), maps: bool) {
        holders.sort_by_key(|process| process.pid);
        holders.dedup_by_key(|process| process.pid);
        let forward = identify(&Policy::default(), &owners(&holders), &listener, maps);
        holders.reverse();
        let backward = identify(&Policy::default(), &owners(&holders), &listener, maps);
        match (forward, backward) {
            (Identity::Unidentified { pids: a, .. }, Identity::Unidentified { pids: b, .. }) => prop_assert_eq!(a, b),
            (a, b) => prop_assert_eq!(a, b),
        }
    }

    /// Hiding the executable or the mark never makes an Envoy of somebody who was foreign by a readable fact.
    #[test]
    fn losing_a_witness_never_makes_an_envoy(holder in any_process(), listener in any_listener()) {
        let before = identify(&Policy::default(), &owners(std::slice::from_ref(&holder)), &listener, true);
        let mut hidden = listener.clone();
        hidden.mark = None;
        hidden.transparent = None;
        let after = identify(&Policy::default(), &owners(std::slice::from_ref(&holder)), &hidden, true);
        if matches!(before, Identity::Foreign { .. }) && holder.exe.get().is_some() {
            let still = matches!(after, Identity::Foreign { .. });
            prop_assert!(still);
        }
        let mut hidden = holder.clone();
        hidden.exe = Readable::Hidden(String::new());
        let after = identify(&Policy::default(), &owners(&[hidden]), &listener, true);
        if matches!(before, Identity::Foreign { .. }) {
            let envoy = matches!(after, Identity::Envoy { .. });
            prop_assert!(!envoy);
        }
    }
}
