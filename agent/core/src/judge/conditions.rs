//! Findings of endpoints joined to conditions of fronts, as they are published.

use std::net::IpAddr;

use crate::condition::{Concern, Condition, ConditionType, Finding, Status};
use crate::memory::{Memory, Standing};
use crate::net::{Family, Front};
use crate::plan::ReadPlan;
use crate::reason::Reason;
use crate::time::Mono;
use crate::verdict::Blind;

use super::resolve::Effect;
use super::{Findings, is_blindness};

/// Every condition, in the order of [`ConditionType::ALL`], then by port and family. Keeps `since` while status and reason
/// stay the same.
#[must_use]
pub fn aggregate(findings: &Findings, plan: &ReadPlan, memory: &mut Memory, now: Mono) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for kind in ConditionType::ALL {
        if kind.is_per_front() {
            conditions.extend(fronts(plan).into_iter().filter_map(|front| join(findings, kind, front)));
        } else if let Some(finding) = findings.node.iter().find(|finding| finding.kind == kind) {
            conditions.push(of_finding(finding, None, Concern::All));
        }
    }
    let mut standing = std::mem::take(&mut memory.standing);
    for condition in &mut conditions {
        let key = (condition.kind, condition.front);
        condition.since =
            standing.remove(&key).filter(|s| s.status == condition.status && s.reason == condition.reason).map_or(now, |s| s.since);
        memory.standing.insert(key, Standing { status: condition.status, reason: condition.reason, since: condition.since });
    }
    conditions
}

fn fronts(plan: &ReadPlan) -> Vec<Front> {
    plan.ports.iter().flat_map(|&port| plan.families.iter().map(move |&family| Front { port, family })).collect()
}

/// False if it fails for any address, else Unknown if unknown for any, else True; told by the most causal finding.
fn join(findings: &Findings, kind: ConditionType, front: Front) -> Option<Condition> {
    let own: Vec<(IpAddr, &Finding)> = findings
        .endpoints
        .iter()
        .filter(|(endpoint, _)| endpoint.front() == front)
        .filter_map(|(endpoint, own)| Some((endpoint.address, own.iter().find(|finding| finding.kind == kind)?)))
        .collect();
    let status = own.iter().map(|(_, finding)| finding.status).max_by_key(|status| severity(*status))?;
    let same: Vec<(IpAddr, &Finding)> = own.iter().filter(|(_, finding)| finding.status == status).copied().collect();
    let (_, told) = same.iter().min_by_key(|(_, finding)| finding.reason.map_or((1, None), |reason| (0, Some(reason))))?;
    let concern = if same.len() == own.len() { Concern::All } else { Concern::Some(same.iter().map(|(ip, _)| *ip).collect()) };
    Some(of_finding(told, Some(front), concern))
}

const fn severity(status: Status) -> u8 {
    match status {
        Status::True => 0,
        Status::Unknown => 1,
        Status::False => 2,
    }
}

fn of_finding(finding: &Finding, front: Option<Front>, addresses: Concern) -> Condition {
    Condition {
        kind: finding.kind,
        front,
        status: finding.status,
        reason: finding.reason,
        message: finding.message.clone(),
        evidence: finding.evidence.clone(),
        addresses,
        since: Mono::default(),
    }
}

/// Required conditions that were never known because the agent can't see. A socket that is not there leaves nothing to
/// see: that is the fault of the node, told by `Listening`, and no blindness.
#[must_use]
pub fn blind(findings: &[Finding], effects: &[(ConditionType, Effect)]) -> Vec<Blind> {
    let unheard = findings.iter().any(|f| f.kind == ConditionType::Listening && f.status == Status::False);
    findings
        .iter()
        .zip(effects)
        .filter(|(finding, (_, effect))| *effect == Effect::Blind && finding.reason.is_some_and(is_blindness) && !unheard)
        .map(|(finding, _)| Blind { kind: finding.kind, reason: finding.reason, message: finding.message.clone() })
        .collect()
}

/// The families of `fronts` in which `reason` holds, for messages.
#[must_use]
pub fn families_with(conditions: &[Condition], reason: Reason) -> Vec<Family> {
    let mut families: Vec<Family> =
        conditions.iter().filter(|c| c.reason == Some(reason)).filter_map(|c| c.front).map(|front| front.family).collect();
    families.sort_unstable();
    families.dedup();
    families
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
