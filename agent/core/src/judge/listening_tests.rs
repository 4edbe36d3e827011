//! `Listening` as a truth table: each refinement of "nothing listens", and which of several explanations is told.

use super::super::serving_testing::gateway;
use super::super::testing::{Scene, endpoint, listener, lost};
use super::*;
use crate::condition::Status;
use crate::facts::envoy::EnvoyListener;
use crate::facts::processes::RunState;
use crate::facts::{Reading, Why};
use crate::lb::service::{Service, ServiceKey};
use crate::time::Window;

const AT: &str = "10.0.0.11:80";

/// Nothing listens on port 80, and Envoy lives.
fn closed() -> Scene {
    Scene::healthy(&["10.0.0.11"]).without_port(80)
}

fn without_envoy(mut scene: Scene) -> Scene {
    scene.owners().envoys.clear();
    scene
}

fn without_capability(mut scene: Scene) -> Scene {
    scene.owners().processes.get_mut(&100).unwrap().cap_effective = Some(0);
    scene
}

fn with_surrogate(mut scene: Scene, flags: u8) -> Scene {
    let Reading::Observed { value: table, .. } = &mut scene.snapshot.lb.v4 else { panic!("no table") };
    let row = Service { union: [0; 4], count: 0, rev_nat: 1, flags, flags2: 0, quarantined: 0 };
    table.services.insert(ServiceKey::surrogate(Family::Ipv4, 80, 6), row);
    scene
}

fn with_rejection(mut scene: Scene, sentence: &str, ports: &[u16]) -> Scene {
    let refused = EnvoyListener { error: Some(sentence.into()), rejected_ports: ports.to_vec(), ..gateway("a", &[]) };
    let admin = crate::facts::envoy::EnvoyAdmin { listeners: vec![refused], ..Default::default() };
    scene.snapshot.envoy = Reading::Observed { value: admin, window: Window::default() };
    scene
}

fn judged_at(scene: &Scene, at: &str) -> Finding {
    judge_listening(&Policy::default(), &scene.snapshot, endpoint(at))
}

fn reason(scene: &Scene) -> Option<Reason> {
    let finding = judged_at(scene, AT);
    assert_eq!(finding.status == Status::True, finding.reason.is_none());
    finding.reason
}

#[test]
fn any_socket_that_the_kernel_picks_is_listening_whoever_owns_it() {
    assert_eq!(reason(&Scene::healthy(&["10.0.0.11"])), None);
    let foreign = super::super::testing::foreign_listener(9, "10.0.0.11:80");
    assert_eq!(reason(&closed().listens(&foreign, &[]).picks(AT, Some(&foreign))), None);
}

#[test]
fn one_of_several_clients_that_is_refused_is_not_yet_nobody() {
    let row = listener(80, "0.0.0.0:80");
    assert_eq!(reason(&closed().picks(AT, None).also_picks(AT, Some(&row))), None);
}

#[test]
fn a_table_that_was_not_read_is_unknown_with_why() {
    let mut scene = closed();
    scene.snapshot.sockets = lost(Why::Interrupted);
    let finding = judged_at(&scene, AT);
    assert_eq!((finding.status, finding.reason, finding.message.as_str()), (Status::Unknown, Some(Reason::SocketsUnreadable), "lost"));
    scene.snapshot.sockets = Reading::NotRead;
    assert_eq!(judged_at(&scene, AT).message, "not read yet");
}

#[test]
fn rows_alone_prove_nothing_without_a_lookup() {
    let mut scene = Scene::healthy(&["10.0.0.11"]);
    scene.sockets().lookups.clear();
    assert_eq!(judged_at(&scene, AT).status, Status::Unknown);
}

