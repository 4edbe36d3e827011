//! A desk away from the nodes: a namespace that reaches several boxes, as an operator's machine or a pipeline's runner does.
//!
//! Every box has the same addresses on its uplink, so the desk has a link of its own to each. What it reaches a node by is no
//! address that the node is judged for: it gets the node's own verdict.

use std::net::Ipv4Addr;

use anyhow::Result;

use crate::agent::HEALTH_PORT;
use crate::node::{Node, run_batch};
use crate::space::Space;

/// The desk and its links.
#[derive(Debug)]
pub struct Desk {
    space: Space,
    nodes: u8,
}

impl Desk {
    /// A desk with a link to each of these nodes, numbered from 1 in this order.
    pub fn before(nodes: &[&Node]) -> Result<Self> {
        let mut desk = Self { space: Space::new("desk")?, nodes: 0 };
        run_batch(&desk.space, "link set lo up\n")?;
        nodes.iter().try_for_each(|node| desk.connect(node))?;
        Ok(desk)
    }

    fn connect(&mut self, node: &Node) -> Result<()> {
        self.nodes += 1;
        let (n, net) = (self.nodes, node.space().net_path());
        run_batch(
            &self.space,
            &format!(
                "link add node{n} type veth peer name desk netns {net}\naddr add {}/30 dev node{n}\nlink set node{n} up\n",
                Ipv4Addr::new(10, 78, n, 2)
            ),
        )?;
        run_batch(node.space(), &format!("addr add {}/30 dev desk\nlink set desk up\n", node_address(n)))
    }

    /// Where its commands run.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The health port of each node, as an operator writes it.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        (1..=self.nodes).map(|n| format!("{}:{HEALTH_PORT}", node_address(n))).collect()
    }
}

fn node_address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, n, 1)
}
