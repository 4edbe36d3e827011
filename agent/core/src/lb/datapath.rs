//! The datapath's rule: what Cilium's `cil_from_netdev` does with a packet from the wire, given the rows of its maps.
//!
//! The rule was measured on the real datapath; `tests/golden/datapath-outcomes*.jsonl` are its cases. It is total: any rows and any
//! packet give an outcome. It must not read a clock, guess a row, or know anything of sockets.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::backend::{Backend, STATE_ACTIVE};
use super::service::{Service, ServiceKey, ServiceKind, flag, flag2};
use super::settings::{Generation, Settings};
use crate::net::Endpoint;

/// `DROP_INVALID`.
pub const DROP_INVALID: u8 = 134;
/// `DROP_NO_SERVICE`.
pub const DROP_NO_SERVICE: u8 = 158;
/// `DROP_IS_CLUSTER_IP`.
pub const DROP_IS_CLUSTER_IP: u8 = 174;
/// `DROP_NOT_IN_SRC_RANGE`.
pub const DROP_NOT_IN_SRC_RANGE: u8 = 177;

/// The rows that the rule looks up. One family's maps; an address of the other family is in none of them.
pub trait Rows {
    /// A row of the services map.
    fn service(&self, key: &ServiceKey) -> Option<Service>;
    /// A row of the backends map.
    fn backend(&self, id: u32) -> Option<Backend>;
    /// Which clients the source ranges of this service contain: for one client all or none, for any client (none) also some.
    fn source_range(&self, rev_nat: u16, client: Option<IpAddr>) -> Clients;
    /// Whether the address is a pod's or the node's own here (`cilium_lxc`).
    fn is_local(&self, address: IpAddr) -> bool;
    /// How many of a master's slots the rows can tell of; the rule looks at no more.
    fn known_slots(&self, _master: &ServiceKey, count: u16) -> u16 {
        count
    }
}

/// A part of all clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// None of those asked for.
    None,
    /// Some, but not all.
    Some,
    /// All of those asked for.
    All,
}

/// A packet as it enters a device that Cilium manages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Client address; none = any client.
    pub source: Option<IpAddr>,
    /// Where it is going.
    pub destination: Endpoint,
    /// L4 protocol number.
    pub protocol: u8,
    /// The packet opens a connection.
    pub syn: bool,
}

impl Packet {
    /// The TCP SYN of any client.
    #[must_use]
    pub const fn syn(destination: Endpoint) -> Self {
        Self { source: None, destination, protocol: 6, syn: true }
    }
}

/// What the datapath remembers of a connection that it has translated (its conntrack entry).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The backend that was chosen.
    pub backend_id: u32,
}

/// Why a packet passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Passage {
    /// No row concerns it.
    NoRow,
    /// The backend is the packet's own destination.
    BackendIsDestination,
    /// An L7 delegate whose backend is local.
    Delegate,
    /// The service has no backends, and such packets are configured to pass.
    NoEndpoints,
}

/// What happens to a packet. Anything but [`Outcome::Pass`] keeps it from the socket that listens on its destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Reaches the stack as it is.
    Pass(Passage),
    /// Its destination is rewritten.
    Dnat {
        /// The backend.
        to: Endpoint,
    },
    /// Answered by ICMP port unreachable (no backend).
    Reject,
    /// Dropped silently.
    Drop {
        /// The drop reason as `cilium_metrics` counts it.
        code: u8,
    },
    /// Marked for an L7 proxy port.
    Proxy {
        /// The port.
        port: u16,
    },
    /// One of these, at random per connection: distinct, in the order of their slots.
    Share {
        /// The outcomes, with the number of slots that lead to each.
        of: Vec<(Self, u32)>,
    },
}

impl Outcome {
    /// The packet reaches whoever listens on its destination, whatever the dice say.
    #[must_use]
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Pass(_))
    }
}

/// How source ranges bear on the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceRanges {
    /// The row asks for no check.
    Unchecked,
    /// The row asks for a check; this client (or every client) passes it or fails it, and the outcome says which.
    Decided,
    /// The outcome is that of clients which pass the check; the others are dropped with 177.
    ByClient,
}

/// The rule's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What happens.
    pub outcome: Outcome,
    /// The row that decided; none if no row concerns the packet.
    pub row: Option<(ServiceKey, Service)>,
    /// How source ranges bear on it.
    pub source_ranges: SourceRanges,
    /// The flow that the datapath would remember, where only one backend can be chosen.
    pub flow: Option<Flow>,
}

impl Decision {
    const fn of(outcome: Outcome, row: Option<(ServiceKey, Service)>) -> Self {
        Self { outcome, row, source_ranges: SourceRanges::Unchecked, flow: None }
    }
}

/// What happens to a packet of a connection that the datapath does not know yet.
#[must_use]
pub fn outcome(rows: &impl Rows, settings: &Settings, packet: &Packet) -> Outcome {
    decide(rows, settings, packet, None).outcome
}

/// The master row that concerns a frontend: the first hit among the protocols that this generation tries.
#[must_use]
pub fn find_master(rows: &impl Rows, settings: &Settings, destination: Endpoint, protocol: u8) -> Option<(ServiceKey, Service)> {
    settings.key_protocols(protocol).iter().find_map(|&number| {
        let key = ServiceKey::master(destination.address, destination.port, number);
        rows.service(&key).map(|row| (key, row))
    })
}

