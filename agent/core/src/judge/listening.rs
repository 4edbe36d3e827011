//! `Listening`: for every judged address the kernel's own lookup finds a listener. Who owns it is not asked here.

use crate::condition::{ConditionType, Finding};
use crate::facts::Snapshot;
use crate::facts::sockets::{Listener, SocketTable};
use crate::net::{Endpoint, Family};
use crate::policy::Policy;
use crate::reason::Reason;

use super::bind_reserved::bind_reserved;
use super::config_current::listener_rejected;
use super::envoy_live::{bind_permission_denied, envoy_absent};
use super::reach::Reach;

const KIND: ConditionType = ConditionType::Listening;

/// Judges one endpoint.
#[must_use]
pub fn judge_listening(policy: &Policy, snapshot: &Snapshot, endpoint: Endpoint) -> Finding {
    let Some(table) = snapshot.sockets.value() else {
        let detail = snapshot.sockets.unavailable().map_or("not read yet", |unavailable| unavailable.detail.as_str());
        return Finding::unknown(KIND, Reason::SocketsUnreadable, detail);
    };
    let reach = Reach::of(table, endpoint);
    if reach.lookups == 0 {
        return Finding::unknown(KIND, Reason::SocketsUnreadable, "this address has not been looked up yet");
    }
    if !reach.is_empty() {
        return Finding::holds(KIND);
    }
    not_listening(policy, snapshot, table, endpoint)
}

/// Nothing listens: the most causal explanation for which there is evidence, else what the table shows.
fn not_listening(policy: &Policy, snapshot: &Snapshot, table: &SocketTable, endpoint: Endpoint) -> Finding {
    if envoy_absent(snapshot) {
        return Finding::fails(KIND, Reason::EnvoyNotRunning, format!("nothing listens on {endpoint}: no {} process", policy.envoy_exe));
    }
    let rows: Vec<&Listener> = table.listeners.iter().filter(|row| row.port == endpoint.port && serves_family(row, endpoint)).collect();
    if rows.is_empty() {
        if let Some(evidence) = bind_permission_denied(policy, snapshot, endpoint.port) {
            // What to set is a sentence of ours: as evidence it would be cut, and it would take the place of the log's own `fix`.
            let mut finding = Finding::fails(KIND, Reason::BindPermissionDenied, "");
            finding.evidence = evidence;
            let fix = finding.evidence.remove("fix").unwrap_or_default();
            finding.message = format!("cilium-envoy may not bind a port below the unprivileged range: {fix}");
            return finding;
        }
        if let Some(evidence) = bind_reserved(snapshot, endpoint.port, Family::of(endpoint.address)) {
            let message =
                format!("a service entry of Cilium claims port {}: bind is refused with EADDRINUSE though no socket has it", endpoint.port);
            let mut finding = Finding::fails(KIND, Reason::PortReservedByCilium, message);
            finding.evidence = evidence;
            return finding;
        }
        if let Some(rejected) = listener_rejected(snapshot, endpoint.port) {
            return Finding::fails(KIND, Reason::ListenerRejected, rejected.message())
                .with("listener", rejected.listener)
                .with("envoy", rejected.sentence);
        }
        return Finding::fails(KIND, Reason::NoListener, format!("no socket listens on {endpoint}"));
    }
    let bound = rows.iter().map(|row| row.address.to_string()).collect::<Vec<_>>().join(" ");
    let reason =
        if rows.iter().all(|row| row.address.to_canonical().is_loopback()) { Reason::LoopbackOnly } else { Reason::AddressesNotCovered };
    Finding::fails(KIND, reason, format!("port {} is bound on {bound} only", endpoint.port)).with("bound", bound)
}

/// The row could serve clients of the endpoint's family, were its address another.
fn serves_family(row: &Listener, endpoint: Endpoint) -> bool {
    let wanted = Family::of(endpoint.address);
    Family::of(row.address) == wanted || (wanted == Family::Ipv4 && row.address.is_unspecified() && row.v6only == Some(false))
}

#[cfg(test)]
#[path = "listening_tests.rs"]
mod tests;
