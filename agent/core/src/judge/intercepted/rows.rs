//! The load-balancer maps' answer for one endpoint as a finding: the datapath's rule over the rows of its family.

use super::{KIND, words};
use crate::condition::Finding;
use crate::facts::sockets::Listener;
use crate::facts::{Reading, Snapshot, Unavailable, Why};
use crate::lb::datapath::{Decision, Outcome, Packet, Passage, SourceRanges, decide};
use crate::lb::facts::{LbFacts, LbTable};
use crate::lb::service::{ServiceKey, ServiceKind};
use crate::lb::settings::{Generation, Settings};
use crate::net::{Endpoint, Family};
use crate::reason::Reason;

/// Judges one endpoint by the rows.
pub(super) fn judge_rows(snapshot: &Snapshot, endpoint: Endpoint, is_envoy: &impl Fn(&Listener) -> Option<bool>) -> Finding {
    let family = endpoint.front().family;
    let table = match snapshot.lb.table(family) {
        Reading::Observed { value, .. } => value,
        Reading::NotRead => return Finding::unknown(KIND, Reason::MapsUnreadable, "the load-balancer maps were not read yet"),
        Reading::Unavailable(unavailable) => return without_table(&snapshot.lb, family, unavailable),
    };
    if !table.asked.contains(&endpoint) {
        return Finding::unknown(KIND, Reason::MapsUnreadable, format!("the load-balancer maps were not read for {endpoint} yet"));
    }
    let agent = snapshot.cilium_agent.value();
    let settings = agent.map_or_else(Settings::default, crate::facts::platform::CiliumAgent::settings);
    let decision = decide(table, &settings, &Packet::syn(endpoint), None);
    let finding = match (&decision.outcome, decision.row) {
        (Outcome::Proxy { port }, Some(_)) => judge_proxy(snapshot, endpoint, *port, is_envoy),
        (Outcome::Pass(passage), Some((key, _))) => judge_passage(table, key, *passage),
        (_, None) => Finding::holds(KIND),
        (outcome, Some((key, row))) => {
            let reason = if is_wildcard(&key) { Reason::WildcardDrop } else { reason_of(row.kind()) };
            Finding::fails(KIND, reason, words::describe(table, &key, &row, endpoint, outcome))
        }
    };
    let known = agent.is_some_and(|agent| agent.version.is_some());
    remark_on_version(with_row(finding, table, &decision), table, endpoint, &decision.outcome, known)
}

/// The maps of a family are not to be had. A family whose map was never there while the other's is: Cilium does not serve it.
fn without_table(lb: &LbFacts, family: Family, unavailable: &Unavailable) -> Finding {
    match unavailable.why {
        Why::Absent if lb.is_switched_off(family) => {
            Finding::holds(KIND).with("maps", format!("Cilium does not serve {family}: it has no load-balancer map of it"))
        }
        Why::Absent => Finding::unknown(KIND, Reason::NoCiliumMaps, unavailable.detail.clone()),
        Why::Layout => Finding::unknown(KIND, Reason::MapLayoutUnknown, unavailable.detail.clone()),
        Why::Permission | Why::Deadline | Why::Interrupted | Why::Failed => {
            Finding::unknown(KIND, Reason::MapsUnreadable, unavailable.detail.clone())
        }
    }
}

/// A row matched and lets the connection through: proven only where everything that it depends on was read.
fn judge_passage(table: &LbTable, key: ServiceKey, passage: Passage) -> Finding {
    match (&table.endpoints_missing, table.cut_short.get(&key)) {
        (Some(why), _) if passage == Passage::Delegate => Finding::unknown(
            KIND,
            Reason::MapsUnreadable,
            format!("whether the backend of a delegated entry is local can't be told: {why}"),
        ),
        (_, Some(read)) => {
            Finding::unknown(KIND, Reason::MapsUnreadable, format!("only {read} backends of the entry were read, and those pass"))
        }
        _ => Finding::holds(KIND),
    }
}

