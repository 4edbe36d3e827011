//! A gateway node in memory: what one pass over it would observe. Each method changes what a fault would change in reality, no more.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use gwready_core::facts::addresses::{AddressTable, DefaultRoute, Link, LocalAddress, Scope};
use gwready_core::facts::envoy::{ChainKind, EnvoyAdmin, EnvoyListener, FilterChain};
use gwready_core::facts::platform::CiliumAgent;
use gwready_core::facts::probes::{Acceptor, ProbeOutcome, ProbeResult, ProbeTable};
use gwready_core::facts::processes::{Holders, Owners, Pod, Process, Readable, RunState};
use gwready_core::facts::sockets::{Listener, Lookup, SocketId, SocketTable};
use gwready_core::facts::steering::{NetfilterFacts, NetfilterPath, SkLookupPrograms, TproxyRoutes};
use gwready_core::facts::{Reading, Snapshot, Unavailable, Why};
use gwready_core::lb::backend::{Backend, STATE_ACTIVE};
use gwready_core::lb::facts::{LbFacts, LbTable};
use gwready_core::lb::local::{LocalEndpoint, PodName};
use gwready_core::lb::service::{Service, ServiceKey};
use gwready_core::net::{Endpoint, Family};
use gwready_core::time::{Mono, Window};

/// The node's usual address.
pub const A: &str = "10.0.0.11";
/// Its second one, where a test gives it two.
pub const B: &str = "10.0.0.12";
/// Its IPv6 address, where a test gives it one.
pub const SIX: &str = "fd00::11";
/// Pid of the node's cilium-envoy.
pub const ENVOY: u32 = 100;

/// `10.0.0.11:80` or `[fd00::11]:80`.
pub fn endpoint(text: &str) -> Endpoint {
    let at: SocketAddr = text.parse().unwrap();
    Endpoint { address: at.ip(), port: at.port() }
}

/// A listener as Cilium's Envoy opens it; inode and cookie are `id`.
pub fn socket(id: u64, at: &str) -> Listener {
    let at: SocketAddr = at.parse().unwrap();
    Listener {
        v6only: at.is_ipv6().then_some(true),
        mark: Some(0xb00),
        transparent: Some(true),
        queue_limit: 128,
        drops: Some(0),
        ..Listener::bound_to(SocketId { inode: id, cookie: id }, at)
    }
}

/// A listener as any other program opens it.
pub fn plain_socket(id: u64, at: &str) -> Listener {
    Listener { mark: Some(0), transparent: Some(false), ..socket(id, at) }
}

fn read<T>(value: T) -> Reading<T> {
    Reading::Observed { value, window: Window::default() }
}

/// A reading that failed.
pub fn lost<T>(why: Why, detail: &str) -> Reading<T> {
    Reading::Unavailable(Unavailable { why, detail: detail.to_owned(), window: Window::default() })
}

fn value<T>(reading: &mut Reading<T>) -> &mut T {
    match reading {
        Reading::Observed { value, .. } => value,
        Reading::NotRead | Reading::Unavailable(_) => panic!("the test took this source away"),
    }
}

/// The usual process: alive, root, in this namespace, in no pod.
fn process(pid: u32, exe: &str) -> Process {
    Process {
        pid,
        start_ticks: u64::from(pid),
        exe: Readable::Is(exe.to_owned()),
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
        open_files_limit: Some(1024),
    }
}

/// The node. `agent_age` is how long ago the cilium-agent gave its last sign of life.
#[derive(Debug, Clone)]
pub struct Node {
    pub snapshot: Snapshot,
    pub agent_age: Duration,
}

