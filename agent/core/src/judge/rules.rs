//! The verdict rules as a table: what every combination of finding, memory and policy counts as.
//!
//! One source for two readers: `docs/verdict.md` is rendered from it, and the tests hold the code of [`super::resolve`] and
//! [`super::combine`] to it, row by row for every condition.

use std::fmt::Write as _;

use crate::condition::{ConditionType, Status};
use crate::policy::{Fallback, Mode, Policy, Requirement};
use crate::reason::Reason;

/// What is remembered of a condition before the finding of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembered {
    /// It was True.
    True,
    /// It was False.
    False,
    /// It was never known since the agent started.
    Never,
}

/// How long a condition has been Unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Not longer than `timing.hold`.
    Held,
    /// Longer than `timing.hold`.
    Over,
}

/// What a row counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Up.
    Up,
    /// Enough to stay up, not to come back up.
    StaysUp,
    /// Up, with one WARN, in the metric, and `/readyz` 503 where the agent cannot see.
    UpLoudly,
    /// Down (or drain, see below) with the reason of this finding.
    AgainstNow,
    /// Down (or drain) with the reason that was remembered.
    AgainstRemembered,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What the finding says now.
    pub finding: Status,
    /// The finding withdraws earlier proof: the socket it was about is gone.
    pub lapses: bool,
    /// What was known before.
    pub remembered: Remembered,
    /// How long it has been Unknown.
    pub age: Age,
    /// `policy.unknown` of the condition, or its default.
    pub fallback: Fallback,
    /// The operator wrote the fallback into `policy.unknown`.
    pub explicit: bool,
    /// What it counts as if the condition is required. Advisory conditions always count as up.
    pub counts: Counts,
}

const fn known(finding: Status, remembered: Remembered, counts: Counts) -> Rule {
    Rule { finding, lapses: false, remembered, age: Age::Held, fallback: Fallback::Open, explicit: false, counts }
}

const fn unknown(remembered: Remembered, age: Age, fallback: Fallback, explicit: bool, counts: Counts) -> Rule {
    Rule { finding: Status::Unknown, lapses: false, remembered, age, fallback, explicit, counts }
}

const fn lapsed(remembered: Remembered, age: Age, counts: Counts) -> Rule {
    Rule { finding: Status::Unknown, lapses: true, remembered, age, fallback: Fallback::Open, explicit: false, counts }
}

/// Every combination.
pub const RULES: [Rule; 20] = [
    known(Status::True, Remembered::True, Counts::Up),
    known(Status::True, Remembered::False, Counts::Up),
    known(Status::True, Remembered::Never, Counts::Up),
    known(Status::False, Remembered::True, Counts::AgainstNow),
    known(Status::False, Remembered::False, Counts::AgainstNow),
    known(Status::False, Remembered::Never, Counts::AgainstNow),
    unknown(Remembered::True, Age::Held, Fallback::Open, false, Counts::StaysUp),
    unknown(Remembered::True, Age::Held, Fallback::Closed, false, Counts::StaysUp),
    unknown(Remembered::True, Age::Over, Fallback::Open, false, Counts::Up),
    unknown(Remembered::True, Age::Over, Fallback::Closed, false, Counts::AgainstNow),
    unknown(Remembered::False, Age::Held, Fallback::Open, false, Counts::AgainstRemembered),
    unknown(Remembered::False, Age::Over, Fallback::Open, false, Counts::AgainstRemembered),
    unknown(Remembered::False, Age::Over, Fallback::Closed, false, Counts::AgainstRemembered),
    unknown(Remembered::Never, Age::Held, Fallback::Open, false, Counts::UpLoudly),
    unknown(Remembered::Never, Age::Over, Fallback::Open, false, Counts::UpLoudly),
    unknown(Remembered::Never, Age::Over, Fallback::Closed, false, Counts::UpLoudly),
    unknown(Remembered::Never, Age::Over, Fallback::Closed, true, Counts::AgainstNow),
    lapsed(Remembered::True, Age::Held, Counts::AgainstNow),
    lapsed(Remembered::False, Age::Held, Counts::AgainstNow),
    lapsed(Remembered::Never, Age::Over, Counts::UpLoudly),
];

