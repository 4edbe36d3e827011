//! A node whose every port of interest is answered by somebody with a name: the gateway, programs that a rule may redirect to, a
//! transparent proxy, and a pod behind the node. Who answers a neighbour's connection is what netfilter made of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};
use gwready_core::net::Endpoint;
use gwready_core::netfilter::follow::{Connection, Ingress};

use super::answering::Answering;
use super::fate::{Fate, connect};
use crate::node::{NEIGHBOUR_V4, NEIGHBOUR_V6, Node, UPLINK, run_batch};
use crate::space::Space;

/// Ports that the gateway listens on.
pub const GATEWAY_PORTS: [u16; 2] = [80, 443];
/// Ports of other programs, on the node and in the pod.
pub const OTHER_PORTS: [u16; 2] = [8080, 9090];
/// Port of the transparent proxy.
pub const PROXY_PORT: u16 = 12345;
/// The pod's addresses.
pub const POD_V4: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 7);
/// See [`POD_V4`].
pub const POD_V6: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 7);

/// Node, pod and all who answer.
#[derive(Debug)]
pub struct Stage {
    // Sockets end before the namespaces do.
    _answering: Vec<Answering>,
    node: Node,
    _pod: Space,
}

impl Stage {
    /// Makes everything; no rule is there yet. Needs root.
    pub fn new() -> Result<Self> {
        let node = Node::new()?;
        let pod = Space::new("pod")?;
        run_batch(
            node.space(),
            &format!(
                "link add pod0 type veth peer name eth0 netns {}\naddr add 10.42.0.1/24 dev pod0\naddr add fd42::1/64 dev pod0 nodad\n\
                 link set pod0 up\nrule add pref 9 fwmark 0x200/0xf00 lookup 2004\nroute add local default dev lo table 2004\n\
                 route add local ::/0 dev lo table 2004\n",
                pod.net_path()
            ),
        )?;
        node.space().output("ip", &"-6 rule add pref 9 fwmark 0x200/0xf00 lookup 2004".split(' ').collect::<Vec<_>>())?;
        run_batch(
            &pod,
            &format!(
                "link set lo up\naddr add {POD_V4}/24 dev eth0\naddr add {POD_V6}/64 dev eth0 nodad\nlink set eth0 up\n\
                 route add default via 10.42.0.1\nroute add default via fd42::1\n"
            ),
        )?;
        know_neighbours(&node, &pod)?;
        node.space().set_sysctl("net/ipv4/ip_forward", "1")?;
        node.space().set_sysctl("net/ipv6/conf/all/forwarding", "1")?;
        let mut answering = Vec::new();
        for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            for port in GATEWAY_PORTS {
                // As cilium-envoy's: the wildcard address, transparent.
                answering.push(Answering::start(node.space(), "gateway", SocketAddr::new(any, port), true)?);
                answering.push(Answering::start(&pod, "pod", SocketAddr::new(any, port), false)?);
            }
            for port in OTHER_PORTS {
                answering.push(Answering::start(node.space(), "other", SocketAddr::new(any, port), false)?);
                answering.push(Answering::start(&pod, "pod", SocketAddr::new(any, port), false)?);
            }
            answering.push(Answering::start(node.space(), "proxy", SocketAddr::new(any, PROXY_PORT), true)?);
        }
        Ok(Self { _answering: answering, node, _pod: pod })
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Every endpoint of the gateway.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let ports = |address| GATEWAY_PORTS.map(|port| Endpoint { address, port });
        self.node.addresses().into_iter().flat_map(ports).collect()
    }

    /// The neighbour's connection to an endpoint, as the follower takes it.
    pub fn connection(&self, to: Endpoint) -> Result<Connection> {
        let neighbour: IpAddr = if to.address.is_ipv4() { NEIGHBOUR_V4.into() } else { NEIGHBOUR_V6.into() };
        let index =
            self.node.enter(|| Ok(std::fs::read_to_string(format!("/proc/thread-self/net/dev_snmp6/{UPLINK}")).unwrap_or_default()))?;
        let index = index.lines().find_map(|line| line.strip_prefix("ifIndex")).and_then(|rest| rest.trim().parse().ok()).unwrap_or(0);
        let transparent = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let ports = || GATEWAY_PORTS.into_iter().chain([PROXY_PORT]);
        Ok(Connection {
            source: Some(neighbour),
            ingress: vec![Ingress { index, name: UPLINK.to_owned(), addresses: self.node.addresses() }],
            local: self.node.addresses(),
            transparent: Some(transparent.iter().flat_map(|&address| ports().map(move |port| Endpoint { address, port })).collect()),
            ..Connection::to(to)
        })
    }

    /// What becomes of a connection of the neighbour.
    pub fn fate(&self, to: Endpoint, patience: std::time::Duration) -> Result<Fate> {
        self.node.outside().enter(|| Ok(connect(SocketAddr::new(to.address, to.port), patience)))
    }
}

/// Everybody knows everybody's link address for good: a rule that drops ICMPv6 would take the neighbours away otherwise, and with them
/// connections that no rule touches.
fn know_neighbours(node: &Node, pod: &Space) -> Result<()> {
    let link_address = |space: &Space, link: &str| -> Result<String> {
        let line = space.output("ip", &["-o", "link", "show", "dev", link])?;
        let mut words = line.split(' ').skip_while(|word| *word != "link/ether");
        Ok(words.nth(1).context("no link/ether")?.to_owned())
    };
    let (uplink, neighbour) = (link_address(node.space(), UPLINK)?, link_address(node.outside(), UPLINK)?);
    let (bridge, inside) = (link_address(node.space(), "pod0")?, link_address(pod, "eth0")?);
    let entries = |addresses: &[String], link: &str, at: &str| -> String {
        addresses.iter().map(|address| format!("neigh replace {address} lladdr {at} dev {link} nud permanent\n")).collect()
    };
    let text = |addresses: &[&str]| addresses.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    let own: Vec<String> = node.addresses().iter().map(ToString::to_string).collect();
    let of_node = entries(&[NEIGHBOUR_V4.to_string(), NEIGHBOUR_V6.to_string()], UPLINK, &neighbour)
        + &entries(&[POD_V4.to_string(), POD_V6.to_string()], "pod0", &inside);
    run_batch(node.space(), &of_node)?;
    run_batch(node.outside(), &entries(&own, UPLINK, &uplink))?;
    run_batch(pod, &entries(&text(&["10.42.0.1", "fd42::1"]), "eth0", &bridge))
}
