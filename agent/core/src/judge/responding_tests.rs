//! `Responding` as a table: what the kernel and the probe saw, and what follows.

use super::super::serving_testing::{MS, endpoint, envoy, lost, observed, owned_by, queue, table, unread};
use super::*;
use crate::condition::Status::{self, False, True, Unknown};
use crate::facts::Reading;
use crate::facts::processes::{Process, Readable};
use crate::facts::sockets::{Listener, Lookup};
use crate::memory::Known;

const NOW: Mono = Mono(100_000 * MS);
/// Accepted by the Envoy of `node()`: it holds inode 1, the listener.
const BY_ENVOY: Acceptor = Acceptor::Local { inode: 900, mark: None, listener: Some(1) };
const BY_OTHER: Acceptor = Acceptor::Local { inode: 901, mark: None, listener: Some(2) };
const NOT_YET: Acceptor = Acceptor::Local { inode: 0, mark: None, listener: Some(1) };

fn result(outcome: ProbeOutcome, acceptor: Acceptor, failures: u32) -> ProbeResult {
    ProbeResult {
        endpoint: endpoint(),
        outcome,
        acceptor,
        at: NOW,
        failures,
        never_passed: false,
        server_name: None,
        expect_status: Vec::new(),
        explicit: String::new(),
    }
}

fn answered(status: u16, server: Option<&str>) -> ProbeOutcome {
    ProbeOutcome::Answered { status, server: server.map(str::to_owned) }
}

/// Inode 1 is Envoy's, inode 2 is nginx's.
fn node(results: Vec<ProbeResult>) -> Snapshot {
    let mut owners = owned_by(envoy(7), &[1]);
    owners.holders.insert(2, Holders::Known { pids: vec![9], complete: true });
    Snapshot {
        sockets: observed(table(&[queue(1, 0, 128)]), NOW),
        owners: observed(owners, NOW),
        probes: observed(ProbeTable { first_round_done: true, results }, NOW),
        ..Snapshot::default()
    }
}

/// Of a front that has answered before.
fn judge(snapshot: &Snapshot) -> Finding {
    judge_responding(&Policy::default(), snapshot, &passed_before(), endpoint(), NOW)
}

fn passed_before() -> Memory {
    let known = Known { status: Some(True), ..Known::default() };
    Memory { known: [(Subject { kind: KIND, endpoint: Some(endpoint()) }, known)].into(), ..Memory::default() }
}

fn judged(outcome: ProbeOutcome, acceptor: Acceptor, failures: u32) -> (Status, Option<Reason>) {
    let finding = judge(&node(vec![result(outcome, acceptor, failures)]));
    (finding.status, finding.reason)
}