/// The whole answer, also for a connection that the datapath knows.
#[must_use]
pub fn decide(rows: &impl Rows, settings: &Settings, packet: &Packet, flow: Option<Flow>) -> Decision {
    if settings.key_protocols(packet.protocol).is_empty() {
        return Decision::of(Outcome::Pass(Passage::NoRow), None);
    }
    let Some((key, row)) = find_master(rows, settings, packet.destination, packet.protocol) else {
        return without_row(rows, settings, packet);
    };
    let (allowed, source_ranges) = check_source(rows, settings, &row, packet.source);
    let decided = |outcome| Decision { source_ranges, ..Decision::of(outcome, Some((key, row))) };
    if !allowed {
        return decided(Outcome::Drop { code: DROP_NOT_IN_SRC_RANGE });
    }
    if !row.has(flag::ROUTABLE) {
        return decided(Outcome::Drop { code: DROP_IS_CLUSTER_IP });
    }
    if let Some(port) = row.proxy_port() {
        return decided(Outcome::Proxy { port });
    }
    if let Some((flow, backend)) = flow.and_then(|known| known_backend(rows, packet, known)) {
        return Decision { flow: Some(flow), ..decided(translate(rows, settings, &row, packet, backend)) };
    }
    let (outcome, flow) = choose_backend(rows, settings, &key, &row, packet);
    Decision { flow, ..decided(outcome) }
}

fn without_row(rows: &impl Rows, settings: &Settings, packet: &Packet) -> Decision {
    if settings.generation >= Generation::V1_19 {
        let key = ServiceKey::wildcard(packet.destination.address);
        if let Some(row) = rows.service(&key) {
            return Decision::of(Outcome::Drop { code: DROP_NO_SERVICE }, Some((key, row)));
        }
    }
    Decision::of(Outcome::Pass(Passage::NoRow), None)
}

/// Whether a client passes the source-range check. For any client: true if some client would.
fn check_source(rows: &impl Rows, settings: &Settings, row: &Service, client: Option<IpAddr>) -> (bool, SourceRanges) {
    if !row.has(flag::SOURCE_RANGE) {
        return (true, SourceRanges::Unchecked);
    }
    let denies = settings.generation > Generation::V1_16 && row.has2(flag2::SOURCE_RANGE_DENY);
    let matched = rows.source_range(row.rev_nat, client);
    match matched {
        Clients::Some => (true, SourceRanges::ByClient),
        Clients::All => (!denies, SourceRanges::Decided),
        Clients::None => (denies, SourceRanges::Decided),
    }
}

/// The remembered backend, unless it is gone, or leaving while the packet opens the connection anew.
fn known_backend(rows: &impl Rows, packet: &Packet, flow: Flow) -> Option<(Flow, Backend)> {
    let backend = rows.backend(flow.backend_id)?;
    (backend.state == STATE_ACTIVE || !packet.syn).then_some((flow, backend))
}

fn choose_backend(rows: &impl Rows, settings: &Settings, key: &ServiceKey, row: &Service, packet: &Packet) -> (Outcome, Option<Flow>) {
    let mut of: Vec<(Outcome, u32)> = Vec::new();
    let mut flow = None;
    for slot in 1..=rows.known_slots(key, row.count) {
        let id = rows.service(&key.with_slot(slot)).map(|slot_row| slot_row.backend_id());
        let outcome = match id.and_then(|id| rows.backend(id)) {
            Some(backend) => translate(rows, settings, row, packet, backend),
            None => without_backend(settings, row),
        };
        flow = id.filter(|_| row.count == 1).map(|backend_id| Flow { backend_id });
        match of.iter_mut().find(|(seen, _)| *seen == outcome) {
            Some((_, slots)) => *slots += 1,
            None => of.push((outcome, 1)),
        }
    }
    let outcome = match of.len() {
        0 => without_backend(settings, row),
        1 => of.swap_remove(0).0,
        _ => Outcome::Share { of },
    };
    (outcome, flow)
}

fn without_backend(settings: &Settings, row: &Service) -> Outcome {
    if settings.generation >= Generation::V1_19 && !settings.no_endpoints_routable {
        let local_only = match row.kind() {
            ServiceKind::ExternalIP | ServiceKind::NodePort | ServiceKind::LoadBalancer => row.has(flag::EXT_LOCAL_SCOPE),
            ServiceKind::HostPort | ServiceKind::LocalRedirect | ServiceKind::ClusterIP => row.has2(flag2::INT_LOCAL_SCOPE),
        };
        return if local_only { Outcome::Drop { code: DROP_NO_SERVICE } } else { Outcome::Pass(Passage::NoEndpoints) };
    }
    if settings.reject_without_backend { Outcome::Reject } else { Outcome::Drop { code: DROP_NO_SERVICE } }
}

fn translate(rows: &impl Rows, settings: &Settings, row: &Service, packet: &Packet, backend: Backend) -> Outcome {
    let local = rows.is_local(backend.address);
    if settings.generation >= Generation::V1_18 && row.is_delegate() && local {
        return Outcome::Pass(Passage::Delegate);
    }
    if row.kind() == ServiceKind::HostPort && !local {
        return Outcome::Drop { code: DROP_INVALID };
    }
    let port = if backend.port == 0 { packet.destination.port } else { backend.port };
    let to = Endpoint { address: backend.address, port };
    if to == packet.destination { Outcome::Pass(Passage::BackendIsDestination) } else { Outcome::Dnat { to } }
}

#[cfg(test)]
#[path = "datapath_tests.rs"]
mod tests;
