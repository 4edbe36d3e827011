//! Which addresses are judged: every kind that DESIGN section 2 takes in or leaves out, one row each.

use super::*;
use crate::facts::addresses::DefaultRoute;
use crate::facts::{Reading, Unavailable};
use crate::lb::facts::{LbFacts, LbTable};
use crate::net::Endpoint;
use crate::time::Window;

/// A node on which every link and every kind of address is to be found; eth0 and eth9 carry default routes.
const LINKS: [(u32, &str); 20] = [
    (1, "lo"),
    (2, "eth0"),
    (3, "docker0"),
    (4, "eth1"),
    (5, "cilium_host"),
    (6, "cilium_net"),
    (7, "cilium_vxlan"),
    (8, "lxc1a2b3c"),
    (9, "nodelocaldns"),
    (10, "kube-ipvs0"),
    (11, "cni0"),
    (12, "flannel.1"),
    (13, "cali12ab"),
    (14, "tunl0"),
    (15, "vxlan.calico"),
    (16, "weave"),
    (17, "virbr0"),
    (18, "veth77"),
    (19, "podman1"),
    (20, "eth9"),
];

fn table(addresses: Vec<LocalAddress>) -> AddressTable {
    let link = |(ifindex, name): (u32, &str)| Link { ifindex, name: name.to_owned(), loopback: name == "lo", up: true, master: None };
    AddressTable {
        addresses,
        links: LINKS.map(link).to_vec(),
        default_routes: vec![DefaultRoute { family: Family::Ipv4, ifindex: 2 }, DefaultRoute { family: Family::Ipv6, ifindex: 20 }],
    }
}

fn on(link: &str, ip: &str) -> LocalAddress {
    let ifindex = LINKS.iter().find(|(_, name)| *name == link).unwrap().0;
    LocalAddress { ip: ip.parse().unwrap(), ifindex, scope: Scope::Global, tentative: false, deprecated: false }
}

/// Whether this address alone is judged by default, where Cilium lists these as the host's.
fn judged_with(address: LocalAddress, hosts: &[&str], policy: &Policy) -> bool {
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    !judged_addresses(policy, &table(vec![address]), &hosts).is_empty()
}

fn judged(address: LocalAddress) -> bool {
    judged_with(address, &[], &Policy::default())
}

#[test]
fn a_global_address_of_a_link_with_a_default_route_is_judged_in_both_families() {
    for address in
        [on("eth0", "10.0.0.11"), on("eth0", "203.0.113.7"), on("eth0", "fd00::11"), on("eth0", "2001:db8::11"), on("eth9", "10.9.0.1")]
    {
        assert!(judged(address.clone()), "{}", address.ip);
    }
}

#[test]
fn a_link_without_a_default_route_is_judged_only_if_cilium_manages_it() {
    assert!(!judged(on("eth1", "192.168.5.1")));
    assert!(judged_with(on("eth1", "192.168.5.1"), &["192.168.5.1"], &Policy::default()));
    assert!(!judged_with(on("eth1", "192.168.5.1"), &["192.168.5.9"], &Policy::default()), "another node's address is none of this link's");
}

#[test]
fn every_address_of_a_link_that_cilium_manages_is_judged() {
    let rows = vec![on("eth1", "192.168.5.1"), on("eth1", "192.168.5.2")];
    let judged = judged_addresses(&Policy::default(), &table(rows), &["192.168.5.2".parse().unwrap()].into());
    assert_eq!(judged.len(), 2, "its datapath works on the device");
}

#[test]
fn links_of_runtimes_networks_and_node_local_dns_are_never_judged_by_themselves() {
    let internal = LINKS.iter().filter(|(_, name)| !["lo", "eth0", "eth1", "eth9"].contains(name));
    for (ifindex, name) in internal {
        let address = on(name, "10.42.0.1");
        assert!(!judged_with(address.clone(), &["10.42.0.1"], &Policy::default()), "{name}, though Cilium lists its address");
        let mut with_route = table(vec![address]);
        with_route.default_routes.push(DefaultRoute { family: Family::Ipv4, ifindex: *ifindex });
        assert!(judged_addresses(&Policy::default(), &with_route, &BTreeSet::new()).is_empty(), "{name}, though it has a default route");
    }
}

