//! The judge as a whole: start, recovery, partial, staleness, and properties that hold for every history.

use std::time::Duration;

use proptest::prelude::*;

use super::testing::{Scene, endpoint, foreign_listener, listener, lost};
use super::*;
use crate::facts::{DrainRequest, Reading, Why};
use crate::net::Family;

const S: u64 = 1_000_000_000;

/// Judges a series of scenes, each at its second, without probes; the last verdict.
struct Run {
    policy: Policy,
    memory: Memory,
}

impl Run {
    fn new() -> Self {
        Self { policy: Policy { probe_enabled: false, ..Policy::default() }, memory: Memory::default() }
    }

    /// Judges `scene` as read and judged at `second`.
    fn at(&mut self, second: f64, scene: &Scene) -> Verdict {
        let mono = Mono(0).plus(Duration::from_secs_f64(second));
        let mut snapshot = scene.snapshot.clone();
        if let Reading::Observed { window, .. } = &mut snapshot.sockets {
            window.end = mono;
        }
        self.judge(&snapshot, mono)
    }

    fn judge(&mut self, snapshot: &Snapshot, mono: Mono) -> Verdict {
        let judgement = judge(&self.policy, snapshot, &self.memory, Now { mono, unix_ms: mono.0 / 1_000_000 });
        self.memory = judgement.memory;
        judgement.verdict
    }
}

fn healthy() -> Scene {
    Scene::healthy(&["10.0.0.11"])
}

#[test]
fn a_healthy_node_is_up_in_its_first_whole_judgement() {
    let verdict = Run::new().at(1.0, &healthy());
    assert_eq!(verdict.node, Outcome::UP);
    assert_eq!((verdict.ports.as_slice(), verdict.families.as_slice()), (&[80, 443][..], &[Family::Ipv4][..]));
    assert_eq!(verdict.partial, 0);
}

#[test]
fn starting_until_every_source_was_tried() {
    let mut scene = healthy();
    scene.snapshot.owners = Reading::NotRead;
    let mut run = Run::new();
    assert_eq!(run.at(1.0, &scene).node.reason, Some(Reason::Starting));
    assert_eq!(run.at(1.1, &healthy()).node, Outcome::UP);
}

#[test]
fn starting_until_the_first_search_for_holders_is_over_and_never_again() {
    let searching = || {
        let mut scene = healthy();
        let picked = scene.sockets().lookups.iter().find_map(|lookup| lookup.picked.clone()).unwrap();
        scene.owners().holders.insert(picked.id.inode, Holders::Searching("the search is still running".into()));
        scene
    };
    let mut run = Run::new();
    let verdict = run.at(1.0, &searching());
    assert_eq!(verdict.node.reason, Some(Reason::Starting));
    let observed = verdict.conditions.iter().find(|condition| condition.kind == ConditionType::Observed).unwrap();
    assert!(observed.message.contains("holders"), "{}", observed.message);
    assert_eq!(run.at(1.1, &healthy()).node, Outcome::UP);
    assert_ne!(run.at(1.2, &searching()).node.reason, Some(Reason::Starting));
}

#[test]
fn a_search_for_holders_without_end_does_not_keep_a_node_that_serves_down() {
    let mut scene = healthy();
    let picked = scene.sockets().lookups.iter().find_map(|lookup| lookup.picked.clone()).unwrap();
    scene.owners().holders.insert(picked.id.inode, Holders::Searching("the search failed: Too many open files".into()));
    let mut run = Run::new();
    assert_eq!(run.at(1.0, &scene).node.reason, Some(Reason::Starting));
    assert_eq!(run.at(10.9, &scene).node.reason, Some(Reason::Starting));
    assert_eq!(run.at(11.0, &scene).node, Outcome::UP);
}

