//! `Responding`: the local probe of a front was accepted and answered by Envoy.
//!
//! Decisions.
//! - Who answered is a fact of the kernel and counts at once; how it answered needs `fall` failures in a row, except that a
//!   front which has never passed is failed by its first (start rule).
//! - The probes of a front rotate over its addresses, so an address can be judged before its own first probe: a success at another
//!   address counts for it where the kernel's lookups show the *same sockets* behind both; a failure never does.
//!   Otherwise it is `NotProbed`.
//! - A probe that found no room in a queue that is full says nothing new: that is `Overloaded`, and every node of the pool would
//!   fail it at the same time. It keeps the last known status.
//! - A probe that a socket load balancer translated says nothing about the wire.

use crate::condition::{ConditionType, Finding, Status};
use crate::facts::Snapshot;
use crate::facts::probes::{Acceptor, ProbeOutcome, ProbeResult, ProbeTable};
use crate::facts::processes::Holders;
use crate::facts::sockets::SocketTable;
use crate::memory::{Memory, Subject};
use crate::net::Endpoint;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::time::Mono;

use super::accepting::is_overloaded;
use super::identity::{Doubt, Identity, identify};
use super::owner_text::describe_process;

const KIND: ConditionType = ConditionType::Responding;

/// Mark of cilium-envoy's listeners, inherited by what they accept: low bits of ingress and egress proxy
/// (Cilium bpf/lib/common.h `MARK_MAGIC_PROXY_INGRESS`, `_EGRESS`; mask 0xf00).
const PROXY_MARKS: [u32; 2] = [0xa00, 0xb00];
const MARK_MASK: u32 = 0xf00;

/// Judges one endpoint by the built-in probe and every explicit probe of it; the most telling finding counts.
#[must_use]
pub fn judge_responding(policy: &Policy, snapshot: &Snapshot, memory: &Memory, endpoint: Endpoint, now: Mono) -> Finding {
    let built_in = if policy.probe_enabled { built_in(policy, snapshot, memory, endpoint, now) } else { Finding::holds(KIND) };
    let table = snapshot.probes.value();
    let explicit =
        table.into_iter().flat_map(|table| &table.results).filter(|result| result.endpoint == endpoint && !result.explicit.is_empty());
    let explicit = explicit.map(|result| judge_result(policy, snapshot, memory, result, now));
    // False before Unknown before True; the first of equals, so the built-in probe speaks first.
    std::iter::once(built_in.clone()).chain(explicit).min_by_key(severity).unwrap_or(built_in)
}

const fn severity(finding: &Finding) -> u8 {
    match finding.status {
        Status::False => 0,
        Status::Unknown => 1,
        Status::True => 2,
    }
}

fn built_in(policy: &Policy, snapshot: &Snapshot, memory: &Memory, endpoint: Endpoint, now: Mono) -> Finding {
    let Some(table) = snapshot.probes.value() else {
        let detail = snapshot.probes.unavailable().map_or("no probe has run yet", |unavailable| unavailable.detail.as_str());
        return Finding::unknown(KIND, Reason::NotProbed, detail);
    };
    if let Some(own) = table.results.iter().find(|result| result.endpoint == endpoint && result.explicit.is_empty()) {
        return judge_result(policy, snapshot, memory, own, now);
    }
    by_same_sockets(policy, snapshot, memory, table, endpoint, now)
        .unwrap_or_else(|| Finding::unknown(KIND, Reason::NotProbed, format!("{endpoint} has not had its turn yet")))
}

/// A success at another address of the front, if the same sockets stand behind both addresses.
fn by_same_sockets(
    policy: &Policy,
    snapshot: &Snapshot,
    memory: &Memory,
    table: &ProbeTable,
    endpoint: Endpoint,
    now: Mono,
) -> Option<Finding> {
    let sockets = snapshot.sockets.value()?;
    let mine = picked(sockets, endpoint);
    let others = table.results.iter().filter(|result| {
        result.explicit.is_empty()
            && result.endpoint.front() == endpoint.front()
            && picked(sockets, result.endpoint).iter().any(|row| mine.contains(row))
    });
    let passed = |result: &&ProbeResult| judge_result(policy, snapshot, memory, result, now).status == Status::True;
    let passed = others.filter(passed).max_by_key(|result| result.at)?;
    Some(Finding::holds(KIND).with("probed", passed.endpoint))
}

