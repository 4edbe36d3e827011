//! What is learnt from a snapshot, and what is not: a single fact taken for more than it proves would stay in memory.

use super::super::testing::{Scene, endpoint, foreign_listener, listener, lost};
use super::*;
use crate::condition::{ConditionType, Status};
use crate::facts::{Reading, Why};
use crate::memory::{Known, Recovery, Subject};
use crate::plan::{JudgedAddress, ReadPlan};
use crate::time::Window;

const AT: &str = "10.0.0.11:80";

fn learnt(snapshot: &Snapshot) -> Memory {
    let mut memory = Memory::default();
    learn(&Policy::default(), snapshot, &mut memory, Mono(100));
    memory
}

fn families(row: &Listener, pids: &[u32]) -> Vec<Family> {
    let scene = Scene::new(&["10.0.0.11"]).process(100, "cilium-envoy").process(7, "nginx").listens(row, pids);
    learnt(&scene.snapshot).families_seen.into_iter().collect()
}

#[test]
fn a_family_is_learnt_from_a_listener_of_envoy_and_from_nobody_elses() {
    assert_eq!(families(&listener(1, "0.0.0.0:80"), &[100]), [Family::Ipv4]);
    assert_eq!(families(&listener(1, "[::]:80"), &[100]), [Family::Ipv6]);
    assert_eq!(families(&listener(1, "[fd00::11]:80"), &[100]), [Family::Ipv6]);
    assert_eq!(families(&listener(1, "[::ffff:10.0.0.11]:80"), &[100]), [Family::Ipv4]);
    assert!(families(&foreign_listener(1, "[::]:80"), &[7]).is_empty());
    assert!(families(&foreign_listener(1, "[::]:80"), &[]).is_empty(), "a socket that can't be identified teaches nothing");
}

#[test]
fn a_dual_stack_socket_teaches_both_families_and_one_of_unknown_kind_only_its_own() {
    let dual = |v6only| Listener { v6only, ..listener(1, "[::]:80") };
    assert_eq!(families(&dual(Some(false)), &[100]), Family::ALL);
    assert_eq!(families(&dual(Some(true)), &[100]), [Family::Ipv6]);
    assert_eq!(families(&dual(None), &[100]), [Family::Ipv6]);
}

#[test]
fn loopback_listeners_are_no_gateway() {
    for at in ["127.0.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
        assert!(families(&listener(1, at), &[100]).is_empty(), "{at}");
    }
}

#[test]
fn families_are_never_unlearnt() {
    let mut memory = learnt(&Scene::healthy(&["10.0.0.11"]).snapshot);
    learn(&Policy::default(), &Scene::new(&["10.0.0.11"]).snapshot, &mut memory, Mono(200));
    learn(&Policy::default(), &Snapshot::default(), &mut memory, Mono(300));
    assert_eq!(memory.families_seen.into_iter().collect::<Vec<_>>(), [Family::Ipv4]);
}

#[test]
fn without_owners_nothing_about_families_is_learnt() {
    let mut scene = Scene::healthy(&["10.0.0.11"]);
    scene.snapshot.owners = lost(Why::Permission);
    assert!(learnt(&scene.snapshot).families_seen.is_empty());
}

#[test]
fn the_time_of_the_last_good_read_moves_only_with_good_reads_and_never_into_the_future() {
    let read_at = |end| {
        let mut scene = Scene::healthy(&["10.0.0.11"]);
        if let Reading::Observed { window, .. } = &mut scene.snapshot.sockets {
            *window = Window { begin: Mono(0), end: Mono(end) };
        }
        scene.snapshot
    };
    let mut memory = learnt(&read_at(60));
    assert_eq!(memory.sockets_read_at, Some(Mono(60)));
    let mut failed = read_at(90);
    failed.sockets = lost(Why::Failed);
    learn(&Policy::default(), &failed, &mut memory, Mono(100));
    assert_eq!(memory.sockets_read_at, Some(Mono(60)));
    learn(&Policy::default(), &read_at(500), &mut memory, Mono(100));
    assert_eq!(memory.sockets_read_at, Some(Mono(100)), "a clock that disagrees can't make a node fresh for longer");
}

#[test]
fn ports_are_learnt_from_gateway_listeners_with_the_time_they_were_named() {
    let mut scene = Scene::healthy(&["10.0.0.11"]);
    if let Reading::Observed { value, .. } = &mut scene.snapshot.envoy {
        value.listeners = vec![super::super::serving_testing::gateway("a", &[80, 8443])];
    }
    assert_eq!(learnt(&scene.snapshot).ports_seen, [(80, Mono(100)), (8443, Mono(100))].into());
    assert!(learnt(&Scene::healthy(&["10.0.0.11"]).snapshot).ports_seen.is_empty(), "sockets alone name no gateway's port");
}

/// A memory full of what was known about two endpoints and the node, with a plan that has only the first.
fn full_memory() -> Memory {
    let addresses = vec![JudgedAddress { ip: "10.0.0.11".parse().unwrap(), ingress_if: 2 }];
    let plan = ReadPlan { addresses, ports: vec![80], families: vec![Family::Ipv4] };
    let mut memory = Memory { plan, ..Memory::default() };
    for at in [AT, "10.0.0.12:80", "10.0.0.11:8080"] {
        memory.proven.insert(endpoint(at), [1].into());
        memory.recovery.insert(endpoint(at), Recovery::default());
        let known = Known { status: Some(Status::False), reason: None, unknown_since: None };
        memory.known.insert(Subject { kind: ConditionType::Listening, endpoint: Some(endpoint(at)) }, known);
    }
    memory.known.insert(Subject { kind: ConditionType::EnvoyLive, endpoint: None }, Known::default());
    memory
}

#[test]
fn what_is_no_longer_planned_is_forgotten_and_the_nodes_own_is_kept() {
    let mut memory = full_memory();
    learn(&Policy::default(), &Snapshot::default(), &mut memory, Mono(100));
    assert_eq!(memory.proven.keys().copied().collect::<Vec<_>>(), [endpoint(AT)]);
    assert_eq!(memory.recovery.keys().copied().collect::<Vec<_>>(), [endpoint(AT)]);
    let subjects: Vec<_> = memory.known.keys().map(|subject| (subject.kind, subject.endpoint)).collect();
    assert_eq!(subjects, [(ConditionType::EnvoyLive, None), (ConditionType::Listening, Some(endpoint(AT)))]);
}

#[test]
fn learning_the_same_snapshot_twice_changes_nothing() {
    let snapshot = Scene::healthy(&["10.0.0.11"]).snapshot;
    let once = learnt(&snapshot);
    let mut twice = once.clone();
    learn(&Policy::default(), &snapshot, &mut twice, Mono(100));
    assert_eq!(once, twice);
}
