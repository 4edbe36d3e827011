//! One judgement told step by step: which source, which evidence, which rule, which policy, which verdict. Pure.

use std::fmt::Write;

use super::duration::{render_age, render_exact};
use super::explain_sources::{push_sources, render_sources_of};
use super::fix::render_fix;
use super::text::{clean_sentence, sanitise};
use super::wall::render_rfc3339;
use crate::condition::{Concern, Condition, ConditionType, Status};
use crate::memory::{Memory, Subject};
use crate::net::Endpoint;
use crate::policy::{Choice, Fallback, Policy, Requirement};
use crate::replay::SnapshotFile;
use crate::verdict::{Outcome, State, Verdict};

/// What makes a condition True, for a person.
#[must_use]
pub const fn rule(kind: ConditionType) -> &'static str {
    match kind {
        ConditionType::Observed => "the socket table was read within timing.stale_after",
        ConditionType::EnvoyLive => "one cilium-envoy runs in this network namespace, not draining, terminating or restarting in a loop",
        ConditionType::Listening => "for every judged address of the family the kernel's own lookup finds a listener",
        ConditionType::OwnedByEnvoy => "that socket, and every member of its group, belongs to one live cilium-envoy",
        ConditionType::NotIntercepted => "nothing between the wire and that socket takes new connections",
        ConditionType::Accepting => "the accept queues move and the owner is not stopped",
        ConditionType::Responding => "the local probe was accepted and answered by Envoy",
        ConditionType::TproxyPath => "every L7 proxy port is served by cilium-envoy, and rule and route are there",
        ConditionType::ConfigCurrent => "Envoy took its last listener update and is connected to its control plane",
        ConditionType::CiliumAgentAlive => "the cilium-agent's liveness stamp is fresh",
        ConditionType::InService => "nobody asked for a drain",
    }
}

/// The whole explanation. `memory` is the memory after the judgement.
#[must_use]
pub fn render_explain(file: &SnapshotFile, verdict: &Verdict, memory: &Memory) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Snapshot of node {} at {}, written by gwready {}",
        sanitise(&file.node),
        render_rfc3339(file.now.unix_ms),
        sanitise(&file.agent)
    );
    push_sources(&mut out, file);
    push_plan(&mut out, &file.policy, verdict);
    out.push_str("\n3. Conditions: source, evidence, rule, policy\n");
    push_conditions(&mut out, file, verdict, memory);
    out.push_str("\n4. Verdict\n");
    for endpoint in &verdict.endpoints {
        let _ = writeln!(out, "   {}  {}", endpoint.endpoint, outcome(&endpoint.outcome));
    }
    for address in &verdict.addresses {
        let _ = writeln!(out, "   {}  {}", address.address, outcome(&address.outcome));
    }
    let _ = writeln!(
        out,
        "   node  {}{}",
        outcome(&verdict.node),
        if verdict.partial > 0 { format!("  partial={}", verdict.partial) } else { String::new() }
    );
    if let Some(reason) = verdict.node.reason {
        let _ = writeln!(out, "   -> {}", render_fix(reason));
    }
    out
}

fn push_plan(out: &mut String, policy: &Policy, verdict: &Verdict) {
    let chosen = |auto: bool| if auto { "learnt" } else { "configured" };
    let join = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    out.push_str("\n2. What is judged\n");
    let _ = writeln!(
        out,
        "   ports      {} ({})",
        join(verdict.ports.iter().map(u16::to_string).collect()),
        chosen(policy.ports == Choice::Auto)
    );
    let _ = writeln!(
        out,
        "   families   {} ({})",
        join(verdict.families.iter().map(ToString::to_string).collect()),
        chosen(policy.families == Choice::Auto)
    );
    let _ = writeln!(out, "   addresses  {}", join(verdict.addresses.iter().map(|judged| judged.address.to_string()).collect()));
}

/// Fronts of which the same is to be said are told together.
fn push_conditions(out: &mut String, file: &SnapshotFile, verdict: &Verdict, memory: &Memory) {
    let mut told: Vec<(ConditionType, Vec<String>, String)> = Vec::new();
    for condition in &verdict.conditions {
        let place = condition.front.map_or_else(|| "node".to_owned(), |front| front.to_string());
        let text = reasoning(condition, file, verdict, memory);
        match told.iter_mut().find(|(kind, _, said)| *kind == condition.kind && *said == text) {
            Some((_, places, _)) => places.push(place),
            None => told.push((condition.kind, vec![place], text)),
        }
    }
    for (kind, places, text) in told {
        let _ = writeln!(out, "\n   {kind} {}: {text}", places.join(", "));
    }
}

