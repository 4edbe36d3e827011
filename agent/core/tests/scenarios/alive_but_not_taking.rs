//! Faults of an Envoy that is alive and takes no connection, and loads that only look like such faults.

use gwready_core::condition::{ConditionType, Status};
use gwready_core::facts::probes::{Acceptor, ProbeOutcome};
use gwready_core::facts::processes::RunState;
use gwready_core::reason::Reason;

use super::faults::{envoy_in_state, no_descriptors, probe_failed, workers};
use super::node::{ENVOY, Node};
use super::watch::Watch;
use crate::kept;

#[test]
fn fault_27_a_queue_from_which_nothing_is_accepted_for_two_seconds() {
    let mut watch = Watch::of(&Node::healthy());
    let stuck = Node::healthy().queue(80, 7);
    watch.keeps_seeing(20.0, 21.9, &stuck);
    assert_eq!(watch.node(), "up", "within queue_grace");
    watch.sees(22.0, &stuck);
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=QueueStuck port=80 ports=80,443",
        &["10.0.0.11:80 down QueueStuck", "10.0.0.11:443 up"],
        "WARN node DOWN reason=QueueStuck port=80 family=ipv4 addresses=10.0.0.11 limit=128 queues=7 up_for=12s",
    );
    kept!(watch);
}

#[test]
fn fault_27_a_full_queue_that_moves_is_overload_and_no_fault() {
    let mut watch = Watch::of(&Node::healthy());
    for step in 0..60_u32 {
        // Every third reading shows that somebody was accepted.
        let length = if step % 3 == 0 { 128 } else { 129 };
        watch.sees(20.0 + f64::from(step) / 10.0, &Node::healthy().queue(80, length));
        assert_eq!(watch.node(), "up");
    }
    watch.stays_up_but_says(watch.front(ConditionType::Accepting, 80), Status::True, Reason::Overloaded);
    kept!(watch);
}

#[test]
fn fault_27_a_full_queue_is_called_stuck_only_after_many_readings() {
    let mut watch = Watch::of(&Node::healthy());
    let full = Node::healthy().queue(80, 129);
    watch.keeps_seeing(20.0, 23.0, &full);
    assert_eq!(watch.node(), "up", "31 readings of a full queue can all have missed a gap");
    assert_eq!(watch.sees(23.1, &full).node(), "down QueueStuck 80");
    kept!(watch);
}

#[test]
fn fault_28_one_of_four_workers_is_stuck_until_its_queue_is_seen_empty() {
    let mut watch = Watch::of(&workers(0));
    watch.keeps_seeing(20.0, 22.9, &workers(2));
    assert_eq!(watch.node(), "up");
    watch.sees(23.0, &workers(2));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=WorkerStuck port=80 ports=80,443",
        &["10.0.0.11:80 down WorkerStuck", "10.0.0.11:443 up"],
        "WARN node DOWN reason=WorkerStuck port=80 family=ipv4 addresses=10.0.0.11 limit=128 queues=\"0 0 2 0\" up_for=13s",
    );
    kept!(watch);
    watch.keeps_seeing(23.1, 24.0, &workers(1)).sees(27.0, &workers(1)).sees(30.0, &workers(1));
    assert_eq!(watch.node(), "down WorkerStuck 80", "one accept is no recovery");
    watch.sees(31.0, &workers(0)).sees(33.0, &workers(0));
    assert_eq!(watch.node(), "up");
}

#[test]
fn fault_29_a_stopped_process_whose_handshakes_the_kernel_completes() {
    let watch = Watch::turned(&envoy_in_state(RunState::Stopped));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ProcessStopped port=80,443 ports=80,443",
        &["10.0.0.11:80 down ProcessStopped", "10.0.0.11:443 down ProcessStopped"],
        "WARN node DOWN reason=ProcessStopped port=80,443 family=ipv4 addresses=10.0.0.11 process=cilium-envoy[100] state=T up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_29_a_frozen_cgroup() {
    let watch = Watch::turned(&Node::healthy().with_process(ENVOY, |envoy| envoy.frozen = Some(true)));
    assert_eq!(watch.node(), "down ProcessStopped 80,443");
    assert!(watch.front(ConditionType::Accepting, 80).message.contains("frozen by its cgroup"));
    kept!(watch);
}

