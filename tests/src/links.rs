//! The network of a box as `ip -batch` scripts: one veth between node and neighbour, addresses,
//! default routes, further links. Pure text; [`crate::node`] runs it.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The neighbour's addresses: the client's source and the node's default route.
pub const NEIGHBOUR_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 100);
/// See [`NEIGHBOUR_V4`].
pub const NEIGHBOUR_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 0x100);
/// Name of the link to the neighbour, in both namespaces.
pub const UPLINK: &str = "eth0";

/// The n-th (from 1) IPv4 address of a node.
#[must_use]
pub fn node_v4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, n)
}

/// The n-th (from 1) IPv6 address of a node.
#[must_use]
pub fn node_v6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, u16::from(n))
}

/// A link beside the uplink, as container runtimes and CNIs leave them on nodes.
#[derive(Debug, Clone)]
pub(crate) struct ExtraLink {
    pub(crate) name: String,
    pub(crate) bridge: bool,
    /// With prefix length.
    pub(crate) addresses: Vec<String>,
}

pub(crate) fn render_create(neighbour_net_path: &str) -> String {
    format!(
        "link set lo up\n\
         link add {UPLINK} type veth peer name {UPLINK} netns {neighbour_net_path}\n"
    )
}

pub(crate) fn render_neighbour(ipv6: bool) -> String {
    let mut script = format!("link set lo up\naddr add {NEIGHBOUR_V4}/24 dev {UPLINK}\n");
    if ipv6 {
        script += &format!("addr add {NEIGHBOUR_V6}/64 dev {UPLINK} nodad\n");
    }
    script + &format!("link set {UPLINK} up\n")
}

pub(crate) fn render_node(addresses: u8, ipv6: bool, extra: &[ExtraLink]) -> String {
    let mut script = String::new();
    for n in 1..=addresses {
        script += &format!("addr add {}/24 dev {UPLINK}\n", node_v4(n));
        if ipv6 {
            script += &format!("addr add {}/64 dev {UPLINK} nodad\n", node_v6(n));
        }
    }
    script += &format!("link set {UPLINK} up\n");
    script += &format!("route add default via {NEIGHBOUR_V4} dev {UPLINK}\n");
    if ipv6 {
        script += &format!("route add default via {NEIGHBOUR_V6} dev {UPLINK}\n");
    }
    for (index, link) in extra.iter().enumerate() {
        let name = &link.name;
        script += &if link.bridge {
            format!("link add {name} type bridge\n")
        } else {
            format!("link add {name} type veth peer name xpeer{index}\nlink set xpeer{index} up\n")
        };
        for address in &link.addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            script += &format!("addr add {address} dev {name}{nodad}\n");
        }
        script += &format!("link set {name} up\n");
    }
    script
}