#[test]
fn outcomes_and_acceptors() {
    let envoy = || answered(400, Some("envoy"));
    let tls = || ProbeOutcome::TlsAnswered { not_after: Some(1) };
    let failed = || ProbeOutcome::TlsFailed("alert".to_owned());
    let translated = |inode, mark| Acceptor::Translated { to: None, inode, mark };
    let marked = |mark| Acceptor::Local { inode: 5, mark: Some(mark), listener: None };
    let table = [
        ("answered by Envoy", envoy(), BY_ENVOY, 0, True, None),
        ("its header may be changed", answered(400, Some("x")), BY_ENVOY, 0, True, None),
        ("any status of Envoy's own", answered(503, None), BY_ENVOY, 0, True, None),
        ("a ServerHello", tls(), BY_ENVOY, 0, True, None),
        ("somebody else says envoy", envoy(), BY_OTHER, 0, False, Some(Reason::NotEnvoy)),
        ("somebody else resets", ProbeOutcome::Reset, BY_OTHER, 1, False, Some(Reason::NotEnvoy)),
        ("Cilium's mark", tls(), marked(0x1234_0b00), 0, True, None),
        ("another mark and no owner", tls(), marked(0), 0, Unknown, Some(Reason::NotJudged)),
        ("kernel not asked, header supports", envoy(), Acceptor::Unknown, 0, True, None),
        ("kernel not asked, no header", answered(400, None), Acceptor::Unknown, 0, Unknown, Some(Reason::NotJudged)),
        ("kernel not asked, TLS", tls(), Acceptor::Unknown, 0, Unknown, Some(Reason::NotJudged)),
        ("refused twice", ProbeOutcome::Refused, Acceptor::Unknown, 2, True, None),
        ("refused three times", ProbeOutcome::Refused, Acceptor::Unknown, 3, False, Some(Reason::ProbeRefused)),
        ("reset three times", ProbeOutcome::Reset, BY_ENVOY, 3, False, Some(Reason::ProbeReset)),
        ("silent three times", ProbeOutcome::Timeout, BY_ENVOY, 3, False, Some(Reason::ProbeTimeout)),
        ("not accepted three times", ProbeOutcome::Timeout, NOT_YET, 3, False, Some(Reason::ProbeTimeout)),
        ("handshake failed twice", failed(), BY_ENVOY, 2, True, None),
        ("handshake failed three times", failed(), BY_ENVOY, 3, False, Some(Reason::TlsFailed)),
        ("translated", envoy(), translated(None, None), 0, Unknown, Some(Reason::ProbeTranslated)),
        ("translated to a stranger", ProbeOutcome::Timeout, translated(Some(2), Some(0)), 9, Unknown, Some(Reason::ProbeTranslated)),
        ("translated to Envoy's proxy port", envoy(), translated(Some(1), None), 0, True, None),
        ("translated to Envoy's proxy port, by mark", envoy(), translated(Some(77), Some(0xa00)), 0, True, None),
        ("left the namespace", envoy(), Acceptor::Elsewhere, 0, Unknown, Some(Reason::ProbeTranslated)),
        ("could not be run", ProbeOutcome::NotRun("x".to_owned()), Acceptor::Unknown, 0, Unknown, Some(Reason::NotProbed)),
        ("nothing to ask for", ProbeOutcome::NotJudgeable("x".to_owned()), BY_ENVOY, 0, Unknown, Some(Reason::NotJudged)),
        ("nothing to ask a stranger for", ProbeOutcome::NotJudgeable("x".to_owned()), BY_OTHER, 0, False, Some(Reason::NotEnvoy)),
    ];
    for (name, outcome, acceptor, failures, status, reason) in table {
        assert_eq!(judged(outcome, acceptor, failures), (status, reason), "{name}");
    }
}

#[test]
fn failures_below_fall_prove_nothing_where_nothing_is_known() {
    let failed_twice = node(vec![result(ProbeOutcome::Reset, BY_ENVOY, 2)]);
    let finding = judge_responding(&Policy::default(), &failed_twice, &Memory::default(), endpoint(), NOW);
    assert_eq!((finding.status, finding.reason), (Unknown, Some(Reason::NotJudged)));
}

#[test]
fn a_program_in_plain_sight_is_not_envoy_whatever_mark_it_hands_on() {
    let mut snapshot =
        node(vec![result(answered(400, Some("envoy")), Acceptor::Local { inode: 5, mark: Some(0xb00), listener: Some(2) }, 0)]);
    let thief = Process { exe: Readable::Is("python3".to_owned()), ..envoy(9) };
    let socket = Listener { mark: Some(0xb00), transparent: Some(true), ..queue(2, 0, 128) };
    snapshot.sockets = observed(table(&[socket]), NOW);
    if let Reading::Observed { value, .. } = &mut snapshot.owners {
        value.processes.insert(9, thief);
        value.holders.insert(2, Holders::Known { pids: vec![9], complete: false });
    }
    snapshot.lb.v4 = observed(crate::lb::facts::LbTable::default(), NOW);
    assert_eq!(judge(&snapshot).reason, Some(Reason::NotEnvoy));
}

#[test]
fn at_start_the_first_failure_counts_in_full() {
    let first = ProbeResult { never_passed: true, ..result(ProbeOutcome::Refused, Acceptor::Unknown, 1) };
    assert_eq!(judge(&node(vec![first])).reason, Some(Reason::ProbeRefused));
}

#[test]
fn the_configured_fall_is_used() {
    let policy = Policy { probe_fall: 1, ..Policy::default() };
    let snapshot = node(vec![result(ProbeOutcome::Timeout, BY_ENVOY, 1)]);
    assert_eq!(judge_responding(&policy, &snapshot, &Memory::default(), endpoint(), NOW).reason, Some(Reason::ProbeTimeout));
}

#[test]
fn an_owner_that_is_no_longer_known_is_no_proof_against_envoy() {
    let mut snapshot = node(vec![result(answered(400, Some("envoy")), BY_OTHER, 0)]);
    snapshot.owners = lost("x");
    assert_eq!(judge(&snapshot).status, True);
    let mut partly = node(vec![result(answered(400, Some("envoy")), BY_OTHER, 0)]);
    let Reading::Observed { value, .. } = &mut partly.owners else { unreachable!() };
    value.holders.insert(2, Holders::Known { pids: vec![9], complete: false });
    assert_eq!(judge(&partly).status, True, "Envoy may hold it too");
}

