//! One test per layout of "Which listener gets a SYN" and per rule of identity, named after it.

use super::super::testing::{Scene, endpoint, foreign_listener, listener};
use super::*;
use crate::condition::Status;
use crate::facts::Why;
use crate::facts::processes::Holders;

const AT: &str = "10.0.0.11:80";

fn judged(scene: &Scene) -> Finding {
    judge_owned(&Policy::default(), &scene.snapshot, &Memory::default(), endpoint(AT))
}

fn reason(scene: &Scene) -> Option<Reason> {
    judged(scene).reason
}

#[test]
fn one_envoy_with_many_workers_and_generations_is_one_owner() {
    let scene = Scene::healthy(&["10.0.0.11"]).listens(&listener(2, "0.0.0.0:80"), &[100]).listens(&listener(3, "0.0.0.0:80"), &[100]);
    assert_eq!(judged(&scene).status, Status::True);
}

#[test]
fn another_process_alone_on_the_port() {
    let nginx = foreign_listener(9, "0.0.0.0:80");
    let scene = Scene::new(&["10.0.0.11"]).process(7, "nginx").listens(&nginx, &[7]).picks(AT, Some(&nginx));
    let finding = judged(&scene);
    assert_eq!(finding.reason, Some(Reason::ForeignOwner));
    assert!(finding.evidence["thief"].contains("nginx"), "{finding:?}");
}

#[test]
fn a_foreign_member_of_the_group_is_a_share_even_if_no_lookup_picked_it() {
    let nginx = foreign_listener(9, "0.0.0.0:80");
    let scene = Scene::healthy(&["10.0.0.11"]).process(7, "nginx").listens(&nginx, &[7]);
    assert_eq!(judged(&scene).evidence["share"], "0/1");
    let scene = scene.also_picks(AT, Some(&nginx));
    let finding = judged(&scene);
    assert_eq!((finding.reason, finding.evidence["share"].as_str()), (Some(Reason::SharedPort), "1/2"));
}

#[test]
fn a_more_specific_address_shadows_envoy() {
    let nginx = foreign_listener(9, AT);
    let scene = Scene::healthy(&["10.0.0.11"]).process(7, "nginx").listens(&nginx, &[7]).picks(AT, Some(&nginx));
    assert_eq!(reason(&scene), Some(Reason::ShadowedAddress));
}

#[test]
fn a_device_bound_socket_shadows_envoy() {
    let mut nginx = foreign_listener(9, "0.0.0.0:80");
    nginx.bound_if = 2;
    let scene = Scene::healthy(&["10.0.0.11"]).process(7, "nginx").listens(&nginx, &[7]).picks(AT, Some(&nginx));
    let finding = judged(&scene);
    assert_eq!(finding.reason, Some(Reason::ShadowedAddress));
    assert!(finding.message.contains("SO_BINDTODEVICE"), "{finding:?}");
}

#[test]
fn a_mapped_v4_socket_shadows_envoy() {
    let thief = foreign_listener(9, "[::ffff:10.0.0.11]:80");
    let scene = Scene::healthy(&["10.0.0.11"]).process(7, "thief").listens(&thief, &[7]).picks(AT, Some(&thief));
    assert_eq!(reason(&scene), Some(Reason::ShadowedAddress));
}

#[test]
fn a_left_over_envoy_in_the_group_makes_two() {
    let scene = Scene::healthy(&["10.0.0.11"]).process(200, "cilium-envoy").listens(&listener(9, "0.0.0.0:80"), &[200]);
    assert_eq!(reason(&scene), Some(Reason::TwoEnvoys));
}

#[test]
fn a_process_that_only_calls_itself_cilium_envoy_is_foreign() {
    let fake = foreign_listener(9, "0.0.0.0:80");
    let mut scene = Scene::new(&["10.0.0.11"]).process(7, "python3").listens(&fake, &[7]).picks(AT, Some(&fake));
    scene.owners().processes.get_mut(&7).unwrap().comm = "cilium-envoy".into();
    assert_eq!(reason(&scene), Some(Reason::ForeignOwner));
}

#[test]
fn a_socket_that_was_proven_keeps_its_proof_and_a_new_one_does_not() {
    let scene = Scene::healthy(&["10.0.0.11"]);
    let mut lost = scene.clone();
    lost.snapshot.owners = super::super::testing::lost(Why::Permission);
    let proven = Memory { proven: [(endpoint(AT), proven_cookies(&scene.snapshot, endpoint(AT)))].into(), ..Memory::default() };
    let judged = |memory: &Memory| judge_owned(&Policy::default(), &lost.snapshot, memory, endpoint(AT));
    assert_eq!((judged(&proven).status, judged(&proven).lapses), (Status::Unknown, false));
    assert!(judged(&Memory::default()).lapses);
}

/// One more socket at AT, picked by every client, held by `pids` (none: their search runs), with Cilium's marks.
fn marked(pids: &[u32]) -> Scene {
    let socket = Listener { mark: Some(0xb00), transparent: Some(true), ..listener(9, "10.0.0.11:80") };
    let mut scene = Scene::healthy(&["10.0.0.11"]).process(7, "python3").listens(&socket, pids).picks(AT, Some(&socket));
    if pids.is_empty() {
        scene.owners().holders.insert(socket.id.inode, Holders::Searching("the search is still running".into()));
    }
    scene
}

#[test]
fn a_socket_with_ciliums_marks_is_neither_envoys_nor_a_theft_while_its_holder_is_searched_for() {
    let finding = judged(&marked(&[]));
    assert_eq!((finding.status, finding.reason, finding.lapses), (Status::Unknown, Some(Reason::Unidentified), false));
    let unmarked = Scene::healthy(&["10.0.0.11"]).process(7, "python3").listens(&foreign_listener(9, "10.0.0.11:80"), &[]);
    assert!(judged(&unmarked.picks(AT, Some(&foreign_listener(9, "10.0.0.11:80")))).lapses, "without the marks nothing speaks for Envoy");
}

#[test]
fn an_imitator_of_ciliums_marks_withdraws_even_an_old_proof() {
    let scene = marked(&[7]);
    let proven = Memory { proven: [(endpoint(AT), proven_cookies(&scene.snapshot, endpoint(AT)))].into(), ..Memory::default() };
    let finding = judge_owned(&Policy::default(), &scene.snapshot, &proven, endpoint(AT));
    assert_eq!((finding.status, finding.reason, finding.lapses), (Status::Unknown, Some(Reason::Unidentified), true));
    assert!(finding.message.contains("python3"), "{}", finding.message);
}

#[test]
fn no_listener_leaves_nothing_to_identify() {
    let scene = Scene::healthy(&["10.0.0.11"]).without_port(80);
    let finding = judged(&scene);
    assert_eq!((finding.status, finding.lapses), (Status::Unknown, true));
}
