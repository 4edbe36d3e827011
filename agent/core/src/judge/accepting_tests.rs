//! `Accepting` over time: a small model of accept queues, read as the agent reads them.

use proptest::prelude::*;

use super::super::queues::remember_queues;
use super::super::serving_testing::{MS, endpoint, envoy, lost, observed, owned_by, queue, table};
use super::*;
use crate::condition::Status;
use crate::facts::Reading;
use crate::facts::queues::{QueueSample, QueueSamples};

/// A node that is judged pass by pass.
struct Node {
    memory: Memory,
    process: Process,
    now_ms: u64,
}

impl Node {
    fn new() -> Self {
        Self { memory: Memory::default(), process: envoy(7), now_ms: 1_000 }
    }

    fn now(&self) -> Mono {
        Mono(self.now_ms * MS)
    }

    fn snapshot(&self, queues: &[Listener]) -> Snapshot {
        let inodes: Vec<u64> = queues.iter().map(|row| row.id.inode).collect();
        Snapshot {
            sockets: observed(table(queues), self.now()),
            owners: observed(owned_by(self.process.clone(), &inodes), self.now()),
            ..Snapshot::default()
        }
    }

    fn judge(&mut self, snapshot: &Snapshot) -> Finding {
        remember_queues(&mut self.memory.queues, snapshot);
        judge_accepting(&Policy::default(), snapshot, &self.memory, endpoint(), self.now())
    }

    /// One pass after `after_ms` with queues of these lengths (limit 128).
    fn pass(&mut self, after_ms: u64, lengths: &[u32]) -> Finding {
        self.now_ms += after_ms;
        let rows: Vec<Listener> = lengths.iter().zip(1..).map(|(length, id)| queue(id, *length, 128)).collect();
        self.judge(&self.snapshot(&rows))
    }

    /// Passes every 250 ms for `ms`.
    fn passes(&mut self, ms: u64, lengths: &[u32]) -> Finding {
        let mut last = self.pass(250, lengths);
        for _ in 1..ms / 250 {
            last = self.pass(250, lengths);
        }
        last
    }
}

#[test]
fn an_envoy_of_another_pod_does_not_stand_for_a_socket_whose_holder_is_hidden() {
    let mut node = Node::new();
    node.process.state = RunState::Stopped;
    for (same_netns, expected) in [(None, Some(Reason::QueuesUnreadable)), (Some(true), Some(Reason::ProcessStopped))] {
        node.process.same_netns = same_netns;
        let mut snapshot = node.snapshot(&[queue(1, 0, 128)]);
        if let Reading::Observed { value, .. } = &mut snapshot.owners {
            value.holders.insert(1, Holders::Unknown("refused".to_owned()));
            value.processes.insert(8, Process { same_netns: None, ..envoy(8) });
            value.envoys = vec![node.process.pid, 8];
        }
        assert_eq!(node.judge(&snapshot).reason, expected, "{same_netns:?}");
    }
}

fn reason(finding: &Finding) -> (Status, Option<Reason>) {
    (finding.status, finding.reason)
}

const FINE: (Status, Option<Reason>) = (Status::True, None);

fn fails(reason: Reason) -> (Status, Option<Reason>) {
    (Status::False, Some(reason))
}

#[test]
fn empty_queues_of_a_live_process_are_true() {
    assert_eq!(reason(&Node::new().passes(10_000, &[0, 0])), FINE);
}

#[test]
fn a_queue_that_only_grows_is_stuck_after_the_grace_and_free_at_the_first_accept() {
    let mut node = Node::new();
    assert_eq!(reason(&node.passes(1_750, &[3])), FINE);
    let stuck = node.passes(750, &[4]);
    assert_eq!(reason(&stuck), fails(Reason::QueueStuck));
    assert!(stuck.message.starts_with("4 connections wait and none has been accepted for 2 s"), "{}", stuck.message);
    assert_eq!(reason(&node.pass(250, &[129])), fails(Reason::QueueStuck), "full and stuck is stuck");
    assert_eq!(reason(&node.pass(250, &[128])), (Status::True, Some(Reason::Overloaded)), "one was accepted");
    assert_eq!(reason(&node.passes(500, &[0])), (Status::True, Some(Reason::Overloaded)));
    assert_eq!(reason(&node.passes(5_000, &[0])), FINE);
}

