//! Addresses, links and default routes: against `ip`, and how they follow changes by notification.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use gwready::observe::addresses::{AddressReader, AddressWatch, Changes};
use gwready_core::facts::Reading;
use gwready_core::facts::addresses::{AddressTable, Scope};
use gwready_core::net::Family;
use gwready_tests::Node;
use gwready_tests::node::{UPLINK, run_batch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(5);

fn read(node: &Node) -> AddressTable {
    match node.enter(|| Ok(AddressReader::new().read())).unwrap() {
        Reading::Observed { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

fn json(node: &Node, args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&node.space().output("ip", args).unwrap()).unwrap()
}

fn batch(node: &Node, script: &str) {
    run_batch(node.space(), &format!("{script}\n")).unwrap();
}

fn watch(node: &Node) -> AddressWatch {
    let mut watch = node.enter(|| Ok(AddressWatch::open()?)).unwrap();
    watch.drain();
    watch
}

/// Waits until the descriptor is readable, then takes what is there.
fn changes(watch: &mut AddressWatch) -> Changes {
    let timeout = Timespec::try_from(SOON).unwrap();
    let ready = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout)).unwrap();
    assert_eq!(ready, 1, "no notification within {SOON:?}");
    watch.drain()
}

fn silent(watch: &mut AddressWatch) -> bool {
    // rtnetlink notifies before it answers the request: after `ip` has ended, nothing is on its way.
    watch.drain() == Changes::default()
}

fn has(node: &Node, ip: &str) -> bool {
    let ip: IpAddr = ip.parse().unwrap();
    read(node).addresses.iter().any(|address| address.ip == ip)
}

fn default_links(node: &Node, family: Family) -> Vec<String> {
    let table = read(node);
    let mine = table.default_routes.iter().filter(|route| route.family == family);
    mine.map(|route| table.link(route.ifindex).unwrap().name.clone()).collect()
}

#[test]
fn the_table_is_what_ip_shows() {
    let node = Node::builder().bridge("docker0", &["172.17.0.1/16"]).link("cilium_host", &["10.42.0.5/32"]).build().unwrap();
    batch(&node, "addr add 10.8.0.1 peer 10.8.0.2 dev eth0\naddr add 169.254.20.10/32 dev lo scope link\nlink set xpeer1 master docker0");
    let table = read(&node);
    let shown = json(&node, &["-j", "addr"]);
    let links: BTreeSet<_> = shown.iter().map(|link| (link["ifindex"].as_u64().unwrap(), link["ifname"].as_str().unwrap())).collect();
    assert_eq!(table.links.iter().map(|link| (u64::from(link.ifindex), link.name.as_str())).collect::<BTreeSet<_>>(), links);
    let by_ip: BTreeSet<(u64, IpAddr, String)> =
        shown
            .iter()
            .flat_map(|link| {
                let ifindex = link["ifindex"].as_u64().unwrap();
                link["addr_info"].as_array().unwrap().iter().map(move |info| {
                    (ifindex, info["local"].as_str().unwrap().parse().unwrap(), info["scope"].as_str().unwrap().to_owned())
                })
            })
            .collect();
    let ours: BTreeSet<_> = table
        .addresses
        .iter()
        .map(|address| {
            let scope = match address.scope {
                Scope::Global => "global",
                Scope::Site => "site",
                Scope::Link => "link",
                Scope::Host => "host",
                Scope::Other => "other",
            };
            (u64::from(address.ifindex), address.ip, scope.to_owned())
        })
        .collect();
    assert_eq!(ours, by_ip);
    let loopback: Vec<_> = table.links.iter().filter(|link| link.loopback).map(|link| link.name.as_str()).collect();
    assert_eq!(loopback, ["lo"]);
    let bridge = table.links.iter().find(|link| link.name == "docker0").unwrap().ifindex;
    let ports: Vec<_> = table.links.iter().filter(|link| link.master == Some(bridge)).map(|link| link.name.as_str()).collect();
    assert_eq!(ports, ["xpeer1"]);
    assert_eq!(default_links(&node, Family::Ipv4), [UPLINK]);
    assert_eq!(default_links(&node, Family::Ipv6), [UPLINK]);
}

#[test]
fn an_address_is_noticed_when_it_comes_and_when_it_goes() {
    let node = Node::new().unwrap();
    let mut watch = watch(&node);
    for address in ["10.77.0.9/24", "fd00:77::9/64"] {
        let ip = address.split('/').next().unwrap();
        batch(&node, &format!("addr add {address} dev {UPLINK}"));
        assert!(changes(&mut watch).addresses);
        assert!(has(&node, ip));
        batch(&node, &format!("addr del {address} dev {UPLINK}"));
        assert!(changes(&mut watch).addresses);
        assert!(!has(&node, ip));
    }
}

#[test]
fn a_deprecated_and_a_tentative_address_say_so() {
    let node = Node::new().unwrap();
    batch(&node, &format!("addr add fd00:77::9/64 dev {UPLINK} nodad preferred_lft 0"));
    let table = read(&node);
    let of = |ip: &str| table.addresses.iter().find(|address| address.ip == ip.parse::<IpAddr>().unwrap()).unwrap();
    assert!(of("fd00:77::9").deprecated && !of("fd00:77::9").tentative);
    assert!(!of("fd00:77::1").deprecated && !of("fd00:77::1").tentative);
    // Duplicate address detection does not begin on a link that is down.
    batch(&node, "link add quiet type veth peer name quiet1\naddr add fd00:78::1/64 dev quiet");
    assert!(read(&node).addresses.iter().any(|address| address.ip.to_string() == "fd00:78::1" && address.tentative));
}

#[test]
fn a_link_that_goes_down_takes_its_default_route_along_and_is_noticed() {
    let node = Node::new().unwrap();
    let mut watch = watch(&node);
    batch(&node, &format!("link set {UPLINK} down"));
    assert!(changes(&mut watch).addresses);
    assert_eq!(default_links(&node, Family::Ipv4), [""; 0]);
    assert!(!read(&node).links.iter().find(|link| link.name == UPLINK).unwrap().up);
}

#[test]
fn default_routes_of_every_table_and_hop_count_and_local_ones_do_not() {
    let node = Node::builder().link("wan1", &["10.81.0.1/24"]).link("wan2", &["10.82.0.1/24"]).build().unwrap();
    batch(
        &node,
        "route add default dev wan1 table 100\nroute add local default dev lo table 2004\nroute add unreachable default metric 9999",
    );
    assert_eq!(default_links(&node, Family::Ipv4), [UPLINK, "wan1"]);
    batch(&node, "route replace default nexthop via 10.81.0.9 dev wan1 nexthop via 10.82.0.9 dev wan2");
    let mut links = default_links(&node, Family::Ipv4);
    links.sort();
    assert_eq!(links, ["wan1", "wan2"]);
    batch(&node, "route add ::/0 metric 5 nexthop via fe80::1 dev wan1 nexthop via fe80::2 dev wan2");
    let mut links = default_links(&node, Family::Ipv6);
    links.sort();
    assert_eq!(links, [UPLINK, "wan1", "wan2"]);
}

#[test]
fn rules_and_default_routes_concern_the_tproxy_path_and_pod_routes_nobody() {
    // IPv6 addresses are announced once more when they are no longer tentative.
    let node = Node::builder().without_ipv6().build().unwrap();
    let mut watch = watch(&node);
    batch(&node, "rule add fwmark 0x200/0xf00 lookup 2004");
    assert_eq!(changes(&mut watch), Changes { rules: true, ..Changes::default() });
    batch(&node, "route add local default dev lo table 2004");
    assert_eq!(changes(&mut watch), Changes { rules: true, addresses: true, overflow: false });
    batch(&node, &format!("route add 10.42.0.7/32 dev {UPLINK}\nroute del 10.42.0.7/32 dev {UPLINK}"));
    assert!(silent(&mut watch), "a pod's route");
}

#[test]
fn lost_notifications_are_an_overflow_and_the_full_read_has_all() {
    let node = Node::new().unwrap();
    let mut watch = watch(&node);
    let script: String = (0..2000).map(|n| format!("addr add 10.90.{}.{}/32 dev {UPLINK}\n", n / 200, n % 200 + 1)).collect();
    batch(&node, &script);
    assert_eq!(changes(&mut watch), Changes { addresses: true, rules: true, overflow: true });
    let many = read(&node).addresses.iter().filter(|address| address.ip.to_string().starts_with("10.90.")).count();
    assert_eq!(many, 2000, "a table of many datagrams is whole");
    assert!(silent(&mut watch));
    batch(&node, &format!("addr del 10.90.0.1/32 dev {UPLINK}"));
    assert_eq!(changes(&mut watch), Changes { addresses: true, ..Changes::default() }, "it hears again after the loss");
}
