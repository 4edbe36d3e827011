//! Short ways to write facts about a serving Envoy in tests. Compiled for tests only.

use std::collections::BTreeMap;

use crate::facts::envoy::{ChainKind, EnvoyAdmin, EnvoyListener, FilterChain};
use crate::facts::processes::{Holders, Owners, Process, Readable, RunState};
use crate::facts::sockets::{Listener, Lookup, SocketId, SocketTable};
use crate::facts::{Reading, Snapshot, Unavailable, Why};
use crate::net::Endpoint;
use crate::time::{Mono, Window};

pub(crate) const MS: u64 = 1_000_000;

/// Read at this moment.
pub(crate) fn observed<T>(value: T, at: Mono) -> Reading<T> {
    Reading::Observed { value, window: Window { begin: at, end: at } }
}

/// Could not be read.
pub(crate) fn lost<T>(detail: &str) -> Reading<T> {
    Reading::Unavailable(Unavailable { why: Why::Failed, detail: detail.to_owned(), window: Window::default() })
}

/// Nothing has been read.
pub(crate) fn unread() -> Snapshot {
    Snapshot::default()
}

/// The clear-text listener of Gateway `team/<name>` on these ports.
pub(crate) fn gateway(name: &str, ports: &[u16]) -> EnvoyListener {
    EnvoyListener {
        name: format!("team/cilium-gateway-{name}/listener"),
        ports: ports.to_vec(),
        active: true,
        chains: vec![chain(ChainKind::Http, &[])],
        ..EnvoyListener::default()
    }
}

pub(crate) fn chain(kind: ChainKind, names: &[&str]) -> FilterChain {
    FilterChain { kind, server_names: names.iter().map(|name| (*name).to_owned()).collect(), port: None }
}

pub(crate) fn admin(listeners: Vec<EnvoyListener>) -> Snapshot {
    admin_with(|admin| admin.listeners = listeners)
}

pub(crate) fn admin_with(change: impl FnOnce(&mut EnvoyAdmin)) -> Snapshot {
    let mut value = EnvoyAdmin::default();
    change(&mut value);
    Snapshot { envoy: observed(value, Mono(0)), ..Snapshot::default() }
}

/// A healthy cilium-envoy as Cilium's starter makes it.
pub(crate) fn envoy(pid: u32) -> Process {
    Process {
        pid,
        start_ticks: u64::from(pid),
        exe: Readable::Is("cilium-envoy".to_owned()),
        comm: "cilium-envoy".to_owned(),
        uid: 0,
        no_new_privs: Some(true),
        cap_effective: Some(0x400),
        cap_permitted: Some(0x400),
        parent: 1,
        parent_name: Some("cilium-envoy-starter".to_owned()),
        state: RunState::Alive,
        frozen: Some(false),
        same_netns: Some(true),
        pod: None,
        open_files: Some(100),
        open_files_limit: Some(1_048_576),
    }
}

/// One Envoy that holds these sockets.
pub(crate) fn owned_by(process: Process, inodes: &[u64]) -> Owners {
    let pids = vec![process.pid];
    Owners {
        holders: inodes.iter().map(|inode| (*inode, Holders::Known { pids: pids.clone(), complete: true })).collect(),
        envoys: pids,
        envoys_complete: true,
        processes: BTreeMap::from([(process.pid, process)]),
        ..Owners::default()
    }
}

/// A listener of 0.0.0.0:80 with this queue; inode = cookie = `id`.
pub(crate) fn queue(id: u64, length: u32, limit: u32) -> Listener {
    Listener {
        mark: Some(0xb00),
        transparent: Some(true),
        queue_length: length,
        queue_limit: limit,
        drops: Some(0),
        ..Listener::bound_to(SocketId { inode: id, cookie: id }, "0.0.0.0:80".parse().unwrap())
    }
}

pub(crate) fn endpoint() -> Endpoint {
    Endpoint { address: "10.0.0.11".parse().unwrap(), port: 80 }
}

/// All of the listeners form the group that `endpoint()` reaches; the first one is picked.
pub(crate) fn table(listeners: &[Listener]) -> SocketTable {
    let lookup = Lookup { endpoint: endpoint(), ingress_if: 2, source_port: 40_000, picked: listeners.first().cloned() };
    SocketTable { lookups: vec![lookup], listeners: listeners.to_vec() }
}