#[test]
fn an_imitator_of_envoys_marks_is_down_from_the_first_answer() {
    let socket = Listener { mark: Some(0xb00), transparent: Some(true), ..foreign_listener(9, "10.0.0.11:80") };
    let mut scene = healthy().process(7, "python3").listens(&socket, &[7]).picks("10.0.0.11:80", Some(&socket));
    scene.snapshot.lb.seen.insert(Family::Ipv4);
    let verdict = Run::new().at(1.0, &scene);
    assert_eq!((verdict.node.state, verdict.node.reason), (State::Down, Some(Reason::Unidentified)));
    let owned = verdict.conditions.iter().find(|condition| condition.kind == ConditionType::OwnedByEnvoy).unwrap();
    assert_eq!(owned.status, Status::Unknown, "who is behind it is not proven");
}

#[test]
fn starting_until_the_first_round_of_probes_is_over() {
    let mut run = Run::new();
    run.policy.probe_enabled = true;
    let mut scene = healthy();
    scene.snapshot.probes = Reading::NotRead;
    assert_eq!(run.at(1.0, &scene).node.reason, Some(Reason::Starting));
}

#[test]
fn a_restart_after_a_recent_down_waits_for_min_up() {
    let mut run = Run::new();
    run.memory.was_down = true;
    assert_eq!(run.at(1.0, &healthy()).node.reason, Some(Reason::Starting));
    assert_eq!(run.at(2.9, &healthy()).node.reason, Some(Reason::Starting));
    assert_eq!(run.at(3.0, &healthy()).node, Outcome::UP);
}

#[test]
fn envoy_gone_is_down_at_once_with_the_cause_and_back_after_min_up() {
    let mut run = Run::new();
    run.at(1.0, &healthy());
    let mut dead = healthy().without_port(80).without_port(443);
    dead.owners().envoys.clear();
    dead.owners().processes.clear();
    let verdict = run.at(2.0, &dead);
    assert_eq!(verdict.node, Outcome { state: State::Down, reason: Some(Reason::EnvoyNotRunning), ports: vec![] });
    assert_eq!(run.at(3.0, &healthy()).node.state, State::Down);
    assert_eq!(run.at(5.0, &healthy()).node, Outcome::UP);
}

#[test]
fn one_port_missing_is_down_and_names_the_port() {
    let mut run = Run::new();
    let verdict = run.at(1.0, &healthy().without_port(443));
    assert_eq!(verdict.node, Outcome { state: State::Down, reason: Some(Reason::NoListener), ports: vec![443] });
    let by_port: Vec<State> = verdict.endpoints.iter().map(|e| e.outcome.state).collect();
    assert_eq!(by_port, [State::Up, State::Down]);
}

/// Healthy at 80 and 443, and expected at `ports`.
fn expecting(run: &mut Run, ports: &[u16]) {
    run.policy.ports = crate::policy::Choice::Only(ports.to_vec());
}

#[test]
fn a_port_that_joins_an_address_that_is_up_waits_for_nothing_and_is_down_if_it_is_not_served() {
    let mut run = Run::new();
    expecting(&mut run, &[80]);
    assert_eq!(run.at(1.0, &healthy()).node, Outcome::UP);
    expecting(&mut run, &[80, 443]);
    assert_eq!(run.at(2.0, &healthy()).node, Outcome::UP, "every node of the pool gets the port at the same time");
    expecting(&mut run, &[80]);
    run.at(3.0, &healthy());
    expecting(&mut run, &[80, 443]);
    assert_eq!(run.at(4.0, &healthy().without_port(443)).node.reason, Some(Reason::NoListener));
    assert_eq!(run.at(5.0, &healthy()).node.reason, Some(Reason::NoListener), "back to up waits");
}

#[test]
fn a_port_that_joins_an_address_that_is_down_does_not_bring_it_up() {
    let mut run = Run::new();
    expecting(&mut run, &[80]);
    run.at(1.0, &healthy());
    run.at(2.0, &healthy().without_port(80));
    expecting(&mut run, &[80, 443]);
    assert_eq!(run.at(3.0, &healthy()).node.state, State::Down);
}

