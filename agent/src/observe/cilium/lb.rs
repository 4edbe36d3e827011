//! The load-balancer source of a pass: both families' tables, names of local backends, and the L7 frontends.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use aya::maps::{HashMap, MapData, MapError};
use gwready_core::facts::{Reading, Unavailable, Why};
use gwready_core::lb::facts::{LbFacts, LbTable};
use gwready_core::lb::frontends::{L7Frontend, l7_frontend};
use gwready_core::lb::layout;
use gwready_core::lb::local::{LocalEndpoint, encode_key};
use gwready_core::lb::service::Service;
use gwready_core::net::{Endpoint, Family};
use gwready_core::plan::ReadPlan;
use gwready_core::time::{Mono, Window};

use super::error::io_error;
use super::family::{FamilyMaps, Layouts, V4, V6};
use super::pin::{Pin, globals};
use super::pods::PodNames;
use super::walk::Walk;
use super::{CiliumPaths, PinError};
use crate::clock;

/// Shortest and longest pause between two walks for L7 frontends. A new one on a judged endpoint is seen at once, by its direct lookup.
const WALK_PAUSE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));
/// A pause lasts this many times what the walk took: large maps are walked less often, for 0.05 % of one core at most.
const WALK_REST: u32 = 2000;

type Endpoints = HashMap<MapData, [u8; 20], [u8; 48]>;

/// Reads the load-balancer maps. Blocking; keeps descriptors, never values.
pub struct LbReader {
    paths: CiliumPaths,
    v4: FamilyMaps<V4>,
    v6: FamilyMaps<V6>,
    endpoints: Pin<Endpoints>,
    pods: PodNames,
    seen: BTreeSet<Family>,
    hosts: BTreeSet<IpAddr>,
    walk4: FrontendWalk<V4>,
    walk6: FrontendWalk<V6>,
    walked: Option<Mono>,
    /// What the last walk, or the part of one so far, took.
    walk_cost: Duration,
}

impl LbReader {
    /// A reader; nothing is opened yet.
    #[must_use]
    pub fn new(paths: CiliumPaths) -> Self {
        Self {
            paths,
            v4: FamilyMaps::new(),
            v6: FamilyMaps::new(),
            endpoints: Pin::new(layout::ENDPOINTS, HashMap::try_from),
            pods: PodNames::default(),
            seen: BTreeSet::new(),
            hosts: BTreeSet::new(),
            walk4: FrontendWalk::default(),
            walk6: FrontendWalk::default(),
            walked: None,
            walk_cost: Duration::ZERO,
        }
    }

    /// The rows that bear on the plan, by direct lookups; what a pass and `lb_poll` read. The first call also walks the services maps
    /// once, for L7 frontends; later walks are [`LbReader::walk`]'s.
    pub fn read(&mut self, plan: &ReadPlan) -> LbFacts {
        if self.walked.is_none() {
            self.walk(usize::MAX);
        }
        let v4 = self.read_family::<V4>(plan, |reader| &mut reader.v4);
        let v6 = self.read_family::<V6>(plan, |reader| &mut reader.v6);
        let l7 = self.l7_frontends(&v4, &v6);
        LbFacts { v4, v6, seen: self.seen.clone(), hosts: self.hosts.clone(), l7 }
    }

    /// Which of these local addresses Cilium lists as the node's own; every later [`LbReader::read`] hands them out as `hosts`. Call it when
    /// the addresses changed and on resync, before the plan is made. While `cilium_lxc` can't be read the last answer stands.
    pub fn read_hosts(&mut self, addresses: impl IntoIterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
        let found = globals(&self.paths).and_then(|globals| lookup_endpoints(&mut self.endpoints, &globals, addresses));
        if let Ok(found) = found {
            self.hosts = found.into_iter().filter_map(|(address, endpoint)| endpoint.host.then_some(address)).collect();
        }
        self.hosts.clone()
    }

