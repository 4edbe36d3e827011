//! All readers of one observer, and which of them a pass asks. Reads only; what the facts mean is the judge's.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use gwready_core::facts::processes::{Holders, Owners};
use gwready_core::facts::sockets::{Listener, SocketId};
use gwready_core::facts::steering::{SkLookupPrograms, TproxyRoutes};
use gwready_core::facts::{Reading, Snapshot, Why};
use gwready_core::judge::identity::serving_envoys;
use gwready_core::judge::select;
use gwready_core::lb::facts::LbFacts;
use gwready_core::lb::frontends::proxy_ports;
use gwready_core::memory::Memory;
use gwready_core::net::Endpoint;
use gwready_core::plan::ReadPlan;
use gwready_core::policy::Policy;
use gwready_core::time::Window;

use super::schedule::{Scope, Trigger};
use super::wake::Waker;
use crate::config::Config;
use crate::observe::addresses::{AddressReader, AddressWatch};
use crate::observe::cilium::{AgentReader, CiliumPaths, DropsReader, LbReader, TproxyReader, read_sk_lookup};
use crate::observe::envoy::LatestAdmin;
use crate::observe::netfilter::{NetfilterReader, wanted_connections};
use crate::observe::owners::{OwnerReader, Settings as OwnerSettings};
use crate::observe::queue_sampler::QueueSampler;
use crate::observe::sockets::SocketReader;
use crate::probe::ProbeHandle;

/// Rows of Cilium's maps that a pass may walk on the side, for L7 frontends: half a millisecond.
const WALK_ROWS: usize = 4096;
/// How long the first pass waits for netfilter's rules: without them it would call a node up that they make unreachable.
const FIRST_RULES: Duration = Duration::from_secs(2);
/// How long a pass waits for them when an endpoint is new. Changes of the rules themselves are never waited for.
const NEW_ENDPOINT: Duration = Duration::from_millis(250);

/// The readers.
pub struct Sources {
    addresses: AddressReader,
    address_watch: Option<AddressWatch>,
    sockets: SocketReader,
    owners: OwnerReader,
    lb: LbReader,
    tproxy: TproxyReader,
    cilium_agent: AgentReader,
    drops: DropsReader,
    netfilter: Option<NetfilterReader>,
    envoy: LatestAdmin,
    background: Option<Background>,
    /// The listeners whose owners were asked for last.
    asked_owners_of: HashSet<SocketId>,
    /// What netfilter's rules were last followed for: the plan, and the reading of the addresses.
    followed: Option<(ReadPlan, Window)>,
}

/// What works beside the passes, on threads without capabilities; absent where one pass is all there is.
pub struct Background {
    /// The prober's handle.
    pub probes: ProbeHandle,
    /// Samples queues that look as if they stood still.
    pub queues: QueueSampler,
}

impl Sources {
    /// Readers for this configuration; nothing is read yet. Must be called on the thread that reads: it has the capabilities
    /// and the network namespace.
    #[must_use]
    pub fn new(config: &Config, envoy: LatestAdmin, background: Option<Background>, waker: &Waker) -> Self {
        let paths = CiliumPaths { bpffs: config.cilium.bpffs.clone(), run_dir: config.cilium.run_dir.clone() };
        let owners = OwnerSettings {
            proc_root: config.host.proc.clone(),
            cgroup_root: config.host.cgroup.clone(),
            pod_logs: config.host.pod_logs.clone(),
            envoy_exe: config.envoy.exe.clone(),
            ..OwnerSettings::default()
        };
        let netfilter = spawn_netfilter(waker);
        let waker = waker.clone();
        let address_watch =
            AddressWatch::open().inspect_err(|error| tracing::warn!("address changes are seen at the next resync only: {error}")).ok();
        Self {
            addresses: AddressReader::new(),
            address_watch,
            sockets: SocketReader::new(),
            owners: OwnerReader::new(owners, std::sync::Arc::new(move || waker.wake(Trigger::Tick))),
            lb: LbReader::new(paths.clone()),
            tproxy: TproxyReader::new(),
            cilium_agent: AgentReader::new(paths.clone()),
            drops: DropsReader::new(paths),
            netfilter,
            envoy,
            background,
            asked_owners_of: HashSet::new(),
            followed: None,
        }
    }