#[test]
fn a_theft_of_one_address_is_partial() {
    let thief = foreign_listener(9, "10.0.0.11:80");
    let scene = Scene::healthy(&["10.0.0.11", "10.0.0.12"]).process(7, "nginx").listens(&thief, &[7]).picks("10.0.0.11:80", Some(&thief));
    let verdict = Run::new().at(1.0, &scene);
    assert_eq!((verdict.node.state, verdict.partial), (State::Up, 1));
    let states: Vec<(State, Option<Reason>)> = verdict.addresses.iter().map(|a| (a.outcome.state, a.outcome.reason)).collect();
    assert_eq!(states, [(State::Down, Some(Reason::ShadowedAddress)), (State::Up, None)]);
}

#[test]
fn a_drain_is_a_drain_until_something_is_down() {
    let mut run = Run::new();
    run.at(1.0, &healthy());
    let mut scene = healthy();
    scene.snapshot.drain = Some(DrainRequest { by: "root".into(), reason: String::new(), asked_unix_ms: 0, until_unix_ms: None });
    assert_eq!(run.at(2.0, &scene).node, Outcome { state: State::Drain, reason: Some(Reason::DrainRequested), ports: vec![] });
    assert_eq!(run.at(3.0, &scene.without_port(80)).node.reason, Some(Reason::NoListener));
}

#[test]
fn a_stale_socket_source_is_down() {
    let mut run = Run::new();
    run.at(1.0, &healthy());
    let mut lost_sockets = healthy().snapshot;
    lost_sockets.sockets = lost(Why::Failed);
    assert_eq!(run.judge(&lost_sockets, Mono(6 * S)).node, Outcome::UP);
    assert_eq!(run.judge(&lost_sockets, Mono(6 * S + 1)).node.reason, Some(Reason::Stale));
}

#[test]
fn a_thief_that_cannot_be_identified_yet_is_not_covered_by_envoys_proof() {
    let mut run = Run::new();
    run.at(1.0, &healthy());
    let unknown = foreign_listener(9, "10.0.0.11:80");
    let mut scene = healthy().listens(&unknown, &[]).picks("10.0.0.11:80", Some(&unknown));
    scene.sockets().listeners.iter_mut().for_each(|row| row.mark = None);
    scene.sockets().lookups.iter_mut().filter_map(|l| l.picked.as_mut()).for_each(|row| row.mark = None);
    let verdict = run.at(2.0, &scene);
    assert_eq!(verdict.node.reason, Some(Reason::Unidentified), "{verdict:#?}");
}

#[test]
fn an_agent_that_sees_nothing_is_open_and_says_so() {
    let mut scene = healthy();
    scene.snapshot.owners = lost(Why::Permission);
    scene.snapshot.lb.v4 = lost(Why::Permission);
    scene.snapshot.envoy = lost(Why::Permission);
    for row in &mut scene.sockets().listeners {
        row.mark = None;
    }
    let verdict = Run::new().at(1.0, &scene);
    assert_eq!(verdict.node, Outcome::UP);
    let blind: Vec<ConditionType> = verdict.blind.iter().map(|b| b.kind).collect();
    assert!(blind.contains(&ConditionType::OwnedByEnvoy) && blind.contains(&ConditionType::NotIntercepted), "{blind:?}");
}

#[test]
fn a_condition_keeps_its_since_while_it_stands() {
    let mut run = Run::new();
    run.at(1.0, &healthy());
    run.at(2.0, &healthy().without_port(443));
    let verdict = run.at(3.0, &healthy().without_port(443));
    let listening = verdict.conditions.iter().find(|c| c.kind == ConditionType::Listening && c.status == Status::False).unwrap();
    assert_eq!(listening.since, Mono(2 * S));
    assert_eq!(verdict.node_since.mono, Mono(2 * S));
}

/// Scenes that differ in what a pass may find, good and bad.
fn any_scene() -> impl Strategy<Value = Scene> {
    (0..6_u8, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(layout, lose_owners, lose_lb, lose_sockets)| {
        let thief = foreign_listener(9, "10.0.0.11:80");
        let mut scene = match layout {
            0 => healthy(),
            1 => healthy().without_port(80),
            2 => healthy().process(7, "nginx").listens(&thief, &[7]).picks("10.0.0.11:80", Some(&thief)),
            3 => healthy().process(200, "cilium-envoy").listens(&listener(8, "0.0.0.0:80"), &[200]),
            4 => Scene::healthy(&["10.0.0.11", "10.0.0.12"]),
            _ => Scene::new(&["10.0.0.11"]).picks("10.0.0.11:80", None).picks("10.0.0.11:443", None),
        };
        if lose_owners {
            scene.snapshot.owners = lost(Why::Failed);
        }
        if lose_lb {
            scene.snapshot.lb.v4 = lost(Why::Failed);
        }
        if lose_sockets {
            scene.snapshot.sockets = lost(Why::Failed);
        }
        scene
    })
}