    /// Carries on the walk for L7 frontends for about `budget` rows, where one is due. Apart from the pass, because its cost grows with
    /// the maps: call it after publishing, e.g. with 4096 rows (half a millisecond) per tick. True when a walk has ended.
    pub fn walk(&mut self, budget: usize) -> bool {
        let now = clock::mono();
        let pause = self.walk_cost.saturating_mul(WALK_REST).clamp(WALK_PAUSE.0, WALK_PAUSE.1);
        if self.walked.is_some_and(|walked| now.since(walked) < pause) {
            return false;
        }
        if self.walk4.over && self.walk6.over {
            self.walk_cost = Duration::ZERO;
        }
        let over = match globals(&self.paths) {
            Ok(globals) => {
                let four = self.walk4.step(&globals, &mut self.v4, budget);
                let six = self.walk6.step(&globals, &mut self.v6, budget);
                four && six
            }
            Err(error) => {
                self.walk4.found = Err(error.unavailable(Window { begin: now, end: now }));
                self.walk6.found = self.walk4.found.clone();
                true
            }
        };
        let end = clock::mono();
        self.walk_cost += end.since(now);
        if over {
            self.walked = Some(end);
        }
        over
    }

    /// As [`LbReader::read`], with every row of every map: for the snapshot command. Costs some 10 ms per 60,000 rows.
    pub fn read_whole(&mut self, plan: &ReadPlan) -> LbFacts {
        let mut facts = self.read(plan);
        if let (Ok(globals), Reading::Observed { value, .. }) = (globals(&self.paths), &mut facts.v4) {
            add_all(&globals, &mut self.v4, value);
        }
        if let (Ok(globals), Reading::Observed { value, .. }) = (globals(&self.paths), &mut facts.v6) {
            add_all(&globals, &mut self.v6, value);
        }
        facts
    }

    fn read_family<F: Layouts>(&mut self, plan: &ReadPlan, maps: fn(&mut Self) -> &mut FamilyMaps<F>) -> Reading<LbTable> {
        let begin = clock::mono();
        let endpoints: BTreeSet<Endpoint> =
            plan.endpoints().map(|(endpoint, _)| endpoint).filter(|endpoint| is_of(endpoint.address, F::FAMILY)).collect();
        let result = globals(&self.paths).and_then(|globals| {
            let mut table = maps(self).read(&globals, endpoints, &plan.ports)?;
            self.add_endpoints(&globals, &mut table);
            Ok(table)
        });
        let window = Window { begin, end: clock::mono() };
        match result {
            Ok(value) => {
                self.seen.insert(F::FAMILY);
                Reading::Observed { value, window }
            }
            Err(error) => Reading::Unavailable(error.unavailable(window)),
        }
    }

    /// Which backends are local, and who they are. Without `cilium_lxc` the table says so: thefts are still seen, without names.
    fn add_endpoints(&mut self, globals: &Path, table: &mut LbTable) {
        let addresses: BTreeSet<IpAddr> = table.backends.values().map(|backend| backend.address).collect();
        if addresses.is_empty() {
            return;
        }
        let found = lookup_endpoints(&mut self.endpoints, globals, addresses);
        match found {
            Ok(found) => {
                for (address, mut endpoint) in found {
                    if !endpoint.host {
                        endpoint.pod = self.pods.read(&self.paths.run_dir, endpoint.id);
                    }
                    table.endpoints.insert(address, endpoint);
                }
            }
            Err(error) => table.endpoints_missing = Some(error.to_string()),
        }
    }

    /// The last walk's frontends, with those of the judged endpoints as they are now.
    fn l7_frontends(&self, v4: &Reading<LbTable>, v6: &Reading<LbTable>) -> Reading<Vec<L7Frontend>> {
        let at = self.walked.unwrap_or_default();
        let mut all = BTreeSet::new();
        let mut absent = None;
        for (walk, table) in [(&self.walk4.found, v4), (&self.walk6.found, v6)] {
            match walk {
                Ok(found) => all.extend(found.iter().copied()),
                Err(unavailable) if unavailable.why == Why::Absent && absent.is_none() => absent = Some(unavailable),
                Err(unavailable) => return Reading::Unavailable(unavailable.clone()),
            }
            if let Some(table) = table.value() {
                all.retain(|frontend| !table.asked.contains(&frontend.endpoint));
                let now = table.services.iter().filter_map(|(key, row)| l7_frontend(key, row));
                all.extend(now.filter(|frontend| table.asked.contains(&frontend.endpoint)));
            }
        }
        Reading::Observed { value: all.into_iter().collect(), window: Window { begin: at, end: at } }
    }
}