#[test]
fn what_is_never_judged_whatever_is_included() {
    let everything = Policy { include: LINKS.map(|(_, name)| AddressMatch::Interface(name.into())).to_vec(), ..Policy::default() };
    let never = [
        LocalAddress { tentative: true, ..on("eth0", "fd00::11") },
        LocalAddress { deprecated: true, ..on("eth0", "fd00::11") },
        LocalAddress { scope: Scope::Link, ..on("eth0", "fe80::1") },
        on("eth0", "169.254.1.1"),
        on("nodelocaldns", "169.254.20.10"),
        on("eth0", "::ffff:169.254.1.1"),
    ];
    for address in never {
        assert!(!judged(address.clone()) && !judged_with(address.clone(), &[], &everything), "{address:?}");
    }
}

#[test]
fn scopes_that_no_client_from_outside_can_reach_are_left_out_by_default() {
    for (scope, expected) in [(Scope::Global, true), (Scope::Site, true), (Scope::Link, false), (Scope::Host, false), (Scope::Other, false)]
    {
        assert_eq!(judged(LocalAddress { scope, ..on("eth0", "10.0.0.11") }), expected, "{scope:?}");
    }
}

#[test]
fn global_addresses_on_lo_are_judged_and_loopback_ones_are_not() {
    assert!(judged(on("lo", "10.0.0.100")) && judged(on("lo", "fd00::100")));
    for loopback in ["127.0.0.1", "127.0.0.53", "::1"] {
        assert!(!judged(on("lo", loopback)), "{loopback}");
        assert!(!judged(LocalAddress { scope: Scope::Host, ..on("lo", loopback) }), "{loopback}");
    }
}

#[test]
fn include_by_network_and_by_name_takes_in_what_is_left_out_by_default() {
    let net = |net: &str| Policy { include: vec![AddressMatch::Net(net.parse().unwrap())], ..Policy::default() };
    let link = |name: &str| Policy { include: vec![AddressMatch::Interface(name.into())], ..Policy::default() };
    assert!(judged_with(on("eth1", "192.168.5.1"), &[], &net("192.168.0.0/16")));
    assert!(!judged_with(on("eth1", "192.168.5.1"), &[], &net("10.0.0.0/8")));
    assert!(!judged_with(on("eth1", "192.168.5.1"), &[], &net("fd00::/8")));
    assert!(judged_with(on("docker0", "172.17.0.1"), &[], &link("docker0")));
    assert!(!judged_with(on("docker0", "172.17.0.1"), &[], &link("docker")), "a name, not a prefix");
    assert!(judged_with(on("eth0", "10.0.0.11"), &[], &link("docker0")), "include adds, it does not restrict");
}

#[test]
fn exclude_wins_over_everything() {
    let exclude = vec![AddressMatch::Net("10.0.0.11/32".parse().unwrap())];
    let policy = Policy { include: vec![AddressMatch::Interface("eth0".into())], exclude, ..Policy::default() };
    assert!(!judged_with(on("eth0", "10.0.0.11"), &["10.0.0.11"], &policy));
    assert!(judged_with(on("eth0", "10.0.0.12"), &[], &policy));
    let by_name = Policy { exclude: vec![AddressMatch::Interface("eth0".into())], ..Policy::default() };
    assert!(!judged_with(on("eth0", "10.0.0.12"), &[], &by_name));
}

#[test]
fn an_address_whose_link_is_not_known_is_left_out() {
    assert!(!judged(LocalAddress { ifindex: 99, ..on("eth0", "10.0.0.11") }));
}

#[test]
fn one_address_on_two_links_is_judged_once_and_addresses_come_sorted() {
    let rows = vec![on("eth0", "fd00::11"), on("eth9", "10.0.0.12"), on("eth0", "10.0.0.11"), on("eth9", "10.0.0.11")];
    let ips: Vec<String> = judged_addresses(&Policy::default(), &table(rows), &BTreeSet::new()).iter().map(|j| j.ip.to_string()).collect();
    assert_eq!(ips, ["10.0.0.11", "10.0.0.12", "fd00::11"]);
}