#[test]
fn envoy_not_running_is_told_only_if_the_search_was_complete() {
    assert_eq!(reason(&without_envoy(closed())), Some(Reason::EnvoyNotRunning));
    let mut half_searched = without_envoy(closed());
    half_searched.owners().envoys_complete = false;
    assert_eq!(reason(&half_searched), Some(Reason::NoListener));
    let mut unread = closed();
    unread.snapshot.owners = lost(Why::Permission);
    assert_eq!(reason(&unread), Some(Reason::NoListener));
}

#[test]
fn a_dead_envoy_does_not_run() {
    let mut zombie = closed();
    zombie.owners().processes.get_mut(&100).unwrap().state = RunState::Dead;
    assert_eq!(reason(&zombie), Some(Reason::EnvoyNotRunning));
}

#[test]
fn bind_permission_denied_needs_a_privileged_port_and_every_envoy_without_the_capability() {
    assert_eq!(reason(&without_capability(closed())), Some(Reason::BindPermissionDenied));
    let mut another_may = without_capability(closed()).process(101, "cilium-envoy");
    assert_eq!(reason(&another_may), Some(Reason::NoListener));
    another_may.owners().processes.get_mut(&101).unwrap().cap_effective = None;
    assert_eq!(reason(&another_may), Some(Reason::NoListener), "hidden capabilities are no proof");
    let mut lowered = without_capability(closed());
    lowered.owners().unprivileged_port_start = Some(80);
    assert_eq!(reason(&lowered), Some(Reason::NoListener));
    lowered.owners().unprivileged_port_start = Some(81);
    assert_eq!(reason(&lowered), Some(Reason::BindPermissionDenied));
}

#[test]
fn envoys_own_word_for_eacces_is_enough() {
    let said = with_rejection(closed(), "cannot bind '0.0.0.0:80': Permission denied", &[80]);
    let finding = judged_at(&said, AT);
    assert_eq!(finding.reason, Some(Reason::BindPermissionDenied));
    assert_eq!(finding.evidence["envoy"], "cannot bind '0.0.0.0:80': Permission denied");
    assert_eq!(reason(&with_rejection(closed(), "cannot bind: Permission denied", &[443])), Some(Reason::NoListener), "of another port");
}

#[test]
fn what_to_set_is_in_the_message_and_not_among_the_evidence() {
    let finding = judged_at(&without_capability(closed()), AT);
    assert!(finding.message.contains("keepCapNetBindService=true"), "{}", finding.message);
    assert!(finding.message.len() <= crate::render::text::MAX_SENTENCE, "it is shown whole");
    assert!(!finding.evidence.contains_key("fix"), "the log has a field of this name");
}

#[test]
fn port_reserved_by_cilium_names_the_entry() {
    let finding = judged_at(&with_surrogate(closed(), 0x02), AT);
    assert_eq!(finding.reason, Some(Reason::PortReservedByCilium));
    assert_eq!((finding.evidence["entry"].as_str(), finding.evidence["kind"].as_str()), ("0.0.0.0:80/6", "NodePort"));
    assert_eq!(reason(&with_surrogate(closed(), 0x08)), Some(Reason::NoListener), "a host port reserves nothing");
}

#[test]
fn listener_rejected_tells_envoys_sentence() {
    let finding = judged_at(&with_rejection(closed(), "unknown filter", &[80]), AT);
    assert_eq!(finding.reason, Some(Reason::ListenerRejected));
    assert_eq!((finding.evidence["envoy"].as_str(), finding.message.as_str()), ("unknown filter", "Envoy rejects Gateway team/a"));
}

/// Of several explanations the most causal one: without a process nothing can bind, without the right it can't either, and a
/// refused bind is why Envoy rejects.
#[test]
fn the_precedence_of_explanations() {
    let all = with_rejection(with_surrogate(without_capability(without_envoy(closed())), 0x02), "Address already in use", &[80]);
    assert_eq!(reason(&all), Some(Reason::EnvoyNotRunning));
    let with_process = with_rejection(with_surrogate(without_capability(closed()), 0x02), "Address already in use", &[80]);
    assert_eq!(reason(&with_process), Some(Reason::BindPermissionDenied));
    let with_right = with_rejection(with_surrogate(closed(), 0x02), "Address already in use", &[80]);
    assert_eq!(reason(&with_right), Some(Reason::PortReservedByCilium));
    assert_eq!(reason(&with_rejection(closed(), "Address already in use", &[80])), Some(Reason::ListenerRejected));
    assert_eq!(reason(&closed()), Some(Reason::NoListener));
}