impl Node {
    /// A node on which nothing runs: eth0 with these addresses, Cilium's maps of their families without a row.
    pub fn bare(addresses: &[&str]) -> Self {
        let ips: Vec<IpAddr> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        let link = |ifindex, name: &str| Link { ifindex, name: name.into(), loopback: name == "lo", up: true, master: None };
        let rows = ips.iter().map(|&ip| LocalAddress { ip, ifindex: 2, scope: Scope::Global, tentative: false, deprecated: false });
        let map = |family| match ips.iter().any(|ip| Family::of(*ip) == family) {
            true => read(LbTable::default()),
            false => lost(Why::Absent, "no such map"),
        };
        let snapshot = Snapshot {
            addresses: read(AddressTable {
                addresses: rows.collect(),
                links: vec![link(1, "lo"), link(2, "eth0")],
                default_routes: Family::ALL.map(|family| DefaultRoute { family, ifindex: 2 }).to_vec(),
            }),
            sockets: read(SocketTable::default()),
            owners: read(Owners { envoys_complete: true, unprivileged_port_start: Some(1024), ..Owners::default() }),
            lb: LbFacts { v4: map(Family::Ipv4), v6: map(Family::Ipv6), l7: read(Vec::new()), ..LbFacts::default() },
            steering: read(SkLookupPrograms::default()),
            tproxy: read(TproxyRoutes::default()),
            netfilter: read(NetfilterFacts::default()),
            cilium_agent: read(CiliumAgent { stamp: Mono(1), version: Some((1, 19)), protocol_differentiation: None }),
            envoy: read(EnvoyAdmin { control_plane_connected: Some(true), ..EnvoyAdmin::default() }),
            probes: read(ProbeTable { first_round_done: true, results: Vec::new() }),
            ..Snapshot::default()
        };
        Self { snapshot, agent_age: Duration::from_millis(500) }
    }

    /// The usual node: Envoy listens on every address, 80 and 443, and everything holds.
    pub fn with(addresses: &[&str]) -> Self {
        let mut node = Self::bare(addresses).process(ENVOY, "cilium-envoy").in_pod(ENVOY, "kube-system/cilium-envoy-x");
        for address in addresses {
            let wildcard = if address.contains(':') { "[::]" } else { "0.0.0.0" };
            for port in [80_u16, 443] {
                let id = u64::from(port) + if wildcard == "[::]" { 6000 } else { 0 };
                let row = socket(id, &format!("{wildcard}:{port}"));
                let at = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
                if !value(&mut node.snapshot.sockets).listeners.contains(&row) {
                    node = node.listens(&row, &[ENVOY]);
                }
                node = node.asked(&at).picks(&at, Some(&row)).answers(&at);
            }
        }
        node.admin(|admin| admin.listeners = vec![gateway("public", &[80, 443])])
    }

    /// The usual node with its usual address.
    pub fn healthy() -> Self {
        Self::with(&[A])
    }

    /// An endpoint whose maps and rules are looked up: nothing takes its clients.
    pub fn asked(mut self, at: &str) -> Self {
        let at = endpoint(at);
        match Family::of(at.address) {
            Family::Ipv4 => value(&mut self.snapshot.lb.v4).asked.insert(at),
            Family::Ipv6 => value(&mut self.snapshot.lb.v6).asked.insert(at),
        };
        value(&mut self.snapshot.netfilter).paths.push((at, NetfilterPath::Passes));
        self
    }

    pub fn process(mut self, pid: u32, exe: &str) -> Self {
        let owners = value(&mut self.snapshot.owners);
        owners.processes.insert(pid, process(pid, exe));
        if exe == "cilium-envoy" {
            owners.envoys.push(pid);
        }
        self
    }

    pub fn in_pod(self, pid: u32, name: &str) -> Self {
        let (namespace, name) = name.split_once('/').unwrap();
        let pod = Pod { uid: "u".into(), container_id: None, namespace: Some(namespace.into()), name: Some(name.into()) };
        self.with_process(pid, |process| process.pod = Some(pod))
    }

    pub fn with_process(mut self, pid: u32, change: impl FnOnce(&mut Process)) -> Self {
        change(value(&mut self.snapshot.owners).processes.get_mut(&pid).unwrap());
        self
    }

    pub fn owners(mut self, change: impl FnOnce(&mut Owners)) -> Self {
        change(value(&mut self.snapshot.owners));
        self
    }

    pub fn admin(mut self, change: impl FnOnce(&mut EnvoyAdmin)) -> Self {
        change(value(&mut self.snapshot.envoy));
        self
    }

    pub fn steering(mut self, ids: &[u32]) -> Self {
        self.snapshot.steering = read(SkLookupPrograms { ids: ids.to_vec() });
        self
    }