/// Renders `docs/verdict.md`.
#[must_use]
pub fn render() -> String {
    let mut out = String::from(HEAD);
    out.push_str("\n## What one condition counts as\n\nAdvisory conditions always count as up. For a required one:\n\n");
    out.push_str("| finding | known before | Unknown for | `policy.unknown` | counts as |\n|---|---|---|---|---|\n");
    for rule in &RULES {
        let _ = writeln!(out, "| {} | {} | {} | {} | {} |", finding(rule), remembered(rule), age(rule), fallback(rule), counts(rule));
    }
    out.push_str(COMBINE);
    out.push_str(
        "\n## Defaults\n\n| condition | `mode: host-network` | `mode: load-balancer` | after `hold`, was True |\n|---|---|---|---|\n",
    );
    for kind in ConditionType::ALL {
        let requirement = |mode| match Policy::default_requirement(mode, kind) {
            Requirement::Required => "required",
            Requirement::Advisory => "advisory",
        };
        let fallback = match Policy::default_fallback(kind) {
            Fallback::Open => "open",
            Fallback::Closed => "closed",
        };
        let _ = writeln!(out, "| `{kind}` | {} | {} | {fallback} |", requirement(Mode::HostNetwork), requirement(Mode::LoadBalancer));
    }
    out.push_str("\n## Precedence of reasons\n\nOf several reasons for the same state the first of this list is reported:\n\n");
    for reason in Reason::ALL {
        let _ = writeln!(out, "1. `{reason}`: {}", reason.summary());
    }
    out
}

const fn finding(rule: &Rule) -> &'static str {
    match (rule.finding, rule.lapses) {
        (Status::True, _) => "True",
        (Status::False, _) => "False",
        (Status::Unknown, false) => "Unknown",
        (Status::Unknown, true) => "Unknown, of another socket than before",
    }
}

const fn remembered(rule: &Rule) -> &'static str {
    match rule.remembered {
        Remembered::True => "True",
        Remembered::False => "False",
        Remembered::Never => "never",
    }
}

const fn age(rule: &Rule) -> &'static str {
    match (rule.finding, rule.age) {
        (Status::Unknown, Age::Held) => "≤ `hold`",
        (Status::Unknown, Age::Over) => "> `hold`",
        _ => "",
    }
}

const fn fallback(rule: &Rule) -> &'static str {
    match (rule.finding, rule.fallback, rule.explicit) {
        (Status::Unknown, Fallback::Open, _) => "open",
        (Status::Unknown, Fallback::Closed, false) => "closed by default",
        (Status::Unknown, Fallback::Closed, true) => "closed in the file",
        _ => "",
    }
}

const fn counts(rule: &Rule) -> &'static str {
    match rule.counts {
        Counts::Up => "up",
        Counts::StaysUp => "stays up, but does not come back up",
        Counts::UpLoudly => "up, with one WARN; `/readyz` 503 where the agent cannot see",
        Counts::AgainstNow => "**down**, reason of this finding",
        Counts::AgainstRemembered => "**down**, reason known before",
    }
}

const HEAD: &str = "# The verdict

<!-- Generated from agent/core/src/judge/rules.rs by `cargo xtask docs`. Do not edit. -->

Findings are True, False or Unknown. This page says what they count as, and how they join to one answer.
";

const COMBINE: &str = "
\"Down\" reads *drain* for the reasons `DrainRequested`, `EnvoyDraining` and `EnvoyTerminating`.

## How the answers join

| of | up | drain | down |
|---|---|---|---|
| an endpoint (address and port) | nothing counts against it | something asks for a drain, nothing for down | anything asks for down |
| an address | all its ports are up | one drains, none is down | one port is down |
| the node | one address is up | none is up, one drains | all are down, or there is none |