/// Status, then the way to what it counts as: sources, evidence, rule, policy.
fn reasoning(condition: &Condition, file: &SnapshotFile, verdict: &Verdict, memory: &Memory) -> String {
    let reason = condition.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let mut out = format!("{}{reason}\n", condition.status.as_str().to_ascii_uppercase());
    let family = condition.front.map(|front| front.family);
    let _ = writeln!(out, "     sources   {}", render_sources_of(condition.kind, family, file));
    for (name, value) in &condition.evidence {
        let _ = writeln!(out, "     evidence  {}: {}", sanitise(name), sanitise(value));
    }
    if let Concern::Some(list) = &condition.addresses {
        let _ = writeln!(out, "     concerns  {}", list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    }
    let _ = writeln!(out, "     rule      true when {}", rule(condition.kind));
    if !condition.message.is_empty() {
        let _ = writeln!(out, "     finding   {}", clean_sentence(&condition.message));
    }
    let _ = write!(out, "     policy    {}", policy_sentence(condition, &file.policy, verdict, memory));
    out
}

/// What the policy makes of a condition's status.
fn policy_sentence(condition: &Condition, policy: &Policy, verdict: &Verdict, memory: &Memory) -> String {
    let required = policy.requirement(condition.kind) == Requirement::Required;
    match (condition.status, required) {
        (Status::True, true) => "required, and holds".to_owned(),
        (Status::True, false) => "advisory, and holds".to_owned(),
        (_, false) => "advisory: shown, logged and counted only".to_owned(),
        (Status::False, true) if condition.kind == ConditionType::InService => "drains the node".to_owned(),
        (Status::False, true) => "required: takes its addresses out".to_owned(),
        (Status::Unknown, true) => unknown_sentence(condition, policy, verdict, memory),
    }
}

fn unknown_sentence(condition: &Condition, policy: &Policy, verdict: &Verdict, memory: &Memory) -> String {
    let concerned = |endpoint: &Endpoint| condition.front == Some(endpoint.front());
    let subject = Subject {
        kind: condition.kind,
        endpoint: verdict.endpoints.iter().map(|e| e.endpoint).find(concerned).filter(|_| condition.front.is_some()),
    };
    let known = memory.known.get(&subject);
    let hold = render_exact(policy.hold);
    match known.and_then(|known| known.status) {
        None => "required, but never known since the start: counts as holding, and the agent itself is not ready".to_owned(),
        Some(Status::False) => "required; it was False before, and stays so until its sources are read again".to_owned(),
        Some(_) => {
            let held = known
                .and_then(|known| known.unknown_since)
                .map_or_else(String::new, |since| format!(" (Unknown for {})", render_age(verdict.judged_at.mono.since(since))));
            let after = match policy.fallback(condition.kind) {
                Fallback::Open => "still counts as holding, loudly (open)",
                Fallback::Closed => "counts as False (closed)",
            };
            format!("required; it was True before: kept for {hold}{held}, then {after}")
        }
    }
}

fn outcome(outcome: &Outcome) -> String {
    let mut text = outcome.state.as_str().to_ascii_uppercase();
    if let Some(reason) = outcome.reason.filter(|_| outcome.state != State::Up) {
        let _ = write!(text, " {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, snapshot_file};
    use super::*;
    use crate::facts::Snapshot;

    fn explain(verdict: &Verdict, memory: &Memory) -> String {
        render_explain(&snapshot_file(Snapshot::default(), verdict.judged_at), verdict, memory)
    }

    #[test]
    fn the_steps_lead_from_source_to_verdict() {
        let text = explain(&Scene::hostport(), &Memory::default());
        let places: Vec<usize> = [
            "1. Sources",
            "sockets      not read",
            "2. What is judged",
            "ports      80, 443 (learnt)",
            "3. Conditions",
            "NotIntercepted 80/ipv4: FALSE HostPort",
            "sources   addresses (not read), lb_v4 (not read)",
            "evidence  thief: pod kube-system/",
            "concerns  10.0.0.11",
            "rule      true when nothing between the wire",
            "finding   a HostPort entry takes",
            "policy    required: takes its addresses out",
            "4. Verdict",
            "10.0.0.11:80  DOWN HostPort",
            "node  DOWN HostPort",
            "-> docs/conditions/HostPort.md",
        ]
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is not in\n{text}")))
        .collect();
        assert!(places.is_sorted(), "{places:?}\n{text}");
    }

    #[test]
    fn fronts_of_which_the_same_is_said_are_told_together() {
        let text = explain(&Scene::hostport(), &Memory::default());
        assert!(text.contains("\n   Listening 80/ipv4, 443/ipv4: TRUE\n"), "{text}");
        assert!(text.contains("\n   NotIntercepted 443/ipv4: TRUE\n"), "{text}");
    }

    #[test]
    fn an_unknown_says_what_the_policy_makes_of_it() {
        let mut verdict = Scene::up();
        let condition = verdict.conditions.iter_mut().find(|c| c.kind == ConditionType::OwnedByEnvoy).expect("condition");
        condition.status = Status::Unknown;
        assert!(explain(&verdict, &Memory::default()).contains("never known since the start"));
        let mut memory = Memory::default();
        let subject = Subject { kind: ConditionType::OwnedByEnvoy, endpoint: Some(verdict.endpoints[0].endpoint) };
        for (status, sentence) in
            [(Status::True, "kept for 30s (Unknown for 0s), then counts as False (closed)"), (Status::False, "it was False before")]
        {
            memory
                .known
                .insert(subject, crate::memory::Known { status: Some(status), reason: None, unknown_since: Some(verdict.judged_at.mono) });
            let text = explain(&verdict, &memory);
            assert!(text.contains(sentence), "{text}");
        }
    }
}
