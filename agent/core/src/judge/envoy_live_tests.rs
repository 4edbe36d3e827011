//! One test per rule of `EnvoyLive` and of the right to bind.

use super::super::serving_testing::{MS, admin, admin_with, envoy, gateway, lost, observed, owned_by, queue, table, unread};
use super::*;
use crate::condition::Status;
use crate::facts::envoy::EnvoyListener;
use crate::facts::platform::Termination;
use crate::facts::sockets::SocketTable;

const NOW: Mono = Mono(1_000_000 * MS);

fn running() -> Snapshot {
    running_as(envoy(7))
}

fn running_as(process: Process) -> Snapshot {
    Snapshot {
        owners: observed(owned_by(process, &[1]), NOW),
        sockets: observed(table(&[queue(1, 0, 10)]), NOW),
        ..admin(vec![gateway("a", &[80])])
    }
}

fn judged(snapshot: &Snapshot) -> (Status, Option<Reason>) {
    let finding = judge_envoy_live(&Policy::default(), snapshot, NOW);
    (finding.status, finding.reason)
}

fn seconds_ago(seconds: u64) -> Mono {
    Mono(NOW.0 - seconds * 1000 * MS)
}

fn with_owners(change: impl FnOnce(&mut Owners)) -> Snapshot {
    let mut owners = owned_by(envoy(7), &[1]);
    change(&mut owners);
    Snapshot { owners: observed(owners, NOW), ..running() }
}

fn started(ago: &[u64]) -> Snapshot {
    with_owners(|owners| owners.envoy_starts = ago.iter().map(|seconds| seconds_ago(*seconds)).collect())
}

#[test]
fn a_live_envoy_is_true() {
    assert_eq!(judged(&running()), (Status::True, None));
    let initializing = Snapshot { envoy: admin_with(|admin| admin.state = ServerState::Initializing).envoy, ..running() };
    assert_eq!(judged(&initializing), (Status::True, None), "what it does not serve yet is told by Listening");
}

#[test]
fn absence_must_be_proven() {
    let absent = |complete: bool| {
        with_owners(|owners| {
            owners.envoys.clear();
            owners.envoys_complete = complete;
        })
    };
    assert_eq!(judged(&absent(true)), (Status::False, Some(Reason::EnvoyNotRunning)));
    assert!(envoy_absent(&absent(true)));
    assert!(!envoy_absent(&absent(false)));
    assert_eq!(judged(&absent(false)), (Status::True, None), "its admin answers: it runs, though /proc could not be searched");
    let unseen = Snapshot { envoy: lost("connection refused"), ..absent(false) };
    assert_eq!(judged(&unseen), (Status::Unknown, Some(Reason::AdminUnreachable)));
    assert!(!envoy_absent(&unread()));
}

#[test]
fn a_zombie_does_not_run() {
    assert_eq!(judged(&running_as(Process { state: RunState::Dead, ..envoy(7) })), (Status::False, Some(Reason::EnvoyNotRunning)));
}

#[test]
fn a_slow_or_absent_admin_is_unknown_and_never_a_fault() {
    for envoy in [lost("no answer within 2 s"), crate::facts::Reading::NotRead] {
        assert_eq!(judged(&Snapshot { envoy, ..running() }), (Status::Unknown, Some(Reason::AdminUnreachable)));
    }
}

#[test]
fn draining_is_envoys_own_word() {
    let draining = Snapshot { envoy: admin_with(|admin| admin.state = ServerState::Draining).envoy, ..running() };
    assert_eq!(judged(&draining), (Status::False, Some(Reason::EnvoyDraining)));
}

#[test]
fn three_starts_in_a_minute_are_a_loop_until_a_quiet_minute() {
    let looping = (Status::False, Some(Reason::EnvoyRestarting));
    let fine = (Status::True, None);
    for (ago, expected) in [
        (&[5, 20][..], fine),
        (&[5, 20, 40], looping),
        (&[59, 80, 100], looping),
        (&[60, 80, 100], fine),
        (&[10, 65, 80], fine),
        (&[10, 65, 80, 100], looping),
        (&[0, 59, 118], fine),
        (&[300, 310, 320], fine),
        (&[5, 300, 310, 320], fine),
        (&[], fine),
    ] {
        assert_eq!(judged(&started(ago)), expected, "{ago:?}");
    }
}

