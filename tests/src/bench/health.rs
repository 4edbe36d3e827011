//! `gwready-bench health`: the rate of `/healthz`, a connection per request, beside nginx's `return 200` with one worker.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};

use super::samples::Samples;
use super::table::{Table, figure};
use super::wrk;
use crate::agent::HEALTH_PORT;
use crate::{Agent, Envoy, Nginx, Node};

/// How often and how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Pairs, ours and the peer's in turn.
    pub pairs: u32,
    /// Connections at a time.
    pub connections: u32,
    /// Span of each measurement.
    pub span: Duration,
}

const PEER_PORT: u16 = 9690;

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let node = Node::builder().addresses(1).without_ipv6().build()?;
    let _envoy = Envoy::start(&node)?;
    let mut agent = Agent::start_up(&node)?;
    let _peer = Nginx::start_answering(&node, &[&format!("0.0.0.0:{PEER_PORT} backlog=1024")], "200")?;
    wrk::make_room(node.outside())?;
    let address = node.addresses().first().copied().context("no address")?;
    let rate = |port| wrk::run(node.outside(), SocketAddr::new(address, port), "/healthz", "node", options.connections, options.span);
    let (mut ours, mut peers) = ((Samples::default(), Samples::default()), (Samples::default(), Samples::default()));
    let mut ratios = Samples::default();
    for pair in 1..=options.pairs {
        eprintln!("pair {pair} of {}", options.pairs);
        let (one, other) = if pair % 2 == 0 {
            let other = rate(PEER_PORT)?;
            (rate(HEALTH_PORT)?, other)
        } else {
            (rate(HEALTH_PORT)?, rate(PEER_PORT)?)
        };
        ours.0.push(one.per_second);
        ours.1.push(one.p99_us);
        peers.0.push(other.per_second);
        peers.1.push(other.p99_us);
        ratios.push(one.per_second / other.per_second);
    }
    let mut table = Table::new(&["a connection per request", "requests/s", "p99 us", "ratio"]);
    table.row(&[&"gwready /healthz", &figure(ours.0.median()), &figure(ours.1.median()), &figure(ratios.median())]);
    table.row(&[&"nginx return 200, 1 worker", &figure(peers.0.median()), &figure(peers.1.median()), &""]);
    println!(
        "{table}\n{} pairs, {} connections at a time; ratio: median of the pairs, to reach: >= 1.0.",
        options.pairs, options.connections
    );
    agent.stop()
}
