//! The treatment of Unknown as a truth table: one test per rule of DESIGN 3, named after the rule.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const KINDS: [ConditionType; 3] = [ConditionType::Listening, ConditionType::NotIntercepted, ConditionType::CiliumAgentAlive];
const HOLD: Duration = Duration::from_secs(30);
const JUST_HELD: Mono = Mono(30_000_000_000);
const HELD_TOO_LONG: Mono = Mono(30_000_000_001);

fn subject(kind: ConditionType) -> Subject {
    Subject { kind, endpoint: None }
}

/// What a series of findings counts as at the last one, each with its time.
fn after(policy: &Policy, series: &[(Finding, Mono)]) -> Effect {
    let mut memory = Memory::default();
    let mut last = Effect::Fine;
    for (finding, at) in series {
        remember(&mut memory, subject(finding.kind), finding, *at);
        last = effect(policy, &memory.known[&subject(finding.kind)], finding, *at);
    }
    last
}

fn truth(kind: ConditionType) -> Finding {
    Finding::holds(kind)
}

fn falsehood(kind: ConditionType) -> Finding {
    Finding::fails(kind, Reason::HostPort, "")
}

fn unknown(kind: ConditionType) -> Finding {
    Finding::unknown(kind, Reason::MapsUnreadable, "")
}

fn down(reason: Reason) -> Effect {
    Effect::Against { state: State::Down, reason }
}

#[test]
fn true_counts_for_and_false_on_a_required_condition_is_down() {
    for kind in &KINDS[..2] {
        assert_eq!(after(&Policy::default(), &[(truth(*kind), Mono(0))]), Effect::Fine);
        assert_eq!(after(&Policy::default(), &[(falsehood(*kind), Mono(0))]), down(Reason::HostPort));
    }
}

#[test]
fn an_advisory_condition_never_counts_against() {
    for finding in [falsehood(KINDS[2]), unknown(KINDS[2])] {
        assert_eq!(after(&Policy::default(), &[(finding, Mono(0))]), Effect::Fine);
    }
}

#[test]
fn the_operator_can_turn_required_into_advisory_and_back() {
    let mut policy = Policy::default();
    policy.require.insert(KINDS[1], Requirement::Advisory);
    policy.require.insert(KINDS[2], Requirement::Required);
    assert_eq!(after(&policy, &[(falsehood(KINDS[1]), Mono(0))]), Effect::Fine);
    assert_eq!(after(&policy, &[(falsehood(KINDS[2]), Mono(0))]), down(Reason::HostPort));
}

#[test]
fn unknown_keeps_the_last_known_status_within_hold() {
    for kind in &KINDS[..2] {
        assert_eq!(
            after(&Policy::default(), &[(truth(*kind), Mono(0)), (unknown(*kind), Mono(0)), (unknown(*kind), JUST_HELD)]),
            Effect::Kept
        );
    }
}

#[test]
fn after_hold_a_true_falls_closed_for_listening_and_stays_open_for_the_others() {
    let series = |kind| [(truth(kind), Mono(0)), (unknown(kind), Mono(0)), (unknown(kind), HELD_TOO_LONG)];
    assert_eq!(after(&Policy::default(), &series(ConditionType::Listening)), down(Reason::MapsUnreadable));
    assert_eq!(after(&Policy::default(), &series(ConditionType::OwnedByEnvoy)), down(Reason::MapsUnreadable));
    assert_eq!(after(&Policy::default(), &series(ConditionType::NotIntercepted)), Effect::Fine);
}

#[test]
fn the_operator_can_open_and_close_unknown() {
    let series = |kind| [(truth(kind), Mono(0)), (unknown(kind), Mono(0)), (unknown(kind), HELD_TOO_LONG)];
    let mut policy = Policy::default();
    policy.unknown.insert(ConditionType::Listening, Fallback::Open);
    policy.unknown.insert(ConditionType::NotIntercepted, Fallback::Closed);
    assert_eq!(after(&policy, &series(ConditionType::Listening)), Effect::Fine);
    assert_eq!(after(&policy, &series(ConditionType::NotIntercepted)), down(Reason::MapsUnreadable));
}

#[test]
fn a_false_stays_false_with_its_reason_until_the_source_is_read_again() {
    for kind in &KINDS[..2] {
        let long_after = Mono(HELD_TOO_LONG.0 * 1_000);
        let lost = [(falsehood(*kind), Mono(0)), (unknown(*kind), Mono(1)), (unknown(*kind), long_after)];
        assert_eq!(after(&Policy::default(), &lost), down(Reason::HostPort));
        let mut back = lost.to_vec();
        back.push((truth(*kind), long_after));
        assert_eq!(after(&Policy::default(), &back), Effect::Fine);
    }
}