#[test]
fn a_term_is_an_early_notice_for_five_seconds_while_there_is_something_to_lose() {
    let notice = |ms: u64| Some(Termination { pid: 6, at: Mono(NOW.0 - ms * MS) });
    let terminating = (Status::False, Some(Reason::EnvoyTerminating));
    assert_eq!(judged(&Snapshot { terminating: notice(1), ..running() }), terminating);
    assert_eq!(judged(&Snapshot { terminating: notice(4999), ..running() }), terminating);
    assert_eq!(judged(&Snapshot { terminating: notice(5000), ..running() }), (Status::True, None));
    let replaced = Snapshot { terminating: notice(3000), ..started(&[1]) };
    assert_eq!(judged(&replaced), (Status::True, None), "its successor runs");
    let mut gone = table(&[]);
    gone.lookups[0].picked = None;
    let closed = Snapshot { terminating: notice(1000), sockets: observed(gone, NOW), ..running() };
    assert_eq!(judged(&closed), (Status::True, None), "nothing listens any more: that is Listening's to say");
    let unseen = Snapshot { terminating: notice(1000), sockets: lost("x"), ..running() };
    assert_eq!(judged(&unseen), terminating);
    let not_looked_up = Snapshot { terminating: notice(1000), sockets: observed(SocketTable::default(), NOW), ..running() };
    assert_eq!(judged(&not_looked_up), terminating);
}

#[test]
fn the_right_to_bind_is_read_from_the_process() {
    let denied = |change: fn(&mut Process), first: Option<u16>, port: u16| {
        let mut process = envoy(7);
        change(&mut process);
        let mut owners = owned_by(process, &[1]);
        owners.unprivileged_port_start = first;
        bind_permission_denied(&Policy::default(), &Snapshot { owners: observed(owners, NOW), ..Snapshot::default() }, port)
    };
    let none: fn(&mut Process) = |process| process.cap_effective = Some(0);
    let evidence = denied(none, Some(1024), 80).unwrap();
    assert_eq!(
        (evidence["cap_effective"].as_str(), evidence["no_new_privs"].as_str(), evidence["process"].as_str()),
        ("0x0", "true", "cilium-envoy[7]")
    );
    for key in
        ["envoy.securityContext.capabilities.keepCapNetBindService=true", "NET_BIND_SERVICE in envoy.securityContext.capabilities.envoy"]
    {
        assert!(evidence["fix"].contains(key));
    }
    assert!(denied(none, None, 80).is_some(), "1024 is the kernel's default");
    assert_eq!(denied(none, Some(80), 80), None, "the sysctl lets anyone bind it");
    assert_eq!(denied(none, Some(1024), 8080), None);
    assert_eq!(denied(|_| (), Some(1024), 80), None, "it has the capability");
    assert_eq!(denied(|process| process.cap_effective = None, Some(1024), 80), None, "no guess");
    assert_eq!(bind_permission_denied(&Policy::default(), &unread(), 80), None);
}

#[test]
fn envoys_own_eacces_is_evidence_enough() {
    let refused = |sentence: &str| {
        let listener = EnvoyListener { error: Some(sentence.to_owned()), rejected_ports: vec![80], ..gateway("a", &[]) };
        bind_permission_denied(&Policy::default(), &admin(vec![listener]), 80)
    };
    assert!(refused("cannot bind '0.0.0.0:80': Permission denied").unwrap()["envoy"].contains("Permission denied"));
    assert_eq!(refused("cannot bind '0.0.0.0:80': Address already in use"), None);
}

#[test]
fn an_envoy_that_is_seen_again_is_not_absent_though_its_admin_is_silent() {
    let back = judge_envoy_live(&Policy::default(), &Snapshot { envoy: lost("no such file"), ..running() }, NOW);
    assert_eq!(back.reason, Some(Reason::AdminUnreachable));
    assert!(back.refutes.contains(&Reason::EnvoyNotRunning) && !back.refutes.contains(&Reason::EnvoyDraining));
    let blind = Snapshot { envoy: lost("no such file"), owners: lost("no /proc"), ..running() };
    assert_eq!(judge_envoy_live(&Policy::default(), &blind, NOW).refutes, []);
}