#[test]
fn fault_29_state_d_counts_after_five_seconds() {
    let mut watch = Watch::of(&Node::healthy());
    let waiting = envoy_in_state(RunState::Uninterruptible);
    assert_eq!(watch.sees(20.0, &waiting).node(), "up");
    assert_eq!(watch.sees(24.9, &waiting).node(), "up", "a slow disk");
    assert_eq!(watch.sees(25.0, &waiting).node(), "down ProcessStopped 80,443");
    let mut watch = Watch::of(&Node::healthy());
    watch.sees(20.0, &waiting).sees(23.0, &Node::healthy()).sees(26.0, &waiting);
    assert_eq!(watch.node(), "up", "it was seen running in between");
    kept!(watch);
}

#[test]
fn fault_29_a_process_that_is_stopped_stays_so_while_nobody_can_see_it() {
    let mut watch = Watch::turned(&envoy_in_state(RunState::Stopped));
    let mut blind = Node::healthy();
    blind.snapshot.owners = super::node::lost(gwready_core::facts::Why::Permission, "ptrace access refused");
    assert_eq!(watch.sees(21.0, &blind).node(), "down ProcessStopped 80,443");
    assert_eq!(watch.sees(900.0, &blind).node(), "down ProcessStopped 80,443", "whatever hold says");
    kept!(watch);
}

#[test]
fn fault_31_the_overload_manager_accepts_and_closes() {
    let mut watch = Watch::of(&Node::healthy());
    assert_eq!(watch.sees(20.0, &probe_failed(443, ProbeOutcome::Reset, 2)).node(), "up");
    watch.sees(22.0, &probe_failed(443, ProbeOutcome::Reset, 3));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ProbeReset port=443 ports=80,443",
        &["10.0.0.11:80 up", "10.0.0.11:443 down ProbeReset"],
        "WARN node DOWN reason=ProbeReset port=443 family=ipv4 addresses=10.0.0.11 failures=3 probed=10.0.0.11:443 server_name=shop.example up_for=12s",
    );
    kept!(watch);
}

#[test]
fn fault_31b_a_strict_probe_at_full_queues_never_empties_the_pool() {
    let mut watch = Watch::of(&Node::healthy());
    for step in 0..60_u32 {
        let length = if step % 4 == 0 { 120 } else { 129 };
        let node = Node::healthy().queue(80, length);
        let not_accepted = Acceptor::Local { inode: 0, mark: None, listener: None };
        let node = node.probed("10.0.0.11:80", ProbeOutcome::Timeout, not_accepted, 1 + step / 6);
        assert_eq!(watch.sees(20.0 + f64::from(step) / 10.0, &node).node(), "up", "step {step}");
    }
    let responding = watch.front(ConditionType::Responding, 80);
    assert_eq!((responding.status, responding.reason), (Status::Unknown, Some(Reason::NotJudged)));
    kept!(watch);
}

#[test]
fn fault_31b_a_connection_that_was_accepted_and_left_without_an_answer_is_no_overload() {
    let node = probe_failed(80, ProbeOutcome::Timeout, 3).queue(80, 129);
    let watch = Watch::turned(&node);
    assert_eq!(watch.node(), "down ProbeTimeout 80");
    kept!(watch);
}

#[test]
fn fault_33_no_file_descriptor_is_left_and_accept_fails() {
    let mut watch = Watch::of(&Node::healthy());
    watch.keeps_seeing(20.0, 21.9, &no_descriptors());
    assert_eq!(watch.node(), "up");
    watch.sees(22.0, &no_descriptors());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=OutOfFileDescriptors port=80,443 ports=80,443",
        &["10.0.0.11:80 down OutOfFileDescriptors", "10.0.0.11:443 down OutOfFileDescriptors"],
        "WARN node DOWN reason=OutOfFileDescriptors port=80,443 family=ipv4 addresses=10.0.0.11 limit=1024 open_files=1024 process=cilium-envoy[100] up_for=12s",
    );
    kept!(watch);
}