#[test]
fn a_bind_that_worked_elsewhere_excludes_every_reason_why_it_could_not() {
    let bound = without_capability(with_surrogate(closed(), 0x02)).listens(&listener(5, "127.0.0.1:80"), &[100]);
    assert_eq!(reason(&with_rejection(bound, "no", &[80])), Some(Reason::LoopbackOnly));
    let absent = without_envoy(closed().listens(&listener(5, "127.0.0.1:80"), &[]));
    assert_eq!(reason(&absent), Some(Reason::EnvoyNotRunning), "but not that there is no Envoy");
}

#[test]
fn loopback_only_and_addresses_not_covered_by_what_is_bound() {
    let bound = |rows: &[&str]| {
        let scene = rows.iter().enumerate().fold(closed(), |scene, (n, at)| scene.listens(&listener(n as u64 + 1, at), &[100]));
        judged_at(&scene, AT)
    };
    let table = [
        (&["127.0.0.1:80"][..], Reason::LoopbackOnly, Some("127.0.0.1")),
        (&["127.0.0.1:80", "127.0.0.53:80"], Reason::LoopbackOnly, Some("127.0.0.1 127.0.0.53")),
        (&["10.0.0.12:80"], Reason::AddressesNotCovered, Some("10.0.0.12")),
        (&["127.0.0.1:80", "10.0.0.12:80"], Reason::AddressesNotCovered, Some("127.0.0.1 10.0.0.12")),
        (&["[::ffff:127.0.0.1]:80"], Reason::LoopbackOnly, Some("::ffff:127.0.0.1")),
        (&["[::1]:80"], Reason::NoListener, None),
        (&["[fd00::11]:80"], Reason::NoListener, None),
        (&["127.0.0.1:8080"], Reason::NoListener, None),
    ];
    for (rows, reason, bound_on) in table {
        let finding = bound(rows);
        assert_eq!(finding.reason, Some(reason), "{rows:?}");
        assert_eq!(finding.evidence.get("bound").map(String::as_str), bound_on, "{rows:?}");
    }
}

#[test]
fn a_dual_stack_socket_that_the_kernel_does_not_pick_is_shown_for_ipv4_and_a_v6only_one_is_not() {
    let mut dual = listener(5, "[::]:80");
    dual.v6only = Some(false);
    assert_eq!(reason(&closed().listens(&dual, &[100])), Some(Reason::AddressesNotCovered));
    dual.v6only = Some(true);
    assert_eq!(reason(&closed().listens(&dual, &[100])), Some(Reason::NoListener));
}

#[test]
fn families_are_told_apart() {
    let scene = closed().listens(&listener(5, "[::1]:80"), &[100]).picks("[fd00::11]:80", None);
    assert_eq!(judged_at(&scene, "[fd00::11]:80").reason, Some(Reason::LoopbackOnly));
    assert_eq!(reason(&scene), Some(Reason::NoListener));
}

#[test]
fn every_false_of_this_judge_precedes_what_follows_from_it() {
    use Reason as R;
    let causes = [R::EnvoyNotRunning, R::BindPermissionDenied, R::PortReservedByCilium, R::ListenerRejected, R::NoListener];
    assert!(causes.is_sorted(), "the order in which they are tried is the order of the list");
    for effect in [R::ProbeRefused, R::ProbeTimeout, R::SocketsUnreadable, R::Unidentified] {
        assert!(causes.iter().all(|cause| *cause < effect), "{effect}");
    }
}