proptest! {
    /// After any history: a judgement from which every source is taken away is not better than the one before.
    #[test]
    fn losing_every_source_never_turns_down_into_up(history in prop::collection::vec(any_scene(), 1..6), later in 1..100_u64) {
        let mut run = Run::new();
        let mut last = State::Down;
        for (second, scene) in (1_u32..).zip(&history) {
            last = run.at(f64::from(second), scene).node.state;
        }
        let now = Mono((history.len() as u64 + later) * S);
        let snapshot = Snapshot {
            addresses: lost(Why::Failed),
            sockets: lost(Why::Failed),
            owners: lost(Why::Failed),
            lb: crate::lb::facts::LbFacts { v4: lost(Why::Failed), v6: lost(Why::Failed), ..crate::lb::facts::LbFacts::default() },
            envoy: lost(Why::Failed),
            ..Snapshot::default()
        };
        if last != State::Up {
            prop_assert_ne!(run.judge(&snapshot, now).node.state, State::Up);
        }
    }

    /// Rows come in the order of the kernel's hash tables: it must not matter.
    #[test]
    fn the_order_of_rows_is_irrelevant(scene in any_scene(), seed in any::<u64>()) {
        let straight = Run::new().at(1.0, &scene);
        let mut shuffled = scene.clone();
        if let Reading::Observed { value, .. } = &mut shuffled.snapshot.sockets {
            let rotate = |n: usize| if n == 0 { 0 } else { usize::try_from(seed % 7).unwrap() % n };
            let (rows, lookups) = (value.listeners.len(), value.lookups.len());
            value.listeners.rotate_left(rotate(rows));
            value.lookups.rotate_left(rotate(lookups));
            value.listeners.reverse();
        }
        let turned = Run::new().at(1.0, &shuffled);
        prop_assert_eq!(straight, turned);
    }

    /// The published value of a judgement replays from its serialised input.
    #[test]
    fn a_judgement_replays_from_json(scene in any_scene()) {
        let json = serde_json::to_string(&scene.snapshot).unwrap();
        let snapshot: Snapshot = serde_json::from_str(&json).unwrap();
        let policy = Policy::default();
        let now = Now { mono: Mono(S), unix_ms: 1 };
        let first = judge(&policy, &scene.snapshot, &Memory::default(), now);
        let memory: Memory = serde_json::from_str(&serde_json::to_string(&Memory::default()).unwrap()).unwrap();
        prop_assert_eq!(first, judge(&policy, &snapshot, &memory, now));
    }

    /// Recovery never takes longer than the longest wait, whatever happened before.
    #[test]
    fn a_node_that_stays_healthy_comes_back_within_the_longest_wait(history in prop::collection::vec(any_scene(), 0..12)) {
        let mut run = Run::new();
        let mut second = 0_u32;
        for scene in &history {
            second += 1;
            run.at(f64::from(second), scene);
        }
        run.at(f64::from(second + 1), &healthy());
        let wait = Duration::from_secs(30).as_secs_f64();
        let verdict = run.at(f64::from(second + 1) + wait, &healthy());
        prop_assert_eq!(verdict.node, Outcome::UP);
    }
}

#[test]
fn an_endpoint_that_was_never_looked_up_is_unknown_not_missing() {
    let mut scene = healthy();
    scene.sockets().lookups.retain(|l| l.endpoint != endpoint("10.0.0.11:443"));
    let finding = listening::judge_listening(&Policy::default(), &scene.snapshot, endpoint("10.0.0.11:443"));
    assert_eq!((finding.status, finding.reason), (Status::Unknown, Some(Reason::SocketsUnreadable)));
}