    /// A socket held by these processes.
    pub fn listens(mut self, row: &Listener, pids: &[u32]) -> Self {
        value(&mut self.snapshot.sockets).listeners.push(row.clone());
        let holders = Holders::Known { pids: pids.to_vec(), complete: true };
        value(&mut self.snapshot.owners).holders.insert(row.id.inode, holders);
        self
    }

    /// What the kernel's lookup answers to a client of `at`, instead of what it answered before.
    pub fn picks(mut self, at: &str, picked: Option<&Listener>) -> Self {
        value(&mut self.snapshot.sockets).lookups.retain(|lookup| lookup.endpoint != endpoint(at));
        self.also_picks(at, picked)
    }

    /// One more client of `at`, from another source port.
    pub fn also_picks(mut self, at: &str, picked: Option<&Listener>) -> Self {
        let lookups = &mut value(&mut self.snapshot.sockets).lookups;
        let source_port = 40_000 + u16::try_from(lookups.len()).unwrap();
        lookups.push(Lookup { endpoint: endpoint(at), ingress_if: 2, source_port, picked: picked.cloned() });
        self
    }

    /// Nothing listens on the port any more.
    pub fn closed(mut self, port: u16) -> Self {
        let table = value(&mut self.snapshot.sockets);
        table.listeners.retain(|row| row.port != port);
        for lookup in table.lookups.iter_mut().filter(|lookup| lookup.endpoint.port == port) {
            lookup.picked = None;
        }
        self
    }

    /// Nothing listens on the port in this family.
    pub fn closed_in(mut self, family: Family, port: u16) -> Self {
        let table = value(&mut self.snapshot.sockets);
        table.listeners.retain(|row| (row.family, row.port) != (family, port));
        let gone = |lookup: &&mut Lookup| lookup.endpoint.port == port && Family::of(lookup.endpoint.address) == family;
        table.lookups.iter_mut().filter(gone).for_each(|lookup| lookup.picked = None);
        self
    }

    /// The Envoy process is gone, and its sockets with it.
    pub fn without_envoy(self) -> Self {
        self.closed(80).closed(443).owners(|owners| {
            owners.envoys.clear();
            owners.processes.remove(&ENVOY);
        })
    }

    /// Every socket of the port has this queue, in the rows and in what lookups pick.
    pub fn queue(mut self, port: u16, length: u32) -> Self {
        let table = value(&mut self.snapshot.sockets);
        let picked = table.lookups.iter_mut().filter_map(|lookup| lookup.picked.as_mut());
        for row in table.listeners.iter_mut().chain(picked).filter(|row| row.port == port) {
            row.queue_length = length;
        }
        self
    }

    /// A frontend in Cilium's map with these backends.
    pub fn frontend(mut self, at: &str, flags: u8, backends: &[&str]) -> Self {
        let at = endpoint(at);
        self.add_row(ServiceKey::master(at.address, at.port, 6), flags, backends);
        self
    }

    /// The wildcard entry of an address, as Cilium 1.19 writes it.
    pub fn wildcard(mut self, address: &str) -> Self {
        self.add_row(ServiceKey::wildcard(address.parse().unwrap()), 0x60, &[]);
        self
    }

    /// The entry of a port at 0.0.0.0, which the wire never meets but a bind does.
    pub fn surrogate(mut self, port: u16, flags: u8) -> Self {
        self.add_row(ServiceKey::surrogate(Family::Ipv4, port, 6), flags, &[]);
        self
    }

    fn add_row(&mut self, key: ServiceKey, flags: u8, backends: &[&str]) {
        let table = match Family::of(key.address) {
            Family::Ipv4 => value(&mut self.snapshot.lb.v4),
            Family::Ipv6 => value(&mut self.snapshot.lb.v6),
        };
        let count = u16::try_from(backends.len()).unwrap();
        let master = Service { union: [0; 4], count, rev_nat: 7, flags, flags2: 0, quarantined: 0 };
        table.services.insert(key, master);
        for (slot, backend) in (1_u16..).zip(backends) {
            let to = endpoint(backend);
            let id = u32::from(slot);
            table.services.insert(key.with_slot(slot), Service { union: id.to_ne_bytes(), count: 0, ..master });
            table.backends.insert(id, Backend { address: to.address, port: to.port, protocol: 6, state: STATE_ACTIVE });
        }
    }

