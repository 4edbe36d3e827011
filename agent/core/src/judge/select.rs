//! Which addresses, families and ports are judged: the plan of a pass.
//!
//! An address that balancers never send to must not take the node down, and one that they do send to must not be
//! forgotten because a source failed: without a reading the last plan stays.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::facts::addresses::{AddressTable, Link, LocalAddress, Scope};
use crate::facts::{Snapshot, Why};
use crate::memory::Memory;
use crate::net::Family;
use crate::plan::{JudgedAddress, ReadPlan};
use crate::policy::{AddressMatch, Choice, Mode, Policy};

use super::ports::expected_ports;
use super::proxied::frontend_addresses;

/// Links that never carry clients of the gateway, whatever routes they have: bridges and tunnels of container runtimes
/// and CNIs, node-local DNS, IPVS' holder of service addresses. By prefix of the name.
const INTERNAL_LINKS: [&str; 14] = [
    "docker",
    "podman",
    "cni",
    "nodelocaldns",
    "kube-ipvs",
    "cilium_",
    "lxc",
    "flannel",
    "cali",
    "tunl",
    "vxlan",
    "weave",
    "virbr",
    "veth",
];

/// Plans a pass from the latest facts. Pure; what it does not find in the facts it keeps from the last plan.
#[must_use]
pub fn plan(policy: &Policy, snapshot: &Snapshot, memory: &Memory) -> ReadPlan {
    let remembered: Vec<u16> = memory.ports_seen.keys().copied().collect();
    let ports = expected_ports(policy, snapshot, &remembered);
    let found = match policy.mode {
        Mode::HostNetwork => snapshot.addresses.value().map(|table| judged_addresses(policy, table, &snapshot.lb.hosts)),
        Mode::LoadBalancer => frontend_addresses(snapshot, &ports),
    };
    let all = found.unwrap_or_else(|| memory.plan.addresses.clone());
    let families = families_in_use(policy, snapshot, memory, &all);
    let addresses = all.into_iter().filter(|judged| families.contains(&Family::of(judged.ip))).collect();
    ReadPlan { addresses, ports, families }
}

/// Judged addresses of both families, ascending, each with the interface on which its clients are expected.
#[must_use]
pub fn judged_addresses(policy: &Policy, table: &AddressTable, cilium_hosts: &BTreeSet<IpAddr>) -> Vec<JudgedAddress> {
    let mut judged: Vec<JudgedAddress> = table
        .addresses
        .iter()
        .filter_map(|address| {
            let link = table.link(address.ifindex)?;
            is_judged(policy, table, address, link, cilium_hosts)
                .then(|| JudgedAddress { ip: address.ip.to_canonical(), ingress_if: ingress(table, link, address.ip) })
        })
        .collect();
    judged.sort_by_key(|a| a.ip);
    judged.dedup_by_key(|a| a.ip);
    judged
}

fn is_judged(policy: &Policy, table: &AddressTable, address: &LocalAddress, link: &Link, cilium_hosts: &BTreeSet<IpAddr>) -> bool {
    if address.tentative || address.deprecated || is_link_local(address.ip) {
        return false;
    }
    let named = |entry: &AddressMatch| match entry {
        AddressMatch::Net(net) => net.contains(&address.ip),
        AddressMatch::Interface(name) => *name == link.name,
    };
    if policy.exclude.iter().any(named) {
        return false;
    }
    if policy.include.iter().any(named) {
        return true;
    }
    if !matches!(address.scope, Scope::Global | Scope::Site) || address.ip.is_loopback() {
        return false;
    }
    if link.loopback {
        return true;
    }
    !is_internal(link) && (carries_default_route(table, link) || is_cilium_device(table, link, cilium_hosts))
}

/// The name says that no client comes in here.
fn is_internal(link: &Link) -> bool {
    INTERNAL_LINKS.iter().any(|prefix| link.name.starts_with(prefix))
}

fn carries_default_route(table: &AddressTable, link: &Link) -> bool {
    table.default_routes.iter().any(|route| route.ifindex == link.ifindex)
}