#[test]
fn slow_ticks_alone_find_it_too() {
    let mut node = Node::new();
    for _ in 0..7 {
        assert_eq!(reason(&node.pass(1_000, &[1])), FINE);
    }
    assert_eq!(reason(&node.pass(1_000, &[1])), fails(Reason::QueueStuck));
}

#[test]
fn a_storm_of_passes_within_a_moment_proves_nothing() {
    let mut node = Node::new();
    node.pass(250, &[5]);
    node.pass(3_000, &[5]);
    for _ in 0..50 {
        assert_eq!(reason(&node.pass(1, &[5])), FINE);
    }
}

#[test]
fn the_same_reading_judged_again_is_not_another_reading() {
    let mut node = Node::new();
    node.pass(250, &[5]);
    let snapshot = node.snapshot(&[queue(1, 5, 128)]);
    for _ in 0..50 {
        node.now_ms += 250;
        assert_eq!(reason(&node.judge(&snapshot)), FINE);
    }
}

#[test]
fn one_worker_that_stands_still_is_told_after_three_seconds_and_until_it_is_empty() {
    let mut node = Node::new();
    assert_eq!(reason(&node.passes(3_000, &[0, 0, 9, 0])), FINE);
    let stuck = node.pass(250, &[0, 0, 9, 0]);
    assert_eq!(reason(&stuck), fails(Reason::WorkerStuck));
    assert_eq!(stuck.message, "1 of 4 workers do not accept: that share of the clients hangs");
    assert_eq!(stuck.evidence["queues"], "0 0 9 0");
    assert_eq!(reason(&node.pass(250, &[0, 0, 8, 0])), fails(Reason::WorkerStuck), "a trickle does not clear it");
    assert_eq!(reason(&node.pass(250, &[0, 0, 0, 0])), FINE);
}

#[test]
fn when_every_worker_stands_still_it_is_the_queue() {
    let mut node = Node::new();
    node.passes(2_500, &[2, 3]);
    assert_eq!(reason(&node.pass(250, &[2, 3])), fails(Reason::QueueStuck));
}

#[test]
fn another_port_of_the_same_process_is_not_a_member_of_the_group() {
    let mut node = Node::new();
    let mut finding = Finding::holds(KIND);
    for _ in 0..20 {
        node.now_ms += 250;
        let rows = [queue(1, 0, 128), Listener { port: 443, ..queue(2, 50, 128) }];
        finding = node.judge(&node.snapshot(&rows));
    }
    assert_eq!(reason(&finding), FINE);
}

#[test]
fn a_full_queue_that_moves_is_overloaded_and_true() {
    let mut node = Node::new();
    for turn in 0..100 {
        let finding = node.pass(250, &[if turn % 3 == 2 { 128 } else { 129 }]);
        assert_eq!(reason(&finding), (Status::True, Some(Reason::Overloaded)));
    }
}

#[test]
fn overflows_between_two_readings_are_overload_though_no_length_was_full() {
    let mut node = Node::new();
    node.pass(250, &[1]);
    node.now_ms += 250;
    let dropped = Listener { drops: Some(17), ..queue(1, 0, 128) };
    let finding = node.judge(&node.snapshot(&[dropped]));
    assert_eq!(reason(&finding), (Status::True, Some(Reason::Overloaded)));
    assert_eq!(finding.evidence["drops"], "17");
}

#[test]
fn samples_between_passes_show_the_gap_that_lengths_at_passes_hide() {
    let mut node = Node::new();
    for _ in 0..100 {
        node.now_ms += 250;
        let mut snapshot = node.snapshot(&[queue(1, 129, 128)]);
        let at = |us: u64| Mono(node.now().0 - 1_000 * us);
        snapshot.queues =
            QueueSamples(vec![QueueSample { cookie: 1, length: 129, at: at(20) }, QueueSample { cookie: 1, length: 128, at: at(10) }]);
        assert_eq!(reason(&node.judge(&snapshot)), (Status::True, Some(Reason::Overloaded)));
    }
    assert_eq!(reason(&node.passes(6_500, &[129])), (Status::True, Some(Reason::Overloaded)), "full readings count less");
    assert_eq!(reason(&node.passes(1_500, &[129])), fails(Reason::QueueStuck), "but without such a gap it is stuck");
}