- Worse counts at once. Back to up, everything must hold for `timing.min_up`; each recovery within five minutes doubles that, up to 30 s. While it waits, the old state and reason stay.
- Start: down `Starting` until every source was tried once and every front's first probe was answered or ran into its deadline, and for at most 10 s more until the processes that hold the listeners were searched for once. Then up at once, unless the last verdict in `state_dir` is younger than 60 s and was down: then `min_up` applies.
- `Observed` is False with `Stale` when the socket table was not read within `timing.stale_after`; this is checked again when answering.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Finding;
    use crate::judge::resolve::{Effect, effect, remember};
    use crate::memory::{Known, Memory, Subject};
    use crate::time::Mono;
    use crate::verdict::State;

    const NOW: Reason = Reason::MapsUnreadable;
    const BEFORE: Reason = Reason::HostPort;

    fn evaluate(rule: &Rule, kind: ConditionType, requirement: Requirement) -> Effect {
        let mut policy = Policy::default();
        policy.require.insert(kind, requirement);
        if rule.explicit || Policy::default_fallback(kind) != rule.fallback {
            policy.unknown.insert(kind, rule.fallback);
        }
        let subject = Subject { kind, endpoint: None };
        let mut memory = Memory::default();
        let before = match rule.remembered {
            Remembered::True => Known { status: Some(Status::True), reason: None, unknown_since: None },
            Remembered::False => Known { status: Some(Status::False), reason: Some(BEFORE), unknown_since: None },
            Remembered::Never => Known::default(),
        };
        memory.known.insert(subject, before);
        let reason = (rule.finding != Status::True).then_some(NOW);
        let finding = Finding { status: rule.finding, reason, lapses: rule.lapses, ..Finding::holds(kind) };
        remember(&mut memory, subject, &finding, Mono(0));
        let at = match rule.age {
            Age::Held => Mono(0).plus(policy.hold),
            Age::Over => Mono(1).plus(policy.hold),
        };
        effect(&policy, &memory.known[&subject], &finding, at)
    }

    #[test]
    fn the_code_does_what_every_row_says_for_every_condition() {
        for kind in ConditionType::ALL {
            for rule in RULES {
                // A row of the default fallback speaks of conditions that have this default.
                if rule.fallback == Fallback::Closed && !rule.explicit && Policy::default_fallback(kind) == Fallback::Open {
                    continue;
                }
                let against = |reason| {
                    let state = if kind == ConditionType::InService { State::Drain } else { State::Down };
                    Effect::Against { state, reason }
                };
                let expected = match rule.counts {
                    Counts::Up => Effect::Fine,
                    Counts::StaysUp => Effect::Kept,
                    Counts::UpLoudly => Effect::Blind,
                    Counts::AgainstNow => against(NOW),
                    Counts::AgainstRemembered => against(BEFORE),
                };
                assert_eq!(evaluate(&rule, kind, Requirement::Required), expected, "{kind} {rule:?}");
                assert_eq!(evaluate(&rule, kind, Requirement::Advisory), Effect::Fine, "{kind} {rule:?}");
            }
        }
    }

    #[test]
    fn the_committed_page_is_the_rendered_one() {
        let committed = include_str!("../../../../docs/verdict.md");
        assert!(committed == render(), "docs/verdict.md is old: write it again with `cargo xtask docs`");
    }

    #[test]
    fn every_combination_has_a_row() {
        for finding in Status::ALL {
            for remembered in [Remembered::True, Remembered::False, Remembered::Never] {
                assert!(RULES.iter().any(|rule| rule.finding == finding && rule.remembered == remembered), "{finding:?} {remembered:?}");
            }
        }
    }

    #[test]
    fn the_page_names_every_reason_and_condition() {
        let page = render();
        assert!(Reason::ALL.iter().all(|reason| page.contains(&format!("`{reason}`"))));
        assert!(ConditionType::ALL.iter().all(|kind| page.contains(&format!("`{kind}`"))));
    }
}
