//! `EnvoyLive`: one cilium-envoy runs in this network namespace, is not draining, not terminating, not restarting in a loop.
//! Also: whether that Envoy has the right to bind a port, for the judge of `Listening`.
//!
//! A slow or absent admin interface is never a fault by itself: a live process whose admin does not answer is Unknown.
//! More than one Envoy is told by `OwnedByEnvoy`, which sees whether they share a port.

use std::time::Duration;

use crate::condition::{ConditionType, Evidence, Finding};
use crate::facts::Snapshot;
use crate::facts::envoy::ServerState;
use crate::facts::processes::{Owners, Process, RunState};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::time::Mono;

const KIND: ConditionType = ConditionType::EnvoyLive;

/// Starts within [`RESTART_WINDOW`] that make a loop.
pub const RESTARTS: usize = 3;
/// The window in which starts are counted, and how long it must be quiet afterwards.
pub const RESTART_WINDOW: Duration = Duration::from_secs(60);
/// How long a TERM counts as an early notice: the pod's grace period is 1 s, an Envoy that is still here later stays.
pub const TERMINATION_NOTICE: Duration = Duration::from_secs(5);
/// Bit of `CAP_NET_BIND_SERVICE` (include/uapi/linux/capability.h).
const CAP_NET_BIND_SERVICE: u64 = 1 << 10;
/// First unprivileged port where the sysctl could not be read (net/ipv4/af_inet.c, `PROT_SOCK`).
const PROT_SOCK: u16 = 1024;
/// What to set in Cilium's chart, both: the capability in the container, and the flag that makes the starter leave it to Envoy.
pub const BIND_FIX: &str = "set both envoy.securityContext.capabilities.keepCapNetBindService=true and NET_BIND_SERVICE in envoy.securityContext.capabilities.envoy";

/// Judges the node.
#[must_use]
pub fn judge_envoy_live(policy: &Policy, snapshot: &Snapshot, now: Mono) -> Finding {
    if envoy_absent(snapshot) {
        let message = format!("no {} process in this network namespace", policy.envoy_exe);
        return Finding::fails(KIND, Reason::EnvoyNotRunning, message);
    }
    if let Some(owners) = snapshot.owners.value() {
        let starts = restart_loop(&owners.envoy_starts, now);
        if starts > 0 {
            let message = format!("{} started {starts} times in short succession", policy.envoy_exe);
            return Finding::fails(KIND, Reason::EnvoyRestarting, message).with("starts", starts);
        }
    }
    if let Some(finding) = terminating(snapshot, now) {
        return finding;
    }
    let Some(admin) = snapshot.envoy.value() else {
        let unknown = Finding::unknown(KIND, Reason::AdminUnreachable, admin_detail(snapshot));
        // The processes tell of starts and ends without the admin interface: an Envoy that came back is not absent for ever.
        let seen = snapshot.owners.value().is_some_and(|owners| live_envoys(owners).next().is_some());
        return if seen { unknown.refuting([Reason::EnvoyNotRunning, Reason::EnvoyRestarting, Reason::EnvoyTerminating]) } else { unknown };
    };
    match admin.state {
        ServerState::Draining => Finding::fails(
            KIND,
            Reason::EnvoyDraining,
            "Envoy says DRAINING on /ready: somebody called /healthcheck/fail on its admin interface",
        ),
        state @ (ServerState::Live | ServerState::Initializing) => Finding::holds(KIND).with("state", state.as_str()),
    }
}

/// Why Envoy's admin has no answer, for messages.
#[must_use]
pub fn admin_detail(snapshot: &Snapshot) -> String {
    let detail = snapshot.envoy.unavailable().map_or("not asked yet", |unavailable| unavailable.detail.as_str());
    format!("Envoy's admin interface: {detail}")
}

/// Proof that no Envoy runs here: the whole of /proc was searched and none was found, or only dead ones.
#[must_use]
pub fn envoy_absent(snapshot: &Snapshot) -> bool {
    snapshot.owners.value().is_some_and(|owners| owners.envoys_complete && live_envoys(owners).next().is_none())
}

fn live_envoys(owners: &Owners) -> impl Iterator<Item = &Process> {
    owners.envoys.iter().filter_map(|pid| owners.processes.get(pid)).filter(|process| process.state != RunState::Dead)
}