    /// A pod of this node in Cilium's endpoint map.
    pub fn pod(mut self, address: &str, name: &str) -> Self {
        let (namespace, name) = name.split_once('/').unwrap();
        let pod = PodName { namespace: namespace.into(), name: name.into() };
        let row = LocalEndpoint { id: 1207, host: false, pod: Some(pod) };
        value(&mut self.snapshot.lb.v4).endpoints.insert(address.parse().unwrap(), row);
        self
    }

    pub fn netfilter(mut self, at: &str, path: NetfilterPath) -> Self {
        let paths = &mut value(&mut self.snapshot.netfilter).paths;
        paths.retain(|(judged, _)| *judged != endpoint(at));
        paths.push((endpoint(at), path));
        self
    }

    /// The probe of this endpoint was answered by Envoy: 400 in clear text, a ServerHello on 443.
    pub fn answers(self, at: &str) -> Self {
        let outcome = match endpoint(at).port {
            443 => ProbeOutcome::TlsAnswered { not_after: None },
            _ => ProbeOutcome::Answered { status: 400, server: Some("envoy".into()) },
        };
        self.probed(at, outcome, by_envoy(), 0)
    }

    /// The latest probe of this endpoint, instead of the one before.
    pub fn probed(mut self, at: &str, outcome: ProbeOutcome, acceptor: Acceptor, failures: u32) -> Self {
        let results = &mut value(&mut self.snapshot.probes).results;
        results.retain(|result| result.endpoint != endpoint(at));
        results.push(ProbeResult {
            endpoint: endpoint(at),
            outcome,
            acceptor,
            at: Mono(1),
            failures,
            never_passed: false,
            server_name: (endpoint(at).port == 443).then(|| "shop.example".to_owned()),
            expect_status: Vec::new(),
            explicit: String::new(),
        });
        self
    }

    pub fn with_probe(mut self, at: &str, change: impl FnOnce(&mut ProbeResult)) -> Self {
        let results = &mut value(&mut self.snapshot.probes).results;
        change(results.iter_mut().find(|result| result.endpoint == endpoint(at)).unwrap());
        self
    }

    /// Every source that was read or tried, as of this moment.
    pub fn as_of(&self, at: Mono) -> Snapshot {
        let mut snapshot = self.snapshot.clone();
        let window = Window { begin: at, end: at };
        macro_rules! stamp {
            ($($reading:expr),+ $(,)?) => {$(
                match &mut $reading {
                    Reading::NotRead => {}
                    Reading::Observed { window: of, .. } => *of = window,
                    Reading::Unavailable(unavailable) => unavailable.window = window,
                }
            )+};
        }
        stamp!(snapshot.addresses, snapshot.sockets, snapshot.owners, snapshot.lb.v4, snapshot.lb.v6, snapshot.lb.l7);
        stamp!(snapshot.steering, snapshot.tproxy, snapshot.netfilter, snapshot.cilium_agent, snapshot.envoy, snapshot.probes);
        if let Reading::Observed { value: agent, .. } = &mut snapshot.cilium_agent {
            agent.stamp = Mono(at.0.saturating_sub(u64::try_from(self.agent_age.as_nanos()).unwrap()));
        }
        snapshot
    }
}

/// Accepted by Envoy: its mark is on the accepted end.
pub fn by_envoy() -> Acceptor {
    Acceptor::Local { inode: 9001, mark: Some(0xb00), listener: None }
}

/// The listener of Gateway `team/<name>`, clear text on 80, TLS for shop.example elsewhere.
pub fn gateway(name: &str, ports: &[u16]) -> EnvoyListener {
    let chain = |kind, names: &[&str]| FilterChain { kind, server_names: names.iter().map(|n| (*n).to_owned()).collect(), port: None };
    EnvoyListener {
        name: format!("team/cilium-gateway-{name}/listener"),
        ports: ports.to_vec(),
        active: true,
        chains: vec![chain(ChainKind::Http, &[]), chain(ChainKind::Tls, &["shop.example"])],
        ..EnvoyListener::default()
    }
}