/// The rows of `cilium_lxc` for these addresses.
fn lookup_endpoints(
    pin: &mut Pin<Endpoints>,
    globals: &Path,
    addresses: impl IntoIterator<Item = IpAddr>,
) -> Result<Vec<(IpAddr, LocalEndpoint)>, PinError> {
    let map = pin.map(globals)?;
    let mut found = Vec::new();
    for address in addresses {
        match map.get(&encode_key(address), 0) {
            Ok(value) => found.push((address, LocalEndpoint::decode(&value))),
            Err(MapError::KeyNotFound) => {}
            Err(error) => return Err(pin.failed(io_error(error))),
        }
    }
    Ok(found)
}

fn is_of(address: IpAddr, family: Family) -> bool {
    Family::of(address) == family
}

/// One family's walk for L7 frontends.
struct FrontendWalk<F: Layouts> {
    walk: Option<Walk<F::ServiceKey, [u8; 12]>>,
    /// Which pin is being walked: a recreated map is begun anew.
    identity: Option<(u64, u64)>,
    collected: Vec<L7Frontend>,
    /// Result of the last walk that ended.
    found: Result<Vec<L7Frontend>, Unavailable>,
    over: bool,
}

impl<F: Layouts> Default for FrontendWalk<F> {
    fn default() -> Self {
        Self { walk: None, identity: None, collected: Vec::new(), found: Ok(Vec::new()), over: true }
    }
}

impl<F: Layouts> FrontendWalk<F>
where
    F::ServiceKey: Default,
{
    /// True when this family's walk is over.
    fn step(&mut self, globals: &Path, maps: &mut FamilyMaps<F>, budget: usize) -> bool {
        if self.over {
            *self = Self { found: std::mem::replace(&mut self.found, Ok(Vec::new())), over: false, ..Self::default() };
        }
        match self.carry_on(globals, maps, budget) {
            Ok(false) => false,
            Ok(true) => {
                self.over = true;
                self.found = Ok(std::mem::take(&mut self.collected));
                true
            }
            Err(error) => {
                let now = clock::mono();
                self.over = true;
                self.found = Err(error.unavailable(Window { begin: now, end: now }));
                true
            }
        }
    }

    fn carry_on(&mut self, globals: &Path, maps: &mut FamilyMaps<F>, budget: usize) -> Result<bool, PinError> {
        let (fd, identity) = maps.services.fd(globals)?;
        if self.identity != Some(identity) {
            self.identity = Some(identity);
            self.walk = None;
            self.collected.clear();
        }
        let collected = &mut self.collected;
        let walk = self.walk.get_or_insert_with(Walk::default);
        let result = walk.step(fd, budget, |key, value| collected.extend(l7_frontend(&F::decode_key(key), &Service::decode(value))));
        result.map_err(|source| maps.services.failed(source))
    }
}

/// Adds every service and backend; a failure leaves what the direct lookups found, which is complete for the plan.
fn add_all<F: Layouts>(globals: &Path, maps: &mut FamilyMaps<F>, table: &mut LbTable)
where
    F::ServiceKey: Default,
    F::BackendValue: Default,
{
    if let Ok((fd, _)) = maps.services.fd(globals) {
        let add = |key: &F::ServiceKey, value: &[u8; 12]| table.services.extend([(F::decode_key(key), Service::decode(value))]);
        drop(Walk::whole(fd, add));
    }
    if let Ok((fd, _)) = maps.backends.fd(globals) {
        let add = |id: &u32, value: &F::BackendValue| table.backends.extend([(*id, F::decode_backend(value))]);
        drop(Walk::whole(fd, add));
    }
}
