//! A pod beside the gateway: a namespace behind a veth with nginx on port 80 in it, and the packets of clients turned to it.
//!
//! Cilium's own datapath can't run here. What it does with a row of its map was measured (see [`crate::lbmaps`] for the rows);
//! [`Detour`] does the same to the packets at the same place, ahead of every netfilter hook and every socket.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;

use crate::node::{Node, UPLINK, run_batch};
use crate::space::Space;
use crate::thief::Nginx;

/// Address of the pod.
pub const POD: Ipv4Addr = Ipv4Addr::new(10, 42, 1, 7);
/// Its endpoint id.
pub const ENDPOINT: u16 = 7;
/// The node's end of the veth.
const GATE: Ipv4Addr = Ipv4Addr::new(10, 42, 1, 1);

/// A running pod. Ends when dropped.
#[derive(Debug)]
pub struct Pod {
    // The program ends before its namespace does.
    _nginx: Nginx,
    space: Space,
}

impl Pod {
    /// One pod of this node, serving 404 on port 80.
    pub fn start(node: &Node) -> Result<Self> {
        let space = Space::new("pod")?;
        let net = space.net_path();
        run_batch(
            node.space(),
            &format!(
                "link add lxc{ENDPOINT} type veth peer name eth0 netns {net}\naddr add {GATE}/32 dev lxc{ENDPOINT}\n\
                 link set lxc{ENDPOINT} up\nroute add {POD}/32 dev lxc{ENDPOINT}\n"
            ),
        )?;
        run_batch(
            &space,
            &format!(
                "link set lo up\naddr add {POD}/32 dev eth0\nlink set eth0 up\nroute add {GATE}/32 dev eth0\n\
                 route add default via {GATE} dev eth0\n"
            ),
        )?;
        node.space().set_sysctl("net/ipv4/ip_forward", "1")?;
        Ok(Self { _nginx: Nginx::start_in(node, &space, &["80"], "404")?, space })
    }

    /// Its namespace.
    #[must_use]
    pub const fn space(&self) -> &Space {
        &self.space
    }
}

/// What becomes of the packets of one address of a node as they arrive. Ends when dropped.
#[derive(Debug)]
pub struct Detour {
    node: Node,
}

impl Detour {
    /// Packets for this address and port go to port 80 of the pod, and its answers come back from that address and port.
    pub fn to_pod(node: &Node, address: IpAddr, port: u16) -> Result<Self> {
        Self::set(
            node,
            &format!("ip daddr {address} tcp dport {port} ip daddr set {POD} tcp dport set 80"),
            &format!("ip saddr {POD} tcp sport 80 ip saddr set {address} tcp sport set {port}"),
        )
    }

    /// Every packet for this address is dropped.
    pub fn to_nowhere(node: &Node, address: IpAddr) -> Result<Self> {
        Self::set(node, &format!("ip daddr {address} drop"), "")
    }

    fn set(node: &Node, arriving: &str, leaving: &str) -> Result<Self> {
        let script = format!(
            "table netdev detour {{\nchain arriving {{\ntype filter hook ingress device {UPLINK} priority 0;\n{arriving}\n}}\n\
             chain leaving {{\ntype filter hook egress device {UPLINK} priority 0;\n{leaving}\n}}\n}}\n"
        );
        node.space().output("nft", &[&script])?;
        Ok(Self { node: node.clone() })
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        if let Err(error) = self.node.space().output("nft", &["delete", "table", "netdev", "detour"]) {
            eprintln!("detour: {error:#}");
        }
    }
}
