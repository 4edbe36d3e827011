//! `mode: load-balancer`: clients connect to L7 frontends of Cilium's load balancer and are handed to Envoy's proxy port by
//! TPROXY. The judges of sockets then ask the same questions about the listener of that port.

use std::collections::BTreeSet;

use crate::facts::sockets::{Lookup, SocketTable};
use crate::facts::{Reading, Snapshot};
use crate::lb::frontends::{L7Frontend, load_balancer_endpoints};
use crate::net::{Endpoint, Family};
use crate::plan::{JudgedAddress, ReadPlan};

/// Addresses of the L7 frontends of the expected ports, ascending, each with the interface on which clients are expected;
/// none while the frontends could not be read.
#[must_use]
pub fn frontend_addresses(snapshot: &Snapshot, ports: &[u16]) -> Option<Vec<JudgedAddress>> {
    let frontends = snapshot.lb.l7.value()?;
    let routes = snapshot.addresses.value().map(|table| table.default_routes.as_slice()).unwrap_or_default();
    let ips: BTreeSet<_> = load_balancer_endpoints(frontends, ports).into_iter().map(|endpoint| endpoint.address).collect();
    let ingress = |family| routes.iter().find(|route| route.family == family).or_else(|| routes.first()).map_or(0, |route| route.ifindex);
    Some(ips.into_iter().map(|ip| JudgedAddress { ip, ingress_if: ingress(Family::of(ip)) }).collect())
}

/// The snapshot with, for every planned endpoint, the listener of its proxy port in place of what the kernel would pick for
/// the frontend's own address: no socket of this node has that address.
#[must_use]
pub fn through_proxy_ports(snapshot: &Snapshot, plan: &ReadPlan) -> Snapshot {
    let mut proxied = snapshot.clone();
    let Reading::Observed { value: table, .. } = &mut proxied.sockets else { return proxied };
    *table = SocketTable::default();
    let (Some(frontends), Some(tproxy)) = (snapshot.lb.l7.value(), snapshot.tproxy.value()) else { return proxied };
    for (endpoint, ingress_if) in plan.endpoints() {
        let Some(port) = proxy_port(frontends, endpoint) else { continue };
        let Some(found) = tproxy.proxy(Family::of(endpoint.address), port) else { continue };
        table.listeners.extend(found.picked.clone());
        table.lookups.push(Lookup { endpoint, ingress_if, source_port: 0, picked: found.picked.clone() });
    }
    table.listeners.sort_by_key(|row| row.id);
    table.listeners.dedup_by_key(|row| row.id);
    proxied
}

fn proxy_port(frontends: &[L7Frontend], endpoint: Endpoint) -> Option<u16> {
    frontends.iter().find(|frontend| frontend.endpoint == endpoint).map(|frontend| frontend.proxy_port)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, endpoint, listener, observed};
    use super::super::{findings, judge};
    use super::*;
    use crate::condition::{ConditionType, Status};
    use crate::facts::steering::{ProxyLookup, TproxyRoutes};
    use crate::memory::Memory;
    use crate::policy::{Choice, Mode, Policy};
    use crate::reason::Reason;
    use crate::time::{Mono, Now};
    use crate::verdict::State;

    const VIP: &str = "10.96.50.200:80";

    fn policy() -> Policy {
        Policy { mode: Mode::LoadBalancer, ports: Choice::Only(vec![80]), probe_enabled: false, ..Policy::default() }
    }

    /// A gateway behind a load-balancer address: proxy port 12345 on loopback, Envoy's or nobody's.
    fn scene(served: bool) -> Scene {
        let row = listener(5, "127.0.0.1:12345");
        let mut scene = Scene::new(&["10.0.0.11"]).process(100, "cilium-envoy").listens(&row, &[100]).picks(VIP, None);
        let frontend = L7Frontend { endpoint: endpoint(VIP), proxy_port: 12345, routable: true, load_balancer: true };
        scene.snapshot.lb.l7 = observed(vec![frontend]);
        let picked = served.then_some(row);
        scene.snapshot.tproxy = observed(TproxyRoutes {
            rule: vec![Family::Ipv4],
            route: vec![Family::Ipv4],
            proxies: vec![ProxyLookup { family: Family::Ipv4, port: 12345, picked }],
        });
        scene
    }

    fn verdict(snapshot: &Snapshot, memory: &Memory) -> crate::judge::Judgement {
        judge(&policy(), snapshot, memory, Now { mono: Mono(1_000_000_000), unix_ms: 1 })
    }

    #[test]
    fn the_fronts_are_the_frontends_and_the_sockets_those_of_the_proxy_port() {
        let verdict = verdict(&scene(true).snapshot, &Memory::default()).verdict;
        let judged: Vec<String> = verdict.addresses.iter().map(|a| a.address.to_string()).collect();
        assert_eq!(judged, ["10.96.50.200"]);
        let listening = verdict.conditions.iter().find(|c| c.kind == ConditionType::Listening).unwrap();
        let owned = verdict.conditions.iter().find(|c| c.kind == ConditionType::OwnedByEnvoy).unwrap();
        assert_eq!((listening.status, owned.status), (Status::True, Status::True), "{:#?}", verdict.conditions);
    }

    #[test]
    fn a_proxy_port_without_a_listener_is_down_and_the_path_is_required() {
        let verdict = verdict(&scene(false).snapshot, &Memory::default()).verdict;
        assert_eq!(verdict.node.state, State::Down);
        let path = verdict.conditions.iter().find(|c| c.kind == ConditionType::TproxyPath).unwrap();
        assert_eq!(path.reason, Some(Reason::ProxyPortClosed));
    }

    #[test]
    fn losing_the_frontends_keeps_the_fronts() {
        let known = verdict(&scene(true).snapshot, &Memory::default()).memory;
        let mut lost = scene(true).snapshot;
        lost.lb.l7 = super::super::testing::lost(crate::facts::Why::Permission);
        assert_eq!(verdict(&lost, &known).memory.plan.addresses, known.plan.addresses);
        let plan = ReadPlan { addresses: known.plan.addresses.clone(), ports: vec![80], families: vec![Family::Ipv4] };
        let now = Now { mono: Mono(1), unix_ms: 1 };
        let found = findings(&policy(), &lost, &known, &plan, now);
        let listening = found.endpoints[0].1.iter().find(|f| f.kind == ConditionType::Listening).unwrap();
        assert_eq!(listening.status, Status::Unknown, "no proof without the frontends");
    }
}