/// Cilium lists one of the link's addresses as the host's (`cilium_lxc`, flag host): its datapath works on that device.
fn is_cilium_device(table: &AddressTable, link: &Link, cilium_hosts: &BTreeSet<IpAddr>) -> bool {
    table.addresses.iter().any(|a| a.ifindex == link.ifindex && cilium_hosts.contains(&a.ip))
}

/// 169.254/16 and fe80::/10, whatever scope the kernel reports (node-local DNS sits on 169.254.20.10, scope global).
fn is_link_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Clients of an address on lo come in over a link with a default route: of its family if there is one.
fn ingress(table: &AddressTable, link: &Link, ip: IpAddr) -> u32 {
    if !link.loopback {
        return link.ifindex;
    }
    let family = Family::of(ip);
    table
        .default_routes
        .iter()
        .find(|route| route.family == family)
        .or_else(|| table.default_routes.first())
        .map_or(link.ifindex, |route| route.ifindex)
}

/// A family is in use if the node has a judged address of it and Cilium serves it: its LB map exists, or a gateway
/// listener of it has been seen. Nothing known of either family: both, so that a node without any listener is down.
fn families_in_use(policy: &Policy, snapshot: &Snapshot, memory: &Memory, addresses: &[JudgedAddress]) -> Vec<Family> {
    let present = |family: &Family| addresses.iter().any(|judged| Family::of(judged.ip) == *family);
    let wanted: Vec<Family> = match &policy.families {
        Choice::Only(families) => families.clone(),
        Choice::Auto => {
            let served = |family: &Family| memory.families_seen.contains(family) || has_lb_map(snapshot, memory, *family);
            let served: Vec<Family> = Family::ALL.into_iter().filter(served).collect();
            if served.is_empty() { Family::ALL.to_vec() } else { served }
        }
    };
    Family::ALL.into_iter().filter(|family| wanted.contains(family) && present(family)).collect()
}

