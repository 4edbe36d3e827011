//! `Observed` and `InService`: the agent's own eyes, and the operator's wish.

use std::time::Duration;

use crate::condition::{ConditionType, Finding};
use crate::facts::{DrainRequest, Snapshot};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::render::text::sanitise;
use crate::time::{Mono, Now};

/// `Observed`: True once the agent has seen enough to answer, while the socket source is fresh. Never Unknown.
/// `pending` names what has not been seen yet; `last_good` is the end of the last good read of the socket source.
#[must_use]
pub fn judge_observed(policy: &Policy, pending: &[&str], last_good: Option<Mono>, now: Mono) -> Finding {
    let kind = ConditionType::Observed;
    let Some(last_good) = last_good.filter(|_| pending.is_empty()) else {
        return Finding::fails(kind, Reason::Starting, format!("not seen yet: {}", pending.join(", ")));
    };
    let age = now.since(last_good);
    if age > policy.stale_after {
        return Finding::fails(kind, Reason::Stale, format!("the socket table was last read {} ms ago", age.as_millis()));
    }
    Finding::holds(kind)
}

/// `InService`: False while a drain is asked for and not over.
#[must_use]
pub fn judge_in_service(drain: Option<&DrainRequest>, now: Now) -> Finding {
    let kind = ConditionType::InService;
    match drain.filter(|drain| drain.until_unix_ms.is_none_or(|until| now.unix_ms < until)) {
        None => Finding::holds(kind),
        Some(drain) => {
            let finding = Finding::fails(
                kind,
                Reason::DrainRequested,
                format!("drain asked for by {}: {}", sanitise(&drain.by), sanitise(&drain.reason)),
            )
            .with("by", &drain.by)
            .with("why", &drain.reason);
            match drain.until_unix_ms {
                Some(until) => finding.with("ends_in", format!("{}s", Duration::from_millis(until - now.unix_ms).as_secs())),
                None => finding,
            }
        }
    }
}

/// Sources that must have been tried once before the first answer. A source that failed counts as tried: what it leaves
/// open is Unknown, and policy decides.
#[must_use]
pub fn pending_sources(policy: &Policy, snapshot: &Snapshot) -> Vec<&'static str> {
    let tried = [
        ("addresses", snapshot.addresses.value().is_some()),
        ("sockets", snapshot.sockets.value().is_some()),
        ("owners", snapshot.owners.window().is_some()),
        ("lb", snapshot.lb.v4.window().is_some() && snapshot.lb.v6.window().is_some()),
        ("envoy", snapshot.envoy.window().is_some()),
        ("probes", !policy.probe_enabled || snapshot.probes.value().is_some_and(|probes| probes.first_round_done)),
    ];
    tried.into_iter().filter(|(_, done)| !done).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Status;

    const S: u64 = 1_000_000_000;

    #[test]
    fn starting_until_everything_was_tried_then_true_then_stale() {
        let policy = Policy::default();
        let starting = judge_observed(&policy, &["probes"], Some(Mono(S)), Mono(S));
        assert_eq!((starting.status, starting.reason), (Status::False, Some(Reason::Starting)));
        assert_eq!(judge_observed(&policy, &[], None, Mono(S)).reason, Some(Reason::Starting));
        assert_eq!(judge_observed(&policy, &[], Some(Mono(S)), Mono(6 * S)).status, Status::True);
        assert_eq!(judge_observed(&policy, &[], Some(Mono(S)), Mono(6 * S + 1)).reason, Some(Reason::Stale));
    }

    #[test]
    fn a_drains_words_are_cleaned_like_every_foreign_text() {
        let reason = format!("state=up\n{}", "x".repeat(200));
        let drain = DrainRequest { by: "ro=ot".into(), reason, asked_unix_ms: 0, until_unix_ms: None };
        let message = judge_in_service(Some(&drain), Now { mono: Mono(0), unix_ms: 0 }).message;
        assert!(message.starts_with("drain asked for by ro:ot: state:up?xxx") && message.len() < 100, "{message}");
    }

    #[test]
    fn a_drain_ends_by_itself() {
        let drain = DrainRequest { by: "root".into(), reason: "kernel update".into(), asked_unix_ms: 0, until_unix_ms: Some(10_000) };
        let at = |unix_ms| judge_in_service(Some(&drain), Now { mono: Mono(0), unix_ms }).reason;
        assert_eq!(at(9_999), Some(Reason::DrainRequested));
        assert_eq!(at(10_000), None);
        let endless = DrainRequest { until_unix_ms: None, ..drain.clone() };
        assert_eq!(judge_in_service(Some(&endless), Now { mono: Mono(0), unix_ms: u64::MAX }).reason, Some(Reason::DrainRequested));
    }

    #[test]
    fn a_source_that_failed_counts_as_tried_except_the_two_that_decide() {
        let policy = Policy { probe_enabled: false, ..Policy::default() };
        assert_eq!(pending_sources(&policy, &Snapshot::default()), ["addresses", "sockets", "owners", "lb", "envoy"]);
    }
}