#[test]
fn nothing_probed_is_not_probed() {
    assert_eq!(judge(&unread()).reason, Some(Reason::NotProbed));
    assert_eq!(judge(&node(vec![])).reason, Some(Reason::NotProbed));
    let off = Policy { probe_enabled: false, ..Policy::default() };
    assert_eq!(judge_responding(&off, &unread(), &Memory::default(), endpoint(), NOW), Finding::holds(KIND));
}

fn elsewhere(outcome: ProbeOutcome, failures: u32, picked: Listener) -> Snapshot {
    let other = Endpoint { address: "10.0.0.12".parse().unwrap(), port: 80 };
    let mut snapshot = node(vec![ProbeResult { endpoint: other, ..result(outcome, BY_ENVOY, failures) }]);
    let mut sockets = table(&[queue(1, 0, 128)]);
    sockets.lookups.push(Lookup { endpoint: other, ingress_if: 2, source_port: 40_000, picked: Some(picked) });
    snapshot.sockets = observed(sockets, NOW);
    snapshot
}

#[test]
fn a_success_at_another_address_counts_where_the_same_sockets_serve_both() {
    let same = judge(&elsewhere(answered(400, None), 0, queue(3, 0, 128)));
    assert_eq!((same.status, same.evidence["probed"].as_str()), (True, "10.0.0.12:80"));
    let own = Listener { address: "10.0.0.12".parse().unwrap(), ..queue(3, 0, 128) };
    assert_eq!(judge(&elsewhere(answered(400, None), 0, own)).reason, Some(Reason::NotProbed));
}

#[test]
fn a_failure_at_another_address_is_not_inherited() {
    assert_eq!(judge(&elsewhere(ProbeOutcome::Timeout, 5, queue(3, 0, 128))).reason, Some(Reason::NotProbed));
}

#[test]
fn a_probe_that_found_no_room_in_a_full_queue_that_moves_keeps_the_node_up() {
    let mut snapshot = node(vec![result(ProbeOutcome::Timeout, NOT_YET, 9)]);
    snapshot.sockets = observed(table(&[queue(1, 129, 128)]), NOW);
    let finding = judge(&snapshot);
    assert_eq!((finding.status, finding.reason), (Unknown, Some(Reason::NotJudged)));
    let accepted = ProbeResult { acceptor: BY_ENVOY, ..result(ProbeOutcome::Timeout, BY_ENVOY, 9) };
    let mut silent = node(vec![accepted]);
    silent.sockets = observed(table(&[queue(1, 129, 128)]), NOW);
    assert_eq!(judge(&silent).reason, Some(Reason::ProbeTimeout), "accepted and silent is no lack of room");
}

#[test]
fn an_explicit_probe_counts_besides_the_built_in_one() {
    let explicit = |status: u16, failures: u32| ProbeResult {
        expect_status: vec![200, 204],
        explicit: "shop.example/healthz".to_owned(),
        ..result(answered(status, Some("envoy")), BY_ENVOY, failures)
    };
    let with = |explicit: ProbeResult| judge(&node(vec![explicit, result(answered(400, None), BY_ENVOY, 0)]));
    assert_eq!(with(explicit(204, 0)).status, True);
    assert_eq!(with(explicit(503, 2)).status, True);
    let finding = with(explicit(503, 3));
    assert_eq!(finding.reason, Some(Reason::UnexpectedStatus));
    assert_eq!(finding.message, "shop.example/healthz answered 503, expected 200, 204");
    let alone = judge(&node(vec![explicit(200, 0)]));
    assert_eq!(alone.reason, Some(Reason::NotProbed), "an explicit probe does not stand for the built-in one");
}

#[test]
fn a_foreign_listener_is_told_though_the_search_for_further_holders_was_not_whole() {
    let mut snapshot = node(vec![result(ProbeOutcome::Reset, BY_OTHER, 1)]);
    let Reading::Observed { value, .. } = &mut snapshot.owners else { unreachable!() };
    let nginx = Process { exe: Readable::Is("nginx".to_owned()), ..envoy(9) };
    value.processes.insert(9, nginx);
    value.holders.insert(2, Holders::Known { pids: vec![9], complete: false });
    let thief = Listener { mark: Some(0), transparent: Some(false), ..queue(2, 0, 128) };
    snapshot.sockets = observed(table(&[thief]), NOW);
    assert_eq!(judge(&snapshot).reason, Some(Reason::NotEnvoy));
}