#[test]
fn clients_are_expected_on_the_link_itself_or_for_lo_on_the_default_route_of_the_family() {
    let ingress_of = |address| judged_addresses(&Policy::default(), &table(vec![address]), &BTreeSet::new())[0].ingress_if;
    assert_eq!(ingress_of(on("eth0", "10.0.0.11")), 2);
    assert_eq!(ingress_of(on("eth9", "10.0.0.11")), 20);
    assert_eq!(ingress_of(on("lo", "10.0.0.100")), 2);
    assert_eq!(ingress_of(on("lo", "fd00::100")), 20);
    let mut no_routes = table(vec![on("lo", "10.0.0.100")]);
    no_routes.default_routes.clear();
    assert_eq!(judged_addresses(&Policy::default(), &no_routes, &BTreeSet::new())[0].ingress_if, 1);
}

const NOT_READ: Option<Why> = None;

/// A snapshot of a dual-stack node whose v4 map was read and whose v6 map failed like this (none: it was not read yet).
fn dual(v6: Option<Why>) -> Snapshot {
    let v6 = v6.map_or(Reading::NotRead, |why| Reading::Unavailable(Unavailable { why, detail: String::new(), window: Window::default() }));
    let v4 = Reading::Observed { value: LbTable::default(), window: Window::default() };
    let addresses = table(vec![on("eth0", "10.0.0.11"), on("eth0", "fd00::11")]);
    Snapshot {
        addresses: Reading::Observed { value: addresses, window: Window::default() },
        lb: LbFacts { v4, v6, ..LbFacts::default() },
        ..Snapshot::default()
    }
}

fn families(snapshot: &Snapshot, memory: &Memory) -> Vec<Family> {
    plan(&Policy::default(), snapshot, memory).families
}

#[test]
fn a_family_is_in_use_if_its_map_exists_and_a_failed_read_changes_nothing() {
    let planned = Memory { plan: ReadPlan { families: Family::ALL.to_vec(), ..ReadPlan::default() }, ..Memory::default() };
    let table = [
        (NOT_READ, &[Family::Ipv4][..], &[Family::Ipv4][..]),
        (Some(Why::Absent), &[Family::Ipv4], &[Family::Ipv4]),
        (Some(Why::Layout), &Family::ALL, &Family::ALL),
        (Some(Why::Permission), &[Family::Ipv4], &Family::ALL),
        (Some(Why::Failed), &[Family::Ipv4], &Family::ALL),
        (Some(Why::Deadline), &[Family::Ipv4], &Family::ALL),
        (Some(Why::Interrupted), &[Family::Ipv4], &Family::ALL),
    ];
    for (v6, first, after_both_were_planned) in table {
        assert_eq!(families(&dual(v6), &Memory::default()), first, "{v6:?}");
        assert_eq!(families(&dual(v6), &planned), after_both_were_planned, "{v6:?}");
    }
}

#[test]
fn a_family_without_an_address_is_not_in_use_whatever_is_configured() {
    let mut snapshot = dual(Some(Why::Layout));
    let policy = Policy { families: Choice::Only(vec![Family::Ipv6, Family::Ipv4]), ..Policy::default() };
    assert_eq!(plan(&policy, &snapshot, &Memory::default()).families, Family::ALL, "in the order of the list, not of the file");
    snapshot.addresses = Reading::Observed { value: table(vec![on("eth0", "10.0.0.11")]), window: Window::default() };
    assert_eq!(plan(&policy, &snapshot, &Memory::default()).families, [Family::Ipv4]);
    assert_eq!(families(&snapshot, &Memory { families_seen: [Family::Ipv6].into(), ..Memory::default() }), [Family::Ipv4]);
}

#[test]
fn configured_families_leave_out_addresses_of_the_other() {
    let policy = Policy { families: Choice::Only(vec![Family::Ipv6]), ..Policy::default() };
    let plan = plan(&policy, &dual(Some(Why::Absent)), &Memory::default());
    let endpoints: Vec<Endpoint> = plan.endpoints().map(|(endpoint, _)| endpoint).collect();
    assert_eq!(endpoints.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[fd00::11]:80", "[fd00::11]:443"]);
}

#[test]
fn a_remembered_port_is_planned_beside_what_envoy_names() {
    let memory = Memory { ports_seen: [(8443, crate::time::Mono(1))].into(), ..Memory::default() };
    assert_eq!(plan(&Policy::default(), &dual(NOT_READ), &memory).ports, [8443], "known ports take the place of 80 and 443");
    let fixed = Policy { ports: Choice::Only(vec![443, 80, 443]), ..Policy::default() };
    assert_eq!(plan(&fixed, &dual(NOT_READ), &memory).ports, [80, 443]);
}