/// Bind address and device of what the kernel picks: equal for members of one group.
fn picked(table: &SocketTable, endpoint: Endpoint) -> Vec<(std::net::IpAddr, u32, bool)> {
    let picked = table.lookups.iter().filter(|lookup| lookup.endpoint == endpoint).filter_map(|lookup| lookup.picked.as_ref());
    picked.map(|row| (row.address, row.bound_if, row.v6only == Some(true))).collect()
}

fn judge_result(policy: &Policy, snapshot: &Snapshot, memory: &Memory, result: &ProbeResult, now: Mono) -> Finding {
    let who = who(policy, snapshot, &result.acceptor);
    let finding = judge_taken(policy, snapshot, result, who).unwrap_or_else(|| by_outcome(policy, memory, result, who));
    let no_room = matches!(finding.reason, Some(Reason::ProbeTimeout | Reason::ProbeRefused)) && !was_accepted(&result.acceptor);
    let finding = if no_room && is_overloaded(snapshot, memory, result.endpoint, now) {
        Finding::unknown(KIND, Reason::NotJudged, "the accept queue is full but moves: the probe waits like every client")
    } else {
        finding
    };
    describe(finding, result)
}

fn describe(finding: Finding, result: &ProbeResult) -> Finding {
    let mut finding = finding.with("probed", result.endpoint);
    if result.failures > 0 {
        finding = finding.with("failures", result.failures);
    }
    if let Some(name) = &result.server_name {
        finding = finding.with("server_name", name);
    }
    if !result.explicit.is_empty() {
        finding = finding.with("probe", &result.explicit);
    }
    finding
}

/// Whose process accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Envoy,
    Other,
    Unknown,
}

fn who(policy: &Policy, snapshot: &Snapshot, acceptor: &Acceptor) -> Who {
    let (inode, mark, listener) = match acceptor {
        Acceptor::Local { inode, mark, listener } => (Some(*inode), *mark, *listener),
        Acceptor::Translated { inode, mark, .. } => (*inode, *mark, None),
        Acceptor::Elsewhere | Acceptor::Unknown => return Who::Unknown,
    };
    // The accepted end itself, where its holder is known; else the listener that the kernel picked for this very probe.
    let by_holder =
        [inode, listener].into_iter().flatten().filter(|inode| *inode != 0).find_map(|inode| is_envoys(policy, snapshot, inode));
    match (by_holder, mark) {
        (Some(true), _) => Who::Envoy,
        (Some(false), _) => Who::Other,
        (None, Some(mark)) if PROXY_MARKS.contains(&(mark & MARK_MASK)) => Who::Envoy,
        (None, _) => Who::Unknown,
    }
}

/// Whether a live Envoy holds the socket; none if its holders are not known. Where the search for them was not whole (a process came
/// or went, a descriptor table was refused), a listener is whose `OwnedByEnvoy` says it is.
fn is_envoys(policy: &Policy, snapshot: &Snapshot, inode: u64) -> Option<bool> {
    let owners = snapshot.owners.value()?;
    match owners.holders.get(&inode)? {
        Holders::Known { pids, complete } => {
            let held = pids.iter().any(|pid| owners.envoys.contains(pid));
            if held || (*complete && !pids.is_empty()) {
                return Some(held);
            }
            let row = snapshot.sockets.value()?.listeners.iter().find(|row| row.id.inode == inode)?;
            match identify(policy, owners, row, snapshot.lb.maps_exist()) {
                // It has Cilium's marks and inherits them to what it accepts, but the program that holds it is in plain sight.
                Identity::Unidentified { doubt: Doubt::Imitated, .. } => Some(false),
                identity => identity.is_envoy(),
            }
        }
        Holders::Unknown(_) | Holders::Searching(_) => None,
    }
}

const fn was_accepted(acceptor: &Acceptor) -> bool {
    match acceptor {
        Acceptor::Local { inode, .. } => *inode != 0,
        Acceptor::Translated { inode, .. } => matches!(inode, Some(1..)),
        Acceptor::Elsewhere | Acceptor::Unknown => false,
    }
}

