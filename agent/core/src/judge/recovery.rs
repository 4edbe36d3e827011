//! The way back to up: everything must hold for `min_up`, and longer the more often it has just recovered.

use std::time::Duration;

use crate::memory::Recovery;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::time::Mono;
use crate::verdict::{Outcome, State};

/// Recoveries within this time count as flapping.
const FLAP_WINDOW: Duration = Duration::from_secs(300);
/// Longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// How the way back to up stands open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// After `min_up`.
    Usual,
    /// At once: the first judgement after `Starting`, or the first of a port that joins an address which is up.
    FreshStart,
    /// Not now: something required is not proven at this moment, only remembered.
    Closed,
}

/// The published outcome of an endpoint whose facts say `wanted`. A turn for the worse counts at once; back to up waits.
pub fn settle(policy: &Policy, recovery: &mut Recovery, wanted: Outcome, way: Way, now: Mono) -> Outcome {
    let settled = if wanted.state == State::Up { recover(policy, recovery, way, now) } else { refuse(recovery, wanted) };
    recovery.last = Some(settled.clone());
    settled
}

fn refuse(recovery: &mut Recovery, wanted: Outcome) -> Outcome {
    recovery.good_since = None;
    wanted
}

fn recover(policy: &Policy, recovery: &mut Recovery, way: Way, now: Mono) -> Outcome {
    let waiting_as = match &recovery.last {
        Some(last) if last.state == State::Up => return Outcome::UP,
        None if way == Way::FreshStart => return Outcome::UP,
        Some(last) => last.clone(),
        None => Outcome { state: State::Down, reason: Some(Reason::Starting), ports: Vec::new() },
    };
    if way == Way::Closed {
        recovery.good_since = None;
        return waiting_as;
    }
    recovery.recovered_at.retain(|at| now.since(*at) <= FLAP_WINDOW);
    let good_since = *recovery.good_since.get_or_insert(now);
    if now.since(good_since) < wait(policy.min_up, recovery.recovered_at.len()) {
        return waiting_as;
    }
    recovery.good_since = None;
    recovery.recovered_at.push(now);
    Outcome::UP
}

/// `min_up` for the first recovery within five minutes, each further one doubles it, up to 30 s (or `min_up` if that is more).
fn wait(min_up: Duration, recoveries: usize) -> Duration {
    let doublings = u32::try_from(recoveries).unwrap_or(u32::MAX).min(16);
    min_up.saturating_mul(1 << doublings).min(LONGEST.max(min_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn down() -> Outcome {
        Outcome { state: State::Down, reason: Some(Reason::HostPort), ports: vec![80] }
    }

    #[test]
    fn worse_counts_at_once_and_better_after_min_up_with_the_old_reason_shown() {
        let policy = Policy::default();
        let mut recovery = Recovery::default();
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::FreshStart, Mono(0)), Outcome::UP);
        assert_eq!(settle(&policy, &mut recovery, down(), Way::Usual, Mono(S)), down());
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(2 * S)), down());
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(4 * S - 1)), down());
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(4 * S)), Outcome::UP);
    }

    #[test]
    fn a_relapse_starts_the_wait_again() {
        let policy = Policy::default();
        let mut recovery = Recovery { last: Some(down()), ..Recovery::default() };
        settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(0));
        settle(&policy, &mut recovery, down(), Way::Usual, Mono(S));
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(3 * S - 1)), down());
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(4 * S)), down());
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(5 * S)), Outcome::UP);
    }

    #[test]
    fn what_is_only_remembered_keeps_up_but_does_not_bring_it_back() {
        let policy = Policy::default();
        let mut recovery = Recovery { last: Some(down()), ..Recovery::default() };
        settle(&policy, &mut recovery, Outcome::UP, Way::Closed, Mono(0));
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Closed, Mono(60 * S)), down());
        let mut up = Recovery { last: Some(Outcome::UP), ..Recovery::default() };
        assert_eq!(settle(&policy, &mut up, Outcome::UP, Way::Closed, Mono(0)), Outcome::UP);
    }

    #[test]
    fn each_recovery_within_five_minutes_doubles_the_wait_up_to_30_seconds() {
        let waits: Vec<u64> = (0..6).map(|n| wait(Duration::from_secs(2), n).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn five_quiet_minutes_forget_the_flapping() {
        let policy = Policy::default();
        let mut recovery = Recovery { last: Some(down()), good_since: None, recovered_at: vec![Mono(0)] };
        let later = 301 * S;
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(later)), down());
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(later + 2 * S)), Outcome::UP);
    }

    #[test]
    fn an_address_that_appears_later_proves_itself_first() {
        let policy = Policy::default();
        let mut recovery = Recovery::default();
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(0)).reason, Some(Reason::Starting));
        assert_eq!(settle(&policy, &mut recovery, Outcome::UP, Way::Usual, Mono(2 * S)), Outcome::UP);
    }
}