#[test]
fn never_known_is_open_and_said_loudly() {
    let series = [(unknown(ConditionType::Listening), Mono(0)), (unknown(ConditionType::Listening), HELD_TOO_LONG)];
    assert_eq!(after(&Policy::default(), &series), Effect::Blind);
}

#[test]
fn never_known_is_closed_after_hold_only_where_the_operator_says_so() {
    let mut policy = Policy::default();
    policy.unknown.insert(ConditionType::Listening, Fallback::Closed);
    let first = (unknown(ConditionType::Listening), Mono(0));
    assert_eq!(after(&policy, std::slice::from_ref(&first)), Effect::Blind);
    assert_eq!(after(&policy, &[first, (unknown(ConditionType::Listening), HELD_TOO_LONG)]), down(Reason::MapsUnreadable));
}

#[test]
fn proof_of_a_socket_that_is_gone_does_not_cover_its_successor() {
    let kind = ConditionType::OwnedByEnvoy;
    let gone = Finding::unknown(kind, Reason::Unidentified, "").lapsing();
    assert_eq!(after(&Policy::default(), &[(truth(kind), Mono(0)), (gone.clone(), Mono(1))]), down(Reason::Unidentified));
    // An agent that could never identify anything has no proof to lose: its lack of a privilege must not empty the pool.
    assert_eq!(after(&Policy::default(), &[(unknown(kind), Mono(0)), (gone, Mono(1))]), Effect::Blind);
}

#[test]
fn a_leaving_envoy_and_a_drain_are_drains_and_everything_else_is_down() {
    for reason in Reason::ALL {
        let state = match against(ConditionType::EnvoyLive, Some(*reason)) {
            Effect::Against { state, .. } => state,
            other => panic!("{other:?}"),
        };
        let drains = matches!(reason, Reason::EnvoyDraining | Reason::EnvoyTerminating);
        assert_eq!(state == State::Drain, drains, "{reason}");
    }
    assert_eq!(
        against(ConditionType::InService, Some(Reason::DrainRequested)),
        Effect::Against { state: State::Drain, reason: Reason::DrainRequested }
    );
}

fn any_finding() -> impl Strategy<Value = Finding> {
    let kind = prop::sample::select(ConditionType::ALL.to_vec());
    let reason = prop::sample::select(Reason::ALL.to_vec());
    (kind, reason, 0..4_u8).prop_map(|(kind, reason, status)| match status {
        0 => Finding::holds(kind),
        1 => Finding::fails(kind, reason, ""),
        2 => Finding::unknown(kind, reason, ""),
        _ => Finding::unknown(kind, reason, "").lapsing(),
    })
}

proptest! {
    /// Whatever happened before: if the last known state of a subject counts against up, then losing its source counts
    /// against up as well, now and for ever.
    #[test]
    fn losing_a_source_never_turns_down_into_up(history in prop::collection::vec(any_finding(), 1..8), kind in prop::sample::select(ConditionType::ALL.to_vec()), late in 0..u64::MAX / 2) {
        let policy = Policy { hold: HOLD, ..Policy::default() };
        let mut series: Vec<(Finding, Mono)> = history.into_iter().zip(0..).map(|(f, at)| (Finding { kind, ..f }, Mono(at))).collect();
        let before = after(&policy, &series);
        series.push((unknown(kind), Mono(100)));
        series.push((unknown(kind), Mono(100 + late)));
        if matches!(before, Effect::Against { .. }) {
            let still = matches!(after(&policy, &series), Effect::Against { .. });
            prop_assert!(still);
        }
    }
}

#[test]
fn a_false_that_its_own_source_refutes_does_not_outlive_it_for_want_of_another_source() {
    let kind = ConditionType::NotIntercepted;
    let refuting = |reason| unknown(kind).refuting([reason]);
    let policy = Policy::default();
    assert_eq!(after(&policy, &[(falsehood(kind), Mono(0)), (refuting(Reason::HostPort), Mono(1))]), Effect::Blind);
    assert_eq!(
        after(&policy, &[(falsehood(kind), Mono(0)), (refuting(Reason::SkLookup), Mono(1))]),
        down(Reason::HostPort),
        "another reason"
    );
    assert_eq!(after(&policy, &[(truth(kind), Mono(0)), (refuting(Reason::HostPort), Mono(1))]), Effect::Kept, "a True stays what it was");
    let and_lost = [(falsehood(kind), Mono(0)), (refuting(Reason::HostPort), Mono(1)), (unknown(kind), HELD_TOO_LONG)];
    assert_eq!(after(&policy, &and_lost), Effect::Blind);
}
