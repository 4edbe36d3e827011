//! A node with Envoy, optionally with Cilium's maps, and an agent that was up once: where most tests of a whole agent begin.
//!
//! Only joins parts of this library. Must not assert anything but that the beginning is healthy.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use crate::agent::{Agent, AgentBuilder};
use crate::envoy::{Envoy, EnvoyBuilder};
use crate::lbmaps::LbMaps;
use crate::node::Node;
use crate::wait::eventually;

/// Bound of what an agent does within its own timers on a busy machine.
pub const SOON: Duration = Duration::from_secs(10);

/// The parts, in the order in which they end.
#[derive(Debug)]
pub struct Scene {
    /// The agent.
    pub agent: Agent,
    /// Envoy.
    pub envoy: Envoy,
    /// The node.
    pub node: Node,
}

impl Scene {
    /// A node with two addresses of each family, Envoy with marks, no maps, an agent as [`quick`] makes it.
    pub fn up() -> Result<Self> {
        let node = Node::new()?;
        let envoy = Envoy::start(&node)?;
        Self::with(&node, envoy, quick(&node))
    }

    /// As [`Scene::up`], with the maps of Cilium, empty.
    pub fn up_with_maps() -> Result<(Self, LbMaps)> {
        let node = Node::new()?;
        let maps = maps(&node)?;
        let envoy = Envoy::start(&node)?;
        Ok((Self::with(&node, envoy, quick(&node))?, maps))
    }

    /// As [`Scene::up`], with another Envoy.
    pub fn up_with(change: impl FnOnce(EnvoyBuilder) -> EnvoyBuilder) -> Result<Self> {
        let node = Node::new()?;
        let envoy = change(Envoy::builder(&node)).start()?;
        Self::with(&node, envoy, quick(&node))
    }

    /// Starts the agent and waits until the node is up.
    pub fn with(node: &Node, envoy: Envoy, agent: AgentBuilder) -> Result<Self> {
        let mut agent = agent.start()?;
        agent.wait_state("state=up", Duration::from_secs(15))?;
        Ok(Self { agent, envoy, node: node.clone() })
    }

    /// Waits until an address is down as a balancer sees it, with this reason, and returns the state line.
    pub fn wait_down(&mut self, address: IpAddr, reason: &str) -> Result<String> {
        self.agent.wait_state_of(address, &format!("state=down reason={reason}"), SOON)
    }

    /// Waits until an address is up as a balancer sees it.
    pub fn wait_up(&mut self, address: IpAddr) -> Result<String> {
        self.agent.wait_state_of(address, "state=up", SOON)
    }

    /// Waits until the node is down for this reason.
    pub fn wait_node_down(&mut self, reason: &str) -> Result<String> {
        self.agent.wait_state(&format!("state=down reason={reason}"), SOON)
    }

    /// Waits until the node is up, all of it.
    pub fn wait_node_up(&mut self) -> Result<()> {
        eventually(SOON, || {
            let line = self.agent.state_line()?;
            ensure!(line.starts_with("state=up ") && !line.contains("partial="), "{line}");
            Ok(())
        })
        .map_err(|error| anyhow!("{error:#}; the agent's log:\n{}", self.agent.log()))
    }

    /// First of the node's IPv4 addresses.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        IpAddr::V4(crate::node::node_v4(1))
    }

    /// Second of the node's IPv4 addresses.
    #[must_use]
    pub fn second(&self) -> IpAddr {
        IpAddr::V4(crate::node::node_v4(2))
    }
}

/// An agent that shows every recovery at once and probes often, all else by default: what is asserted is not how long it waits.
pub fn quick(node: &Node) -> AgentBuilder {
    Agent::builder(node).set("timing.min_up", "0s").set("probe.interval", "500ms").set("probe.timeout", "500ms")
}

/// Waits until a condition has this reason in the metrics, at any front.
pub fn wait_reason(agent: &Agent, kind: &str, reason: &str) -> Result<()> {
    wait_sample(agent, "gwready_condition_reason", &[("type", kind), ("reason", reason)])
}

/// Waits until a condition is `true`, `false` or `unknown` in the metrics, at any front.
pub fn wait_status(agent: &Agent, kind: &str, status: &str) -> Result<()> {
    wait_sample(agent, "gwready_condition_status", &[("type", kind), ("status", status)])
}

/// Waits until a sample with these labels, of several, is 1.
fn wait_sample(agent: &Agent, name: &str, labels: &[(&str, &str)]) -> Result<()> {
    let wanted: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
    eventually(SOON, || {
        let text = agent.metrics()?;
        let is_one = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).is_some_and(|value: f64| value > 0.5);
        let of_kind = |line: &&str| line.starts_with(name) && line.contains(&wanted[0]) && is_one(line);
        let now: Vec<&str> = text.lines().filter(of_kind).collect();
        ensure!(now.iter().any(|line| wanted.iter().all(|label| line.contains(label.as_str()))), "no {wanted:?} in {now:#?}");
        Ok(())
    })
    .map_err(|error| anyhow!("{error:#}; the agent's log:\n{}", agent.log()))
}

/// Cilium's maps in the node, empty, where the agent looks for them.
pub fn maps(node: &Node) -> Result<LbMaps> {
    node.enter(|| LbMaps::create(&node.bpffs(), 1024))
}

/// Writes the endpoint header by which a running cilium-agent tells its version, `1.16` or `1.17`.
pub fn tell_version(node: &Node, version: &str) -> Result<()> {
    let folder = node.run_dir().join("state/12");
    fs::create_dir_all(&folder)?;
    // {"Version":"1.16.4"} and {"Version":"1.17.1"}.
    let encoded = if version == "1.16" { "eyJWZXJzaW9uIjoiMS4xNi40In0=" } else { "eyJWZXJzaW9uIjoiMS4xNy4xIn0=" };
    Ok(fs::write(folder.join("ep_config.h"), format!("/*\n * CILIUM_BASE64_{encoded}:e30=\n */\n"))?)
}

/// Writes the state folder by which an endpoint's pod is named.
pub fn tell_pod(node: &Node, id: u16, namespace: &str, pod: &str) -> Result<()> {
    let folder = node.run_dir().join("state").join(id.to_string());
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join("ep_config.json"), format!(r#"{{"K8sPodName":"{pod}","K8sNamespace":"{namespace}"}}"#))?)
}
