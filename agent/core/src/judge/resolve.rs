//! The verdict step's first half: three-valued findings become what they count as, by policy and memory.
//!
//! Unknown is resolved here and nowhere else. It keeps the last known status; losing a source never turns down into up.

use crate::condition::{ConditionType, Finding, Status};
use crate::memory::{Known, Memory, Subject};
use crate::policy::{Fallback, Policy, Requirement};
use crate::reason::Reason;
use crate::time::Mono;
use crate::verdict::State;

/// What one finding counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing against up.
    Fine,
    /// Unknown, and within `hold` counted as the True that it was: enough to stay up, not to come back up.
    Kept,
    /// Nothing against up, but only because nothing was ever known: to be said loudly.
    Blind,
    /// Against up: what state it forces, and why.
    Against {
        /// [`State::Drain`] or [`State::Down`].
        state: State,
        /// The reported reason.
        reason: Reason,
    },
}

/// Updates what is remembered of `subject` by `finding`. Call once per judgement, before [`effect`].
pub fn remember(memory: &mut Memory, subject: Subject, finding: &Finding, now: Mono) {
    let known = memory.known.entry(subject).or_default();
    match finding.status {
        Status::True | Status::False => *known = Known { status: Some(finding.status), reason: finding.reason, unknown_since: None },
        Status::Unknown => {
            known.unknown_since.get_or_insert(now);
            if known.status == Some(Status::False) && known.reason.is_some_and(|reason| finding.refutes.contains(&reason)) {
                // Its own source was read again and does not show it; what is missing is another one, of which nothing is known.
                known.status = None;
                known.reason = None;
            }
            if finding.disproves || (finding.lapses && known.status.is_some()) {
                // The proof was about a socket that is gone. It counts as disproven until there is new evidence, and a thief
                // that is gone too must not be named any longer.
                known.status = Some(Status::False);
                known.reason = finding.reason;
            }
        }
    }
}

/// What `finding` counts as, given what is remembered of its subject.
#[must_use]
pub fn effect(policy: &Policy, known: &Known, finding: &Finding, now: Mono) -> Effect {
    if policy.requirement(finding.kind) == Requirement::Advisory {
        return Effect::Fine;
    }
    match finding.status {
        Status::True => Effect::Fine,
        Status::False => against(finding.kind, finding.reason),
        Status::Unknown => unknown(policy, known, finding, now),
    }
}

/// Unknown keeps the last known status. After `hold` a False stays, a True falls open or closed. Never known: open, unless
/// the operator closed this condition explicitly.
fn unknown(policy: &Policy, known: &Known, finding: &Finding, now: Mono) -> Effect {
    let held = known.unknown_since.is_none_or(|since| now.since(since) <= policy.hold);
    match known.status {
        Some(Status::False) => against(finding.kind, known.reason),
        Some(_) if held => Effect::Kept,
        Some(_) if policy.fallback(finding.kind) == Fallback::Open => Effect::Fine,
        Some(_) => against(finding.kind, finding.reason),
        None if !held && policy.unknown.get(&finding.kind) == Some(&Fallback::Closed) => against(finding.kind, finding.reason),
        None => Effect::Blind,
    }
}

/// False on a required condition is down; a drain and an Envoy that is leaving with its sockets still there are drains.
fn against(kind: ConditionType, reason: Option<Reason>) -> Effect {
    let reason = reason.unwrap_or(Reason::Unidentified);
    let drains = kind == ConditionType::InService || matches!(reason, Reason::EnvoyDraining | Reason::EnvoyTerminating);
    Effect::Against { state: if drains { State::Drain } else { State::Down }, reason }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