/// How many starts make up a restart loop that is not over; 0 = there is none. A loop is [`RESTARTS`] starts within
/// [`RESTART_WINDOW`]; each further start prolongs it; it ends when nothing has started for [`RESTART_WINDOW`].
fn restart_loop(starts: &[Mono], now: Mono) -> usize {
    let mut starts: Vec<Mono> = starts.iter().copied().filter(|start| *start <= now).collect();
    starts.sort_unstable();
    // Newest first, back to the first pause: what is older has been followed by a quiet minute.
    let mut recent: Vec<Mono> = Vec::new();
    let mut after = now;
    for start in starts.into_iter().rev() {
        if after.since(start) >= RESTART_WINDOW {
            break;
        }
        recent.push(start);
        after = start;
    }
    let is_loop =
        recent.windows(RESTARTS).any(|run| run.first().zip(run.last()).is_some_and(|(last, first)| last.since(*first) <= RESTART_WINDOW));
    if is_loop { recent.len() } else { 0 }
}

/// A TERM on its way, while there is still something to lose: younger than the notice, no newer Envoy has come since, and a
/// listener is still there (or can't be seen).
fn terminating(snapshot: &Snapshot, now: Mono) -> Option<Finding> {
    let notice = snapshot.terminating.as_ref()?;
    let is_over = now.since(notice.at) >= TERMINATION_NOTICE
        || snapshot.owners.value().is_some_and(|owners| owners.envoy_starts.iter().any(|start| *start > notice.at))
        || snapshot
            .sockets
            .value()
            .is_some_and(|table| !table.lookups.is_empty() && table.lookups.iter().all(|lookup| lookup.picked.is_none()));
    if is_over {
        return None;
    }
    let message = format!("TERM was sent to process {}: Envoy will be gone in about a second", notice.pid);
    Some(Finding::fails(KIND, Reason::EnvoyTerminating, message).with("pid", notice.pid))
}

/// Evidence that Envoy may not bind `port`: below the unprivileged range, and every live Envoy lacks `CAP_NET_BIND_SERVICE`
/// (or Envoy itself says so). None where the capabilities can't be read: no guess. The fix is in the evidence.
#[must_use]
pub fn bind_permission_denied(policy: &Policy, snapshot: &Snapshot, port: u16) -> Option<Evidence> {
    let owners = snapshot.owners.value();
    let first_free = owners.and_then(|owners| owners.unprivileged_port_start).unwrap_or(PROT_SOCK);
    if port >= first_free {
        return None;
    }
    let mut envoys = owners.into_iter().flat_map(live_envoys).peekable();
    let lacking =
        envoys.peek().copied().filter(|_| envoys.all(|envoy| envoy.cap_effective.is_some_and(|caps| caps & CAP_NET_BIND_SERVICE == 0)));
    let sentence = refusal(snapshot, port);
    if lacking.is_none() && sentence.is_none() {
        return None;
    }
    let mut evidence =
        Evidence::from([("ip_unprivileged_port_start".to_owned(), first_free.to_string()), ("fix".to_owned(), BIND_FIX.to_owned())]);
    if let Some(envoy) = lacking {
        evidence.insert("process".to_owned(), format!("{}[{}]", policy.envoy_exe, envoy.pid));
        evidence.insert("cap_effective".to_owned(), format!("{:#x}", envoy.cap_effective.unwrap_or_default()));
        if let Some(no_new_privs) = envoy.no_new_privs {
            evidence.insert("no_new_privs".to_owned(), no_new_privs.to_string());
        }
    }
    if let Some(sentence) = sentence {
        evidence.insert("envoy".to_owned(), sentence.to_owned());
    }
    Some(evidence)
}

/// Envoy's own EACCES for a listener with this port.
fn refusal(snapshot: &Snapshot, port: u16) -> Option<&str> {
    let listeners = &snapshot.envoy.value()?.listeners;
    let refused = listeners.iter().filter(|listener| listener.rejected_ports.contains(&port));
    refused.filter_map(|listener| listener.error.as_deref()).find(|sentence| sentence.contains("Permission denied"))
}

#[cfg(test)]
#[path = "envoy_live_tests.rs"]
mod tests;
