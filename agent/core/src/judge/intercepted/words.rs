//! Rows and outcomes as text for people: messages and evidence of `NotIntercepted`.

use crate::lb::datapath::{Outcome, Rows};
use crate::lb::facts::LbTable;
use crate::lb::service::{Service, ServiceKey};
use crate::net::Endpoint;

/// A row's key, e.g. `10.0.0.1:80/6`.
pub(crate) fn entry(key: &ServiceKey) -> String {
    format!("{}/{}", Endpoint { address: key.address, port: key.port }, key.protocol)
}

/// An outcome in one short phrase, e.g. `dnat 10.42.1.7:8080`.
pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Pass(_) => "pass".to_owned(),
        Outcome::Dnat { to } => format!("dnat {to}"),
        Outcome::Reject => "reject".to_owned(),
        Outcome::Drop { code } => format!("drop {code}"),
        Outcome::Proxy { port } => format!("proxy {port}"),
        Outcome::Share { of } => {
            let parts: Vec<String> = of.iter().map(|(member, slots)| format!("{slots}x {}", self::outcome(member))).collect();
            format!("share {}", parts.join(", "))
        }
    }
}

/// Who gets the connections instead, or none: a pod by name, this node's own address, or the address alone.
pub(super) fn thief(table: &LbTable, key: &ServiceKey, row: &Service, outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Dnat { to } => Some(name(table, *to)),
        Outcome::Share { of } => of.iter().find_map(|(member, _)| match member {
            Outcome::Dnat { to } => Some(name(table, *to)),
            _ => None,
        }),
        // The backend that the entry points to and that is no pod of this node.
        Outcome::Drop { .. } if row.count > 0 => {
            let backend = table.backend(table.service(&key.with_slot(1))?.backend_id())?;
            Some(name(table, Endpoint { address: backend.address, port: backend.port }))
        }
        Outcome::Pass(_) | Outcome::Reject | Outcome::Drop { .. } | Outcome::Proxy { .. } => None,
    }
}

fn name(table: &LbTable, to: Endpoint) -> String {
    match table.endpoints.get(&to.address) {
        Some(endpoint) if endpoint.host => format!("this node ({to})"),
        Some(endpoint) => match &endpoint.pod {
            Some(pod) => format!("pod {pod} ({to})"),
            None => format!("{to}, endpoint {}", endpoint.id),
        },
        None => to.to_string(),
    }
}

/// One sentence about a row that takes the connections.
pub(super) fn describe(table: &LbTable, key: &ServiceKey, row: &Service, endpoint: Endpoint, outcome: &Outcome) -> String {
    let thief = thief(table, key, row, outcome);
    let what = if key.port == 0 && key.protocol == 0 {
        format!("the wildcard entry of {}", key.address)
    } else {
        format!("the {} entry {}", row.kind().as_str(), entry(key))
    };
    match (outcome, thief) {
        (Outcome::Dnat { .. }, Some(thief)) => format!("{what} sends connections for {endpoint} to {thief}"),
        (Outcome::Share { of }, Some(thief)) => {
            let all: u32 = of.iter().map(|(_, slots)| slots).sum();
            let ours: u32 = of.iter().filter(|(member, _)| member.passes()).map(|(_, slots)| slots).sum();
            format!("{what} gives {} of {all} connections to {endpoint} to others, such as {thief}", all - ours)
        }
        (Outcome::Share { .. }, None) => format!("{what} loses a part of the connections to {endpoint}"),
        (Outcome::Reject, _) => format!("{what} has no backend: connections to {endpoint} are refused"),
        (Outcome::Drop { code: 134 }, Some(thief)) => {
            format!("{what} drops connections to {endpoint} (134): its backend {thief} is not on this node")
        }
        (Outcome::Drop { code: 158 }, _) => format!("{what} drops connections to {endpoint} (158: no service)"),
        (Outcome::Drop { code: 174 }, _) => format!("{what} drops connections to {endpoint} from outside (174: not routable)"),
        (Outcome::Drop { code: 177 }, _) => format!("{what} admits no client at all (177: no source range)"),
        (Outcome::Drop { code }, _) => format!("{what} drops connections to {endpoint} ({code})"),
        (Outcome::Dnat { .. } | Outcome::Pass(_) | Outcome::Proxy { .. }, _) => format!("{what} takes connections to {endpoint}"),
    }
}