    /// Reads what `scope` asks for into `snapshot`, and whatever was never read. Returns the plan that the socket source
    /// was read with: addresses come first, because they decide what has to be looked up.
    pub fn read(&mut self, scope: Scope, mut plan: ReadPlan, policy: &Policy, memory: &Memory, snapshot: &mut Snapshot) -> ReadPlan {
        snapshot.envoy = (*self.envoy.get()).clone();
        if let Some(background) = &self.background {
            snapshot.probes = (*background.probes.table()).clone();
            snapshot.queues = background.queues.take();
        }
        if scope.addresses || snapshot.addresses.window().is_none() {
            snapshot.addresses = self.addresses.read();
            self.read_hosts(snapshot);
            plan = select::plan(policy, snapshot, memory);
        }
        if scope.lb || snapshot.lb.v4.window().is_none() {
            snapshot.lb = self.lb.read(&plan);
            snapshot.cilium_agent = self.cilium_agent.read();
        }
        let path = scope.addresses || tproxy_is_due(snapshot, scope.sockets);
        if path {
            let frontends = snapshot.lb.l7.value().cloned().unwrap_or_default();
            snapshot.tproxy = self.tproxy.read(&plan, &frontends);
        }
        if scope.sockets || snapshot.sockets.window().is_none() {
            let steering = read_sk_lookup();
            let whole = scope.rows || may_be_steered(&steering);
            snapshot.steering = steering;
            snapshot.sockets = if whole { self.sockets.read(&plan) } else { self.sockets.read_steady(&plan) };
        }
        let owners = scope.owners || path || snapshot.owners.window().is_none();
        if owners || scope.sockets {
            let listeners = listeners(snapshot);
            if owners || !self.are_owned(&listeners, snapshot) {
                snapshot.owners = self.owners.read(&listeners);
                self.asked_owners_of = listeners.iter().map(|listener| listener.id).collect();
            }
        }
        self.take_netfilter(&plan, snapshot);
        plan
    }

    /// The last reading of owners knows somebody for each of these listeners.
    fn are_owned(&self, listeners: &[Listener], snapshot: &Snapshot) -> bool {
        let known = |owners: &Owners, id: SocketId| {
            self.asked_owners_of.contains(&id) && matches!(owners.holders.get(&id.inode), Some(Holders::Known { .. }))
        };
        snapshot.owners.value().is_some_and(|owners| listeners.iter().all(|listener| known(owners, listener.id)))
    }

    /// Netfilter's latest answer, for these endpoints.
    fn take_netfilter(&mut self, plan: &ReadPlan, snapshot: &mut Snapshot) {
        let Some(reader) = &self.netfilter else { return };
        if let Reading::Observed { value: table, window } = &snapshot.addresses
            && self.followed.as_ref().is_none_or(|(followed, read)| (followed, read) != (plan, window))
        {
            self.followed = Some((plan.clone(), *window));
            let patience = if snapshot.netfilter.window().is_none() { FIRST_RULES } else { NEW_ENDPOINT };
            reader.want(wanted_connections(plan, table), patience);
        }
        snapshot.netfilter = reader.latest();
    }

    /// Which local addresses Cilium calls its own: that decides about links without a default route, so it precedes the plan.
    fn read_hosts(&mut self, snapshot: &mut Snapshot) {
        let local = snapshot.addresses.value().into_iter().flat_map(|table| table.addresses.iter().map(|address| address.ip));
        snapshot.lb.hosts = self.lb.read_hosts(local);
    }

    /// As [`Sources::read`] of everything, with every row of the load-balancer maps: for snapshot files.
    pub fn read_whole(&mut self, policy: &Policy, memory: &Memory, snapshot: &mut Snapshot) {
        self.read(Trigger::Netlink.scope(), ReadPlan::default(), policy, memory, snapshot);
        // What the first read found (families, ports) may plan more than it knew to ask for.
        let plan = select::plan(policy, snapshot, memory);
        self.read(Trigger::Tick.scope(), plan.clone(), policy, memory, snapshot);
        snapshot.lb = self.lb.read_whole(&plan);
    }

    /// Sockets and owners once more, after something was learnt about the owners.
    pub fn read_sockets(&mut self, policy: &Policy, memory: &Memory, snapshot: &mut Snapshot) {
        let plan = select::plan(policy, snapshot, memory);
        snapshot.sockets = self.sockets.read(&plan);
        snapshot.owners = self.owners.read(&listeners(snapshot));
    }

    /// These processes began to listen.
    pub fn note_openers(&mut self, pids: BTreeSet<u32>) {
        self.owners.note_openers(pids);
    }

    /// A search for owners is under way; a wake-up follows.
    #[must_use]
    pub fn searching(&self) -> bool {
        self.owners.searching()
    }

    /// No Envoy was found by now, and a further look may still find one or prove that there is none.
    #[must_use]
    pub const fn half_searched(&self) -> bool {
        self.owners.half_searched()
    }

    /// Takes this long within a read for naming new processes while there is no Envoy: for a look without a daemon.
    pub const fn take_time(&mut self, scan_time: Duration) {
        self.owners.take_time(scan_time);
    }