/// The LB map of the family exists: it was read, or it is there in a layout that can't be read. A refused or failed read
/// proves nothing either way: what was planned before stays planned, so that losing a source can't hide a fault.
fn has_lb_map(snapshot: &Snapshot, memory: &Memory, family: Family) -> bool {
    let reading = match family {
        Family::Ipv4 => &snapshot.lb.v4,
        Family::Ipv6 => &snapshot.lb.v6,
    };
    match reading.unavailable().map(|unavailable| unavailable.why) {
        None => reading.value().is_some(),
        Some(Why::Absent) => false,
        Some(Why::Layout) => true,
        Some(_) => memory.plan.families.contains(&family),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Reading;
    use crate::facts::addresses::DefaultRoute;
    use crate::lb::facts::{LbFacts, LbTable};
    use crate::time::Window;

    fn link(ifindex: u32, name: &str) -> Link {
        Link { ifindex, name: name.to_owned(), loopback: name == "lo", up: true, master: None }
    }

    fn address(ip: &str, ifindex: u32) -> LocalAddress {
        let ip: IpAddr = ip.parse().unwrap();
        let scope = if ip.is_loopback() { Scope::Host } else { Scope::Global };
        LocalAddress { ip, ifindex, scope, tentative: false, deprecated: false }
    }

    fn table(addresses: Vec<LocalAddress>) -> AddressTable {
        AddressTable {
            addresses,
            links: vec![link(1, "lo"), link(2, "eth0"), link(3, "docker0"), link(4, "eth1"), link(5, "cilium_host")],
            default_routes: vec![DefaultRoute { family: Family::Ipv4, ifindex: 2 }],
        }
    }

    fn ips(policy: &Policy, table: &AddressTable, hosts: &[&str]) -> Vec<String> {
        let hosts: BTreeSet<IpAddr> = hosts.iter().map(|h| h.parse().unwrap()).collect();
        judged_addresses(policy, table, &hosts).iter().map(|j| j.ip.to_string()).collect()
    }

    #[test]
    fn addresses_of_default_route_links_and_of_lo_are_judged_others_not() {
        let table = table(vec![
            address("127.0.0.1", 1),
            address("10.0.0.100", 1),
            address("10.0.0.11", 2),
            address("fd00::11", 2),
            address("172.17.0.1", 3),
            address("192.168.5.1", 4),
            address("10.42.0.1", 5),
        ]);
        assert_eq!(ips(&Policy::default(), &table, &[]), ["10.0.0.11", "10.0.0.100", "fd00::11"]);
    }

    #[test]
    fn a_second_link_is_judged_when_cilium_lists_its_address_but_cilium_host_never() {
        let table = table(vec![address("192.168.5.1", 4), address("10.42.0.1", 5)]);
        assert_eq!(ips(&Policy::default(), &table, &["192.168.5.1", "10.42.0.1"]), ["192.168.5.1"]);
    }

    #[test]
    fn link_local_tentative_and_deprecated_are_never_judged_even_if_included() {
        let mut rows = vec![address("169.254.20.10", 1), address("fe80::1", 2), address("10.0.0.5", 2), address("10.0.0.6", 2)];
        rows[2].tentative = true;
        rows[3].deprecated = true;
        let policy =
            Policy { include: vec![AddressMatch::Interface("lo".into()), AddressMatch::Interface("eth0".into())], ..Policy::default() };
        assert!(ips(&policy, &table(rows), &[]).is_empty());
    }

    #[test]
    fn include_adds_and_exclude_wins() {
        let table = table(vec![address("192.168.5.1", 4), address("192.168.5.2", 4), address("10.0.0.11", 2)]);
        let policy = Policy {
            include: vec![AddressMatch::Interface("eth1".into())],
            exclude: vec![AddressMatch::Net("192.168.5.2/32".parse().unwrap())],
            ..Policy::default()
        };
        assert_eq!(ips(&policy, &table, &[]), ["10.0.0.11", "192.168.5.1"]);
    }

    #[test]
    fn clients_of_an_address_on_lo_come_in_over_the_default_route() {
        let table = table(vec![address("10.0.0.100", 1)]);
        assert_eq!(judged_addresses(&Policy::default(), &table, &BTreeSet::new())[0].ingress_if, 2);
    }

    fn snapshot(rows: &[&str]) -> Snapshot {
        let rows = rows.iter().map(|ip| address(ip, 2)).collect();
        Snapshot { addresses: Reading::Observed { value: table(rows), window: Window::default() }, ..Snapshot::default() }
    }

    #[test]
    fn a_v4_cluster_on_dual_stack_nodes_is_not_judged_by_v6() {
        let mut snapshot = snapshot(&["10.0.0.11", "fd00::11"]);
        snapshot.lb = LbFacts { v4: Reading::Observed { value: LbTable::default(), window: Window::default() }, ..LbFacts::default() };
        assert_eq!(plan(&Policy::default(), &snapshot, &Memory::default()).families, [Family::Ipv4]);
        let memory = Memory { families_seen: [Family::Ipv6].into(), ..Memory::default() };
        assert_eq!(plan(&Policy::default(), &snapshot, &memory).families, Family::ALL);
    }

    #[test]
    fn nothing_known_of_either_family_judges_both() {
        assert_eq!(plan(&Policy::default(), &snapshot(&["10.0.0.11", "fd00::11"]), &Memory::default()).families, Family::ALL);
        assert_eq!(plan(&Policy::default(), &snapshot(&["10.0.0.11"]), &Memory::default()).families, [Family::Ipv4]);
    }

    #[test]
    fn losing_the_address_source_keeps_the_last_plan() {
        let known = plan(&Policy::default(), &snapshot(&["10.0.0.11"]), &Memory::default());
        let memory = Memory { plan: known.clone(), ..Memory::default() };
        assert_eq!(plan(&Policy::default(), &Snapshot::default(), &memory).addresses, known.addresses);
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod more_tests;