/// What follows from who took the connection alone; none = how it was answered decides.
fn judge_taken(policy: &Policy, snapshot: &Snapshot, result: &ProbeResult, who: Who) -> Option<Finding> {
    match (&result.acceptor, who) {
        (Acceptor::Translated { .. }, Who::Envoy) => None,
        (Acceptor::Translated { to, .. }, _) => {
            let to = to.map_or_else(|| "another destination".to_owned(), |(ip, port)| std::net::SocketAddr::new(ip, port).to_string());
            let message = format!("the probe was sent to {to} by the socket load balancer: it says nothing about the wire");
            Some(Finding::unknown(KIND, Reason::ProbeTranslated, message).with("to", to))
        }
        (Acceptor::Elsewhere, _) => {
            Some(Finding::unknown(KIND, Reason::ProbeTranslated, "the probe left this network namespace: it says nothing about the wire"))
        }
        (Acceptor::Local { inode: inode @ 1.., listener, .. }, Who::Other) => {
            let finding =
                Finding::fails(KIND, Reason::NotEnvoy, format!("the probe was accepted by another process than {}", policy.envoy_exe));
            let thief = [Some(*inode), *listener].into_iter().flatten().find_map(|inode| holder(snapshot, inode));
            Some(thief.map_or(finding.clone(), |thief| finding.with("thief", thief)))
        }
        _ => None,
    }
}

/// The first known holder of a socket, by name.
fn holder(snapshot: &Snapshot, inode: u64) -> Option<String> {
    let owners = snapshot.owners.value()?;
    match owners.holders.get(&inode)? {
        Holders::Known { pids, .. } => pids.first().map(|pid| describe_process(owners, *pid)),
        Holders::Unknown(_) | Holders::Searching(_) => None,
    }
}

fn by_outcome(policy: &Policy, memory: &Memory, result: &ProbeResult, who: Who) -> Finding {
    match &result.outcome {
        ProbeOutcome::NotRun(why) => return Finding::unknown(KIND, Reason::NotProbed, why.clone()),
        ProbeOutcome::NotJudgeable(why) => return Finding::unknown(KIND, Reason::NotJudged, why.clone()),
        _ => {}
    }
    if !result.has_failed() {
        return answered(result, who);
    }
    if result.failures < policy.probe_fall && !result.never_passed {
        let known = memory.known.get(&Subject { kind: KIND, endpoint: Some(result.endpoint) }).and_then(|known| known.status);
        if known == Some(Status::True) {
            return Finding::holds(KIND);
        }
        // Too few to count against it, and nothing to prove it: what is known stands.
        let message = format!("{} of the {} failures in a row that would count", result.failures, policy.probe_fall);
        return Finding::unknown(KIND, Reason::NotJudged, message);
    }
    let (reason, message) = failure(result);
    let finding = Finding::fails(KIND, reason, message);
    match &result.outcome {
        ProbeOutcome::TlsFailed(why) => finding.with("why", why),
        ProbeOutcome::Answered { status, .. } => finding.with("status", status),
        _ => finding,
    }
}

/// Answered. Whoever answers like Envoy where the kernel could not be asked counts as Envoy: the header supports. Without even
/// that it is not known who answered.
fn answered(result: &ProbeResult, who: Who) -> Finding {
    let says_envoy = matches!(&result.outcome, ProbeOutcome::Answered { server: Some(server), .. } if server.eq_ignore_ascii_case("envoy"));
    let finding = match (who, says_envoy) {
        (Who::Envoy, _) | (_, true) => Finding::holds(KIND),
        _ => Finding::unknown(KIND, Reason::NotJudged, "the probe was answered, but by whom could not be read"),
    };
    match &result.outcome {
        ProbeOutcome::Answered { status, .. } => finding.with("status", status),
        _ => finding,
    }
}

fn failure(result: &ProbeResult) -> (Reason, String) {
    let endpoint = result.endpoint;
    match &result.outcome {
        ProbeOutcome::Refused => (Reason::ProbeRefused, format!("a connection to {endpoint} was refused")),
        ProbeOutcome::Reset => (Reason::ProbeReset, format!("a connection to {endpoint} was accepted and closed without an answer")),
        ProbeOutcome::TlsFailed(why) => (Reason::TlsFailed, format!("the TLS handshake with {endpoint} failed: {why}")),
        ProbeOutcome::Answered { status, .. } => {
            let expected = result.expect_status.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            (Reason::UnexpectedStatus, format!("{} answered {status}, expected {expected}", result.explicit))
        }
        _ if was_accepted(&result.acceptor) => {
            (Reason::ProbeTimeout, format!("{endpoint} accepted a connection and did not answer in time"))
        }
        _ => (Reason::ProbeTimeout, format!("{endpoint} did not accept a connection in time")),
    }
}

#[cfg(test)]
#[path = "responding_tests.rs"]
mod tests;
