//! Short ways to write facts in tests. Compiled for tests only.

use std::net::SocketAddr;

use crate::facts::addresses::{AddressTable, DefaultRoute, Link, LocalAddress, Scope};
use crate::facts::envoy::EnvoyAdmin;
use crate::facts::probes::ProbeTable;
use crate::facts::processes::{Holders, Owners, Process, Readable, RunState};
use crate::facts::sockets::{Listener, Lookup, SocketId, SocketTable};
use crate::facts::{Reading, Snapshot, Unavailable, Why};
use crate::lb::facts::{LbFacts, LbTable};
use crate::net::{Endpoint, Family};
use crate::time::{Mono, Window};

/// `10.0.0.11:80` or `[fd00::11]:80`.
pub(crate) fn endpoint(text: &str) -> Endpoint {
    let at: SocketAddr = text.parse().unwrap();
    Endpoint { address: at.ip(), port: at.port() }
}

/// A genuine Cilium listener (mark 0xb00, transparent, uid 0), inode = cookie = `id`.
pub(crate) fn listener(id: u64, at: &str) -> Listener {
    let at: SocketAddr = at.parse().unwrap();
    Listener {
        v6only: at.is_ipv6().then_some(true),
        mark: Some(0xb00),
        transparent: Some(true),
        queue_limit: 4096,
        drops: Some(0),
        ..Listener::bound_to(SocketId { inode: id, cookie: id }, at)
    }
}

/// The same without Cilium's marks: anybody's socket.
pub(crate) fn foreign_listener(id: u64, at: &str) -> Listener {
    Listener { mark: Some(0), transparent: Some(false), ..listener(id, at) }
}

/// A lookup from link 2 with a fixed source port.
pub(crate) fn lookup(at: &str, picked: Option<&Listener>) -> Lookup {
    Lookup { endpoint: endpoint(at), ingress_if: 2, source_port: 40_000, picked: picked.cloned() }
}

/// A node in memory: eth0 (link 2, default routes) with addresses, listeners, processes. Builds the snapshot that a pass
/// over it would yield; the kernel's lookup is given explicitly, as it is in reality.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) snapshot: Snapshot,
}

/// A reading that succeeded.
pub(crate) fn observed<T>(value: T) -> Reading<T> {
    Reading::Observed { value, window: Window { begin: Mono(1), end: Mono(2) } }
}

impl Scene {
    /// A v4 node with these addresses, Cilium's v4 map without a row, probes answered, admin fine.
    pub(crate) fn new(addresses: &[&str]) -> Self {
        let rows = addresses.iter().map(|ip| LocalAddress {
            ip: ip.parse().unwrap(),
            ifindex: 2,
            scope: Scope::Global,
            tentative: false,
            deprecated: false,
        });
        let link = |ifindex, name: &str| Link { ifindex, name: name.into(), loopback: name == "lo", up: true, master: None };
        let table = AddressTable {
            addresses: rows.collect(),
            links: vec![link(1, "lo"), link(2, "eth0")],
            default_routes: Family::ALL.map(|family| DefaultRoute { family, ifindex: 2 }).to_vec(),
        };
        let absent = Unavailable { why: Why::Absent, detail: "no such map".into(), window: Window::default() };
        let snapshot = Snapshot {
            addresses: observed(table),
            sockets: observed(SocketTable::default()),
            owners: observed(Owners { envoys_complete: true, ..Owners::default() }),
            lb: LbFacts { v4: observed(LbTable::default()), v6: Reading::Unavailable(absent), ..LbFacts::default() },
            envoy: observed(EnvoyAdmin::default()),
            probes: observed(ProbeTable { first_round_done: true, results: Vec::new() }),
            ..Snapshot::default()
        };
        Self { snapshot }
    }

    /// The usual healthy node: Envoy (pid 100) on 0.0.0.0:80 and :443, every lookup picks it.
    pub(crate) fn healthy(addresses: &[&str]) -> Self {
        let mut scene = Self::new(addresses).process(100, "cilium-envoy");
        for port in [80_u16, 443] {
            let row = listener(u64::from(port), &format!("0.0.0.0:{port}"));
            scene = scene.listens(&row, &[100]);
            for address in addresses {
                scene = scene.picks(&format!("{address}:{port}"), Some(&row));
            }
        }
        scene
    }

    pub(crate) fn sockets(&mut self) -> &mut SocketTable {
        match &mut self.snapshot.sockets {
            Reading::Observed { value, .. } => value,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn owners(&mut self) -> &mut Owners {
        match &mut self.snapshot.owners {
            Reading::Observed { value, .. } => value,
            other => panic!("{other:?}"),
        }
    }

    /// A process with this executable; cilium-envoys join the list of Envoys.
    pub(crate) fn process(mut self, pid: u32, exe: &str) -> Self {
        let process = Process {
            pid,
            start_ticks: u64::from(pid),
            exe: Readable::Is(exe.into()),
            comm: exe.chars().take(15).collect(),
            uid: 0,
            no_new_privs: Some(true),
            cap_effective: Some(0x400),
            cap_permitted: Some(0x400),
            parent: 1,
            parent_name: None,
            state: RunState::Alive,
            frozen: Some(false),
            same_netns: Some(true),
            pod: None,
            open_files: Some(50),
            open_files_limit: Some(1 << 20),
        };
        let owners = self.owners();
        owners.processes.insert(pid, process);
        if exe == "cilium-envoy" {
            owners.envoys.push(pid);
        }
        self
    }

    /// A LISTEN row, held by these processes; none = the holder is not known.
    pub(crate) fn listens(mut self, row: &Listener, pids: &[u32]) -> Self {
        self.sockets().listeners.push(row.clone());
        let holders = if pids.is_empty() {
            Holders::Unknown("the search is not over".into())
        } else {
            Holders::Known { pids: pids.to_vec(), complete: true }
        };
        self.owners().holders.insert(row.id.inode, holders);
        self
    }

    /// The kernel's answer for one client of `at`; replaces earlier answers for it.
    pub(crate) fn picks(mut self, at: &str, picked: Option<&Listener>) -> Self {
        let wanted = endpoint(at);
        self.sockets().lookups.retain(|l| l.endpoint != wanted);
        self.also_picks(at, picked)
    }

    /// One more client of `at` with another source port.
    pub(crate) fn also_picks(mut self, at: &str, picked: Option<&Listener>) -> Self {
        self.sockets().lookups.push(lookup(at, picked));
        self
    }

    /// Without the rows of this port and their lookups.
    pub(crate) fn without_port(mut self, port: u16) -> Self {
        self.sockets().listeners.retain(|row| row.port != port);
        for lookup in &mut self.sockets().lookups {
            if lookup.endpoint.port == port {
                lookup.picked = None;
            }
        }
        self
    }
}

/// A reading that failed.
pub(crate) fn lost<T>(why: Why) -> Reading<T> {
    Reading::Unavailable(Unavailable { why, detail: "lost".into(), window: Window { begin: Mono(1), end: Mono(2) } })
}