#[test]
fn suspects_are_the_queues_worth_sampling() {
    let mut node = Node::new();
    node.pass(1_000, &[0, 4, 5]);
    assert_eq!(node.memory.queues.suspects().count(), 0, "one reading is no suspicion");
    node.pass(1_000, &[0, 4, 4]);
    assert_eq!(node.memory.queues.suspects().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_stopped_frozen_or_dead_owner_is_told_at_once() {
    for change in [
        (|process: &mut Process| process.state = RunState::Stopped) as fn(&mut Process),
        |process| process.frozen = Some(true),
        |process| process.state = RunState::Dead,
    ] {
        let mut node = Node::new();
        change(&mut node.process);
        let finding = node.pass(250, &[0]);
        assert_eq!(reason(&finding), fails(Reason::ProcessStopped));
        assert_eq!(finding.evidence["process"], "cilium-envoy[7]");
        node.process = envoy(7);
        assert_eq!(reason(&node.pass(250, &[0])), FINE);
    }
}

#[test]
fn state_d_counts_after_five_seconds_without_a_break() {
    let mut node = Node::new();
    node.process.state = RunState::Uninterruptible;
    assert_eq!(reason(&node.passes(5_000, &[0])), FINE);
    assert_eq!(reason(&node.passes(500, &[0])), fails(Reason::ProcessStopped));
    node.process.state = RunState::Alive;
    assert_eq!(reason(&node.pass(250, &[0])), FINE);
    node.process.state = RunState::Uninterruptible;
    assert_eq!(reason(&node.passes(4_000, &[0])), FINE, "the count begins anew");
}

#[test]
fn a_new_process_with_the_same_pid_begins_anew() {
    let mut node = Node::new();
    node.process.state = RunState::Uninterruptible;
    node.passes(5_000, &[0]);
    node.process.start_ticks += 1;
    assert_eq!(reason(&node.passes(1_000, &[0])), FINE);
}

#[test]
fn no_descriptor_free_for_the_grace_is_told_before_the_queue() {
    let mut node = Node::new();
    node.process.open_files = Some(1024);
    node.process.open_files_limit = Some(1024);
    assert_eq!(reason(&node.passes(2_000, &[0])), FINE);
    assert_eq!(reason(&node.pass(250, &[0])), fails(Reason::OutOfFileDescriptors));
    let with_clients = node.passes(3_000, &[6]);
    assert_eq!(reason(&with_clients), fails(Reason::OutOfFileDescriptors));
    assert_eq!((with_clients.evidence["open_files"].as_str(), with_clients.evidence["limit"].as_str()), ("1024", "1024"));
    node.process.open_files = Some(1023);
    assert_eq!(reason(&node.pass(250, &[0])), FINE);
}

#[test]
fn at_the_descriptor_limit_with_a_queue_that_moves_it_is_load() {
    let mut node = Node::new();
    node.process.open_files = Some(1024);
    node.process.open_files_limit = Some(1024);
    for turn in 0..60u32 {
        assert_eq!(reason(&node.pass(250, &[20 + turn * 7 % 5])), FINE, "{turn}");
    }
}

#[test]
fn a_starter_that_keeps_a_copy_of_the_descriptor_is_not_the_one_who_accepts() {
    let mut node = Node::new();
    let mut snapshot = node.snapshot(&[queue(1, 0, 128)]);
    let Reading::Observed { value: owners, .. } = &mut snapshot.owners else { unreachable!() };
    owners.holders.insert(1, Holders::Known { pids: vec![6, 7], complete: true });
    owners.processes.insert(6, Process { state: RunState::Stopped, ..envoy(6) });
    assert_eq!(reason(&node.judge(&snapshot)), FINE);
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let mut node = Node::new();
    let unknown = (Status::Unknown, Some(Reason::QueuesUnreadable));
    let good = node.snapshot(&[queue(1, 0, 128)]);
    assert_eq!(reason(&node.judge(&Snapshot { sockets: lost("EPERM"), ..good.clone() })), unknown);
    assert_eq!(
        reason(&node.judge(&Snapshot { owners: lost("EPERM"), ..good.clone() })),
        unknown,
        "a stopped owner must not turn good unseen"
    );
    let mut elsewhere = table(&[queue(1, 0, 128)]);
    elsewhere.lookups[0].endpoint.port = 81;
    assert_eq!(reason(&node.judge(&Snapshot { sockets: observed(elsewhere, node.now()), ..good.clone() })), unknown);
    let mut nobody = table(&[]);
    nobody.lookups[0].picked = None;
    assert_eq!(reason(&node.judge(&Snapshot { sockets: observed(nobody, node.now()), ..good })), FINE, "Listening says that");
}

#[test]
fn a_reading_that_failed_does_not_make_a_stuck_queue_good() {
    let mut node = Node::new();
    node.passes(3_000, &[4]);
    let mut snapshot = node.snapshot(&[]);
    snapshot.sockets = lost("EINTR");
    assert_eq!(node.judge(&snapshot).status, Status::Unknown);
    assert_eq!(reason(&node.pass(250, &[4])), fails(Reason::QueueStuck));
}

#[test]
fn memory_survives_a_snapshot_file() {
    let mut node = Node::new();
    node.passes(3_000, &[4, 0]);
    let text = serde_json::to_string(&node.memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), node.memory);
}

/// A queue of an Envoy that works, sampled every 4 ms while suspected: clients come in bursts, workers accept in turns with pauses, in steps of 100 µs.
#[derive(Debug, Clone)]
struct Load {
    /// Clients per step within a burst.
    arrivals: u32,
    /// Length of burst and of the calm after it, in steps.
    burst: (u64, u64),
    /// Accepts per step while the worker is at it.
    accepts: u32,
    /// Steps at work and in other work, in turn.
    work: (u64, u64),
}

fn load() -> impl Strategy<Value = Load> {
    (1u32..40, (1u64..20_000, 0u64..5_000), 1u32..30, (1u64..3_000, 0u64..4_000))
        .prop_filter("accepts at least a twentieth of the time", |(_, _, _, work)| work.0 * 20 >= work.0 + work.1)
        .prop_map(|(arrivals, burst, accepts, work)| Load { arrivals, burst, accepts, work })
}

impl Load {
    fn step(&self, step: u64, length: u32, limit: u32) -> u32 {
        let accepting = step % (self.work.0 + self.work.1) < self.work.0;
        let coming = step % (self.burst.0 + self.burst.1) < self.burst.0;
        let left = if accepting { length.saturating_sub(self.accepts) } else { length };
        // Within a step accepts come first: a sample at the end of a step can see the queue full again.
        let come = if coming { self.arrivals } else { 0 };
        // Two of three steps of a flood fill the queue up again; the third leaves what the last accept freed.
        if accepting && step.is_multiple_of(3) { left } else { (left + come).min(limit + 1) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Bursts, pauses of up to 0.4 s, and floods that keep the queue at its limit: never down, at any time.
    #[test]
    fn a_busy_envoy_is_never_stuck(load in load(), limit in prop_oneof![Just(8u32), Just(128), Just(4096)]) {
        let mut node = Node::new();
        let (mut length, mut step) = (0u32, 0u64);
        for pass in 0..80u64 {
            let suspected = node.memory.queues.suspects().next().is_some();
            let until = step + if suspected || pass % 2 == 0 { 2_500 } else { 10_000 };
            let mut samples = Vec::new();
            while step < until {
                length = load.step(step, length, limit);
                step += 1;
                if suspected && step % 40 == 0 {
                    samples.push(QueueSample { cookie: 1, length, at: Mono(1_000 * MS + step * 100_000) });
                }
            }
            node.now_ms = 1_000 + step / 10;
            let mut snapshot = node.snapshot(&[queue(1, length, limit)]);
            snapshot.queues = QueueSamples(samples);
            let finding = node.judge(&snapshot);
            prop_assert_eq!(finding.status, Status::True, "pass {} at {} ms: {:?}", pass, node.now_ms, finding);
        }
    }

    /// Whatever came before: from the moment on at which nothing is accepted, it is told within 4 s once a client waits.
    #[test]
    fn a_worker_that_stops_accepting_is_always_found(before in proptest::collection::vec(0u32..129, 0..20), growth in 0u32..20) {
        let mut node = Node::new();
        for length in before {
            node.pass(250, &[length]);
        }
        node.pass(250, &[0]);
        let mut length = 1u32;
        for _ in 0..10 {
            node.pass(250, &[length]);
            length = (length + growth).min(129);
        }
        prop_assert_eq!(reason(&node.pass(250, &[length])), fails(Reason::QueueStuck));
    }

    /// Nothing in the memory grows with time.
    #[test]
    fn sockets_that_are_gone_are_forgotten(ids in proptest::collection::vec(1u64..1000, 1..20)) {
        let mut node = Node::new();
        for id in ids {
            node.now_ms += 250;
            node.process = envoy(u32::try_from(id).unwrap());
            node.judge(&node.snapshot(&[queue(id, 1, 8)]));
            prop_assert_eq!((node.memory.queues.sockets.len(), node.memory.queues.owners.len()), (1, 1));
        }
    }
}