    /// Carries on with what is too long for a pass. Call it after publishing.
    pub fn walk_on(&mut self) {
        self.lb.walk(WALK_ROWS);
    }

    /// Packets dropped by Cilium's datapath since boot, by reason, where they can be read.
    #[must_use]
    pub fn datapath_drops(&mut self) -> BTreeMap<String, u64> {
        self.drops.read().value().map(|drops| drops.packets.clone()).unwrap_or_default()
    }

    /// Readable when addresses, links, routes or rules changed.
    #[must_use]
    pub fn notifications(&self) -> Option<BorrowedFd<'_>> {
        self.address_watch.as_ref().map(AsFd::as_fd)
    }

    /// Takes the notifications that wait; true if something that is read by notification has changed.
    pub fn take_notifications(&mut self) -> bool {
        let changes = self.address_watch.as_mut().map(AddressWatch::drain).unwrap_or_default();
        changes.addresses || changes.rules || changes.overflow
    }

    /// The load-balancer maps alone.
    pub fn read_lb(&mut self, plan: &ReadPlan) -> LbFacts {
        self.lb.read(plan)
    }

    /// The owners of the listeners and the Envoys.
    #[must_use]
    pub fn owner_pids(snapshot: &Snapshot) -> BTreeSet<u32> {
        let Some(owners) = snapshot.owners.value() else { return BTreeSet::new() };
        let holders = owners.holders.values().flat_map(|holders| match holders {
            Holders::Known { pids, .. } => pids.as_slice(),
            Holders::Unknown(_) | Holders::Searching(_) => &[],
        });
        holders.copied().chain(owners.own_envoys()).collect()
    }

    /// The Envoys whose end is the end of the gateway.
    #[must_use]
    pub fn envoy_pids(policy: &Policy, snapshot: &Snapshot) -> BTreeSet<u32> {
        serving_envoys(policy, snapshot)
    }

    /// These processes and their ancestors up to the container's init: whose signals matter.
    #[must_use]
    pub fn with_ancestors(&self, pids: &BTreeSet<u32>) -> BTreeSet<u32> {
        pids.iter().flat_map(|pid| self.owners.ancestors(*pid)).chain(pids.iter().copied()).collect()
    }

    /// Tells what works beside the passes what to look at.
    pub fn instruct(&self, memory: &Memory) {
        if let Some(background) = &self.background {
            let endpoints: Vec<Endpoint> = memory.plan.endpoints().map(|(endpoint, _)| endpoint).collect();
            background.probes.set_endpoints(&endpoints);
            background.queues.watch(&memory.plan.ports, memory.queues.suspects());
        }
    }
}

/// The thread that follows netfilter's rules; without it they are not read, which is said once.
fn spawn_netfilter(waker: &Waker) -> Option<NetfilterReader> {
    let waker = waker.clone();
    NetfilterReader::spawn(std::sync::Arc::new(move || waker.wake(Trigger::Netfilter)))
        .inspect_err(|error| tracing::warn!("netfilter's rules are not read: {error}"))
        .ok()
}

/// Whether the TPROXY path must be read although no rule or route changed: never read, a proxy port in use was not looked up, or
/// its listener may have changed since (no event tells of listeners of ports that are not expected ones).
fn tproxy_is_due(snapshot: &Snapshot, sockets: bool) -> bool {
    let in_use = snapshot.lb.l7.value().map(|frontends| proxy_ports(frontends)).unwrap_or_default();
    let unasked = |path: &TproxyRoutes| in_use.iter().any(|&(family, port)| path.proxy(family, port).is_none());
    let never = snapshot.tproxy.window().is_none();
    never || (sockets && !in_use.is_empty()) || snapshot.tproxy.value().is_some_and(unasked)
}

/// A program on the sk_lookup hook may treat each client in its own way: no small set of questions watches that.
fn may_be_steered(programs: &Reading<SkLookupPrograms>) -> bool {
    match programs {
        Reading::Observed { value, .. } => !value.ids.is_empty(),
        Reading::Unavailable(unavailable) => unavailable.why != Why::Absent,
        Reading::NotRead => true,
    }
}

/// Every socket of the table: LISTEN rows, whatever the lookups picked (an sk_lookup program may pick a socket of another
/// port), and the listeners of the proxy ports.
fn listeners(snapshot: &Snapshot) -> Vec<Listener> {
    let table = snapshot.sockets.value();
    let rows = table.into_iter().flat_map(|t| t.listeners.iter().chain(t.lookups.iter().filter_map(|l| l.picked.as_ref())));
    let proxies = snapshot.tproxy.value().into_iter().flat_map(|t| t.proxies.iter().filter_map(|proxy| proxy.picked.as_ref()));
    rows.chain(proxies).cloned().collect()
}