/// An L7 entry: who serves its mark. A packet whose mark nobody's TPROXY rule serves reaches the listener of its own port.
fn judge_proxy(snapshot: &Snapshot, endpoint: Endpoint, port: u16, is_envoy: &impl Fn(&Listener) -> Option<bool>) -> Finding {
    let lookup = snapshot.tproxy.value().and_then(|tproxy| tproxy.proxy(endpoint.front().family, port));
    let same_port = port == endpoint.port;
    match lookup.map(|lookup| lookup.picked.as_ref()) {
        // Served or not, the connection ends at the listener of this very port, which Listening and OwnedByEnvoy judge.
        None | Some(None) if same_port => Finding::holds(KIND),
        None => {
            let message =
                format!("an L7 entry marks connections to {endpoint} for proxy port {port}, whose listener was not looked up yet");
            Finding::unknown(KIND, Reason::SocketsUnreadable, message)
        }
        Some(None) => {
            let message = format!("an L7 entry sends connections for {endpoint} to proxy port {port}, where nothing listens");
            Finding::fails(KIND, Reason::RedirectedToProxy, message)
        }
        Some(Some(listener)) => match is_envoy(listener) {
            Some(true) => Finding::holds(KIND),
            Some(false) => {
                let message =
                    format!("an L7 entry sends connections for {endpoint} to proxy port {port}, which this node's Envoy does not serve");
                Finding::fails(KIND, Reason::RedirectedToProxy, message).with("thief", format!("inode {}", listener.id.inode))
            }
            None => {
                let message = format!("an L7 entry sends connections for {endpoint} to proxy port {port}, whose owner can't be told");
                Finding::unknown(KIND, Reason::Unidentified, message)
            }
        },
    }
}

const fn is_wildcard(key: &ServiceKey) -> bool {
    key.port == 0 && key.protocol == 0
}

/// The reason for a row of this kind. A local redirect policy acts on a cluster address.
const fn reason_of(kind: ServiceKind) -> Reason {
    match kind {
        ServiceKind::HostPort => Reason::HostPort,
        ServiceKind::NodePort => Reason::NodePort,
        ServiceKind::ExternalIP => Reason::ExternalIP,
        ServiceKind::LoadBalancer => Reason::LoadBalancerIP,
        ServiceKind::ClusterIP | ServiceKind::LocalRedirect => Reason::ClusterIP,
    }
}

fn with_row(finding: Finding, table: &LbTable, decision: &Decision) -> Finding {
    let Some((key, row)) = decision.row else { return finding };
    let kind = if is_wildcard(&key) { "wildcard" } else { row.kind().as_str() };
    let mut finding = finding.with("entry", words::entry(&key)).with("kind", kind).with("outcome", words::outcome(&decision.outcome));
    if decision.source_ranges == SourceRanges::ByClient {
        finding = finding.with("source_ranges", "the entry admits some clients and drops the others (177)");
    }
    match words::thief(table, &key, &row, &decision.outcome) {
        Some(thief) => finding.with("thief", thief),
        None => finding,
    }
}

/// Where the version is not known and another generation would have judged otherwise, the message says so.
fn remark_on_version(mut finding: Finding, table: &LbTable, endpoint: Endpoint, outcome: &Outcome, known: bool) -> Finding {
    const OLDER: [(Generation, &str); 3] = [(Generation::V1_16, "1.16"), (Generation::V1_17, "1.17"), (Generation::V1_18, "1.18")];
    if known {
        return finding;
    }
    let differs = |generation| decide(table, &Settings::of(generation), &Packet::syn(endpoint), None).outcome.passes() != outcome.passes();
    let others: Vec<&str> = OLDER.into_iter().filter_map(|(generation, name)| differs(generation).then_some(name)).collect();
    if !others.is_empty() {
        let separator = if finding.message.is_empty() { "" } else { "; " };
        finding.message += &format!(
            "{separator}judged by the rule of Cilium 1.19 and newer, because the cilium-agent's version is not known ({} would differ)",
            others.join(", ")
        );
        finding = finding.with("rule", "newest, version of the cilium-agent not known");
    }
    finding
}
