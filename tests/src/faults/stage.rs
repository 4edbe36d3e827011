//! A fault as it stands: the parts that keep it up, where it is looked at, and what was seen.

use std::any::Any;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, anyhow, ensure};

use super::Fault;
use super::look::{self, Asking, Claim};
use crate::agent::Agent;
use crate::node::{Node, node_v4};
use crate::scene::{SOON, Scene};

/// What most monitors send.
const GET: &str = "GET / HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\n\r\n";
/// What tells who serves: Envoy answers it by itself.
const WHO: &str = "GET / HTTP/1.1\r\n\r\n";

/// A node with a fault in it. Everything ends when it is dropped.
pub struct Stage {
    /// What holds a process still. Ends first: such a process can't be ended.
    pub(super) hold: Vec<Box<dyn Any>>,
    pub(super) agent: Agent,
    /// What keeps the fault up, in the order in which it ends.
    pub(super) keep: Vec<Box<dyn Any>>,
    pub(super) node: Node,
    /// What the TCP and the HTTP monitor ask.
    pub(super) monitored: SocketAddr,
    /// Where the clients go who suffer; the agent is asked about this address.
    pub(super) wanted: SocketAddr,
    /// The request of the HTTP monitor.
    pub(super) request: String,
    /// What clients send.
    pub(super) saying: String,
    /// Monitor and clients speak TLS.
    pub(super) tls: bool,
    /// The agent's answer where it can't be waited for: it was seen while the fault was made.
    pub(super) said: Option<String>,
    /// What else the agent said, as the page shows it.
    pub(super) note: Option<String>,
    /// How the checks ask.
    pub(super) asking: Asking,
    /// Where `ss` is run, when not on the node.
    pub(super) ss_at: Option<crate::pod::Pod>,
}

impl Stage {
    pub(super) fn new(node: &Node, agent: Agent) -> Self {
        let first = SocketAddr::new(node_v4(1).into(), 80);
        Self {
            hold: Vec::new(),
            agent,
            keep: Vec::new(),
            node: node.clone(),
            monitored: first,
            wanted: first,
            request: GET.to_owned(),
            saying: WHO.to_owned(),
            tls: false,
            said: None,
            note: None,
            asking: Asking::OFTEN,
            ss_at: None,
        }
    }

    pub(super) fn keep(mut self, part: impl Any) -> Self {
        self.keep.push(Box::new(part));
        self
    }

    pub(super) fn hold(mut self, part: impl Any) -> Self {
        self.hold.push(Box::new(part));
        self
    }

    /// Monitor and clients at this port.
    pub(super) fn at_port(mut self, port: u16) -> Self {
        self.monitored.set_port(port);
        self.wanted.set_port(port);
        self
    }

    /// Clients who suffer go elsewhere than the monitor.
    pub(super) fn clients_at(mut self, address: IpAddr, port: u16) -> Self {
        self.wanted = SocketAddr::new(address, port);
        self
    }

    pub(super) fn note(mut self, words: impl Into<String>) -> Self {
        self.note = Some(words.into());
        self
    }
}

impl From<Scene> for Stage {
    fn from(scene: Scene) -> Self {
        Self::new(&scene.node, scene.agent).keep(scene.envoy)
    }
}

/// One row of the page.
pub struct Seen {
    /// Number.
    pub id: &'static str,
    /// The fault.
    pub what: &'static str,
    /// Who serves the clients.
    pub clients: BTreeSet<String>,
    /// TCP connect.
    pub tcp: Claim,
    /// `GET /`, any status.
    pub http: Claim,
    /// `ss -tlnp | grep :PORT`.
    pub ss: Claim,
    /// Envoy's health port.
    pub envoy: Claim,
    /// The agent's state line as a balancer gets it.
    pub line: String,
    /// What else the agent says.
    pub note: Option<String>,
}

/// Makes the fault, waits for the agent's answer, asks everybody, and sees that the agent still says so.
pub(super) fn play(fault: &Fault) -> Result<Seen> {
    let mut stage = (fault.make)().context("making the fault")?;
    let address = stage.wanted.ip();
    let line = match stage.said.take() {
        Some(line) => line,
        None => stage.agent.wait_state_of(address, fault.answer, 2 * SOON)?,
    };
    let (outside, node) = (stage.node.outside(), &stage.node);
    let ss_at = stage.ss_at.as_ref().map_or_else(|| node.space(), crate::pod::Pod::space);
    let seen = Seen {
        id: fault.id,
        what: fault.what,
        tcp: look::tcp(outside, stage.monitored, stage.asking)?,
        http: if stage.tls {
            look::https(outside, stage.monitored, &stage.request)?
        } else {
            look::http(outside, stage.monitored, &stage.request, stage.asking)?
        },
        ss: look::ss(ss_at, stage.monitored.port())?,
        envoy: look::envoy_health(node, Asking::OFTEN)?,
        clients: if stage.tls {
            look::tls_clients(outside, stage.wanted, &stage.saying)?
        } else {
            look::clients(outside, stage.wanted, &stage.saying, stage.asking)?
        },
        line,
        note: stage.note.take(),
    };
    if !fault.answer.is_empty() {
        let after = stage.agent.state_line_of(address)?;
        let holds = fault.answer.split(' ').all(|word| after.split(' ').any(|found| found == word));
        ensure!(holds, "was {:?}, is {after:?} after the checks; the agent's log:\n{}", seen.line, stage.agent.log());
    }
    Ok(seen)
}

/// The error of a condition that the agent did not tell, with its log.
pub(super) fn untold(agent: &Agent, error: &anyhow::Error) -> anyhow::Error {
    anyhow!("{error:#}; the agent's log:\n{}", agent.log())
}
