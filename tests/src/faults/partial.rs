//! Only a part of what should be served is: one port, one family, one address.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;
use serde_json::json;

use super::{Fault, Stage};
use crate::agent::AgentBuilder;
use crate::node::{node_v4, node_v6};
use crate::scene::quick;
use crate::{Envoy, Families, Listener, Node, Thief};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        id: "23",
        what: "only 80 is bound, 443 is not",
        answer: "state=down reason=NoListener port=443",
        make: || {
            let stage = bound(vec![Listener::http(80)], |agent| agent.set("ports", json!([80, 443])))?;
            Ok(stage.clients_at(node_v4(1).into(), 443))
        },
    },
    Fault {
        id: "23",
        what: "only IPv4 is bound, clients of IPv6 are refused",
        answer: "state=down reason=NoListener port=80",
        make: || {
            let stage = bound(vec![Listener { families: Families::V4, ..Listener::http(80) }], both_families)?;
            Ok(stage.clients_at(node_v6(1).into(), 80))
        },
    },
    Fault {
        id: "24",
        what: "bound to loopback only",
        answer: "state=down reason=LoopbackOnly port=80",
        make: || bound(vec![only_at(Ipv4Addr::LOCALHOST.into())], |agent| agent.set("families", json!(["ipv4"]))),
    },
    Fault {
        id: "24",
        what: "bound to one address, the balancer uses another",
        answer: "state=down reason=AddressesNotCovered port=80",
        make: || {
            let stage = bound(vec![only_at(node_v4(2).into())], |agent| agent)?;
            Ok(stage)
        },
    },
    Fault {
        id: "25",
        what: "nothing is wrong: `[::]:80` without v6only serves IPv4 too, without a 0.0.0.0 row",
        answer: "state=up",
        make: || bound(vec![Listener { families: Families::Dual, ..Listener::http(80) }], both_families),
    },
    Fault {
        id: "25",
        what: "`[::]:80` is v6only: clients of IPv4 are refused",
        answer: "state=down reason=NoListener port=80",
        make: || bound(vec![Listener { families: Families::V6, ..Listener::http(80) }], both_families),
    },
    Fault {
        id: "26",
        what: "nothing listens on 80, another program on 8080 matches the pattern",
        answer: "state=down reason=NoListener port=80",
        make: || {
            let node = Node::new()?;
            let envoy = Envoy::builder(&node).listeners(vec![Listener::http(443)]).start()?;
            let other = Thief::at(&node, Ipv4Addr::UNSPECIFIED.into(), 8080).start()?;
            let agent = quick(&node).set("ports", json!([80, 443])).start()?;
            Ok(Stage::new(&node, agent).keep(envoy).keep(other))
        },
    },
];

fn only_at(address: IpAddr) -> Listener {
    Listener { addresses: vec![address], families: Families::V4, ..Listener::http(80) }
}

fn both_families(agent: AgentBuilder) -> AgentBuilder {
    agent.set("families", json!(["ipv4", "ipv6"]))
}

fn bound(listeners: Vec<Listener>, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Result<Stage> {
    let node = Node::new()?;
    let envoy = Envoy::builder(&node).listeners(listeners).start_unserved()?;
    let agent = change(quick(&node)).start()?;
    Ok(Stage::new(&node, agent).keep(envoy))
}
