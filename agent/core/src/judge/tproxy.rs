//! `TproxyPath`: for every L7 frontend in the load-balancer map the way to Envoy's proxy port is complete.

use crate::condition::{ConditionType, Finding, Status};
use crate::facts::sockets::Listener;
use crate::facts::steering::TproxyRoutes;
use crate::facts::{Reading, Snapshot};
use crate::lb::frontends::proxy_ports;
use crate::net::Family;
use crate::reason::Reason;

const KIND: ConditionType = ConditionType::TproxyPath;

/// Judges the path. `is_envoy` tells whether a listener belongs to a live cilium-envoy; none = can't be told.
///
/// A proven break is reported before missing evidence, the more causal reason first.
#[must_use]
pub fn judge_tproxy(snapshot: &Snapshot, is_envoy: impl Fn(&Listener) -> Option<bool>) -> Finding {
    let frontends = match &snapshot.lb.l7 {
        Reading::Observed { value, .. } => value,
        Reading::NotRead => return unreadable("the L7 frontends were not read yet"),
        Reading::Unavailable(unavailable) => return unreadable(&format!("the L7 frontends could not be read: {}", unavailable.detail)),
    };
    let ports = proxy_ports(frontends);
    if ports.is_empty() {
        return Finding { reason: Some(Reason::NotUsed), ..Finding::holds(KIND) };
    }
    let tproxy = match &snapshot.tproxy {
        Reading::Observed { value, .. } => value,
        Reading::NotRead => return unreadable("rules and routes were not read yet"),
        Reading::Unavailable(unavailable) => return unreadable(&format!("rules and routes could not be read: {}", unavailable.detail)),
    };
    let listeners = ports.iter().map(|&(family, port)| judge_listener(tproxy, family, port, &is_envoy));
    let routes = Family::ALL.into_iter().filter(|family| ports.iter().any(|(used, _)| used == family));
    let findings: Vec<Finding> = listeners.chain(routes.map(|family| judge_routes(tproxy, family))).flatten().collect();
    let shown = ports.iter().map(|(family, port)| format!("{port}/{family}")).collect::<Vec<_>>().join(",");
    let worst = findings.into_iter().min_by_key(|finding| (finding.status == Status::Unknown, finding.reason));
    worst.unwrap_or_else(|| Finding::holds(KIND)).with("proxy_ports", shown)
}

fn unreadable(message: &str) -> Finding {
    Finding::unknown(KIND, Reason::RoutesUnreadable, message)
}

fn judge_listener(tproxy: &TproxyRoutes, family: Family, port: u16, is_envoy: &impl Fn(&Listener) -> Option<bool>) -> Option<Finding> {
    let Some(lookup) = tproxy.proxy(family, port) else {
        return Some(unreadable(&format!("the listener of proxy port {port}/{family} was not looked up yet")));
    };
    let Some(listener) = &lookup.picked else {
        let message = format!("nothing listens on proxy port {port}/{family}");
        return Some(Finding::fails(KIND, Reason::ProxyPortClosed, message));
    };
    let who = format!("inode {}", listener.id.inode);
    match is_envoy(listener) {
        Some(true) if listener.transparent == Some(false) => {
            let message = format!("the listener of proxy port {port}/{family} is not transparent: the TPROXY target can't use it");
            Some(Finding::fails(KIND, Reason::ProxyPortClosed, message).with("listener", who))
        }
        Some(true) => None,
        Some(false) => {
            let message = format!("proxy port {port}/{family} is listened to by another process than cilium-envoy");
            Some(Finding::fails(KIND, Reason::ProxyPortForeign, message).with("thief", who))
        }
        None => {
            let message = format!("who listens on proxy port {port}/{family} can't be told");
            Some(Finding::unknown(KIND, Reason::Unidentified, message).with("listener", who))
        }
    }
}

fn judge_routes(tproxy: &TproxyRoutes, family: Family) -> Option<Finding> {
    if !tproxy.rule.contains(&family) {
        let message = format!("the {family} rule `fwmark 0x200/0xf00 lookup 2004` is missing");
        return Some(Finding::fails(KIND, Reason::RuleMissing, message));
    }
    if !tproxy.route.contains(&family) {
        let message = format!("the {family} route `local default dev lo table 2004` is missing");
        return Some(Finding::fails(KIND, Reason::RouteMissing, message));
    }
    None
}

#[cfg(test)]
#[path = "tproxy_tests.rs"]
mod tests;
