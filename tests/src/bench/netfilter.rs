//! `gwready-bench netfilter`: what a change of many rules costs, and what they cost when nothing changes.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gwready::observe::netfilter::read_paths;
use gwready_core::net::Endpoint;
use gwready_core::netfilter::follow::Connection;
use rustix::time::{ClockId, clock_gettime};

use super::cost;
use super::passes::{self, PassCost};
use super::samples::Samples;
use super::table::{Table, figure};
use crate::netfilter::Tool;
use crate::{Agent, Envoy, Node};

/// How many rules, how often, how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rules.
    pub rules: usize,
    /// Readings of them, and pairs of spans with and without them.
    pub rounds: u32,
    /// Span of each measurement of passes.
    pub span: Duration,
}

/// Name of the thread that follows the rules, as the kernel shows it.
const THREAD: &str = "gwready-netfilt";
const PATIENCE: Duration = Duration::from_secs(30);
/// Rules of one service of kube-proxy.
const PER_SERVICE: usize = 8;

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let node = Node::new()?;
    let _envoy = Envoy::start(&node)?;
    let rules = services(options.rules / PER_SERVICE);
    reading(&node, &rules, options)?;
    steady(&node, &rules, options)
}

/// What one reading took.
struct Reading {
    wall: Duration,
    cpu: Duration,
}

/// Reads and follows on a thread of its own in the node, as the agent does.
fn read_once(node: &Node) -> Result<Reading> {
    let connections = |address| [80, 443].map(|port| Connection::to(Endpoint { address, port }));
    let wanted: Vec<Connection> = node.addresses().into_iter().flat_map(connections).collect();
    node.enter(|| {
        let begin = Instant::now();
        std::hint::black_box(read_paths(&wanted)?);
        let spent = clock_gettime(ClockId::ThreadCPUTime);
        let cpu = Duration::new(u64::try_from(spent.tv_sec)?, u32::try_from(spent.tv_nsec)?);
        Ok(Reading { wall: begin.elapsed(), cpu })
    })
}

/// Reading and following in this process, by kind of iptables, beside `nft list ruleset`.
fn reading(node: &Node, rules: &str, options: &Options) -> Result<()> {
    let mut table = Table::new(&["rules, by", "read and followed ms (to reach: < 100)", "cpu ms", "nft list ruleset ms"]);
    for (label, tool) in [("iptables-nft", Tool::IptablesNft), ("iptables-legacy", Tool::IptablesLegacy)] {
        eprintln!("measuring: {} rules by {label}", options.rules);
        tool.load(node.space(), rules)?;
        let readings: Vec<Reading> = (0..options.rounds).map(|_| read_once(node)).collect::<Result<_>>()?;
        let of =
            |pick: fn(&Reading) -> Duration| figure(readings.iter().map(|one| pick(one).as_secs_f64() * 1e3).collect::<Samples>().median());
        let begin = Instant::now();
        node.space().output("nft", &["list", "ruleset"])?;
        let peer = if tool == Tool::IptablesNft { begin.elapsed().as_secs_f64() * 1e3 } else { f64::NAN };
        let row = [of(|one| one.wall), of(|one| one.cpu), figure(peer)];
        let [wall, cpu, peer] = &row;
        table.row(&[&format!("{} {label}", options.rules), wall, cpu, peer]);
        crate::netfilter::flush(node.space())?;
    }
    println!("{table}");
    Ok(())
}

/// A running agent without and with the rules, in turn, and what one change costs it.
fn steady(node: &Node, rules: &str, options: &Options) -> Result<()> {
    let quick = Agent::builder(node).set("timing.resync", "50ms").set("timing.lb_poll", "50ms").set("timing.min_up", "0s");
    let mut agent = quick.set("probe.enabled", false).start()?;
    agent.wait_state("state=up", PATIENCE)?;
    let (mut without, mut with, mut idle) = (Vec::new(), Vec::new(), Samples::default());
    let mut change = Samples::default();
    for round in 1..=options.rounds.min(3) {
        eprintln!("measuring: steady state, pair {round}");
        without.push(passes::measure(&agent, options.span)?);
        Tool::IptablesNft.load(node.space(), rules)?;
        change.push(one_change(node, &agent)?);
        let before = cost::cpu_time(agent.pid(), Some(THREAD))?;
        let begin = Instant::now();
        with.push(passes::measure(&agent, options.span)?);
        let spent = cost::cpu_time(agent.pid(), Some(THREAD))?.saturating_sub(before);
        idle.push(spent.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0);
        crate::netfilter::flush(node.space())?;
    }
    let resident = f64::from(u32::try_from(cost::memory_kib(agent.pid(), "VmRSS")?)?) / 1024.0;
    let (without, with) = (passes::median(&without), passes::median(&with));
    let mut table = Table::new(&["steady state", "passes", "mean us", "cpu us"]);
    table.row(&[&"no rules", &figure(without.passes), &figure(without.mean_us), &figure(without.cpu_us)]);
    table.row(&[&format!("{} rules", options.rules), &figure(with.passes), &figure(with.mean_us), &figure(with.cpu_us)]);
    let ratio = |pick: fn(&PassCost) -> f64| figure(pick(&with) / pick(&without));
    table.row(&[&"ratio", &"", &ratio(|cost| cost.mean_us), &ratio(|cost| cost.cpu_us)]);
    println!("{table}");
    println!("from one more rule to state=down, ms: {}", figure(change.median()));
    println!("the thread of the rules when nothing changes, % of one core: {}", figure(idle.median()));
    println!("resident afterwards, MiB: {}", figure(resident));
    agent.stop()
}

/// Milliseconds from the begin of `nft`, which adds a redirect of every gateway port, to the agent's `state=down`.
fn one_change(node: &Node, agent: &Agent) -> Result<f64> {
    let begin = Instant::now();
    let rule = "table inet thief { chain c { type nat hook prerouting priority -110; tcp dport { 80, 443 } redirect to :8080; }; }\n";
    Tool::Nft.load(node.space(), rule)?;
    crate::eventually(PATIENCE, || {
        let line = agent.state_line()?;
        anyhow::ensure!(line.starts_with("state=down"), "{line}");
        Ok(())
    })
    .context("the redirect is not seen")?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    Tool::Nft.load(node.space(), "delete table inet thief\n")?;
    crate::eventually(PATIENCE, || {
        let line = agent.state_line()?;
        anyhow::ensure!(line.starts_with("state=up"), "{line}");
        Ok(())
    })?;
    Ok(took)
}

/// kube-proxy's rules of so many services, none of which is the node's own.
fn services(count: usize) -> String {
    let mut text = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n".to_owned();
    let (mut chains, mut rules) = (String::new(), String::new());
    for number in 0..count {
        let (high, low) = (number / 250, number % 250 + 1);
        let _infallible =
            write!(chains, ":KUBE-SVC-{number:016} - [0:0]\n:KUBE-SEP-A{number:015} - [0:0]\n:KUBE-SEP-B{number:015} - [0:0]\n");
        let comment = format!("-m comment --comment \"default/svc-{number}:http\"");
        let _infallible = write!(
            rules,
            "-A KUBE-SERVICES -d 10.96.{high}.{low}/32 -p tcp {comment} -m tcp --dport 80 -j KUBE-SVC-{number:016}\n\
             -A KUBE-SVC-{number:016} ! -s 10.42.0.0/16 -d 10.96.{high}.{low}/32 -p tcp {comment} -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
             -A KUBE-SVC-{number:016} {comment} -m statistic --mode random --probability 0.5 -j KUBE-SEP-A{number:015}\n\
             -A KUBE-SVC-{number:016} {comment} -j KUBE-SEP-B{number:015}\n\
             -A KUBE-SEP-A{number:015} -s 10.42.{high}.{low}/32 {comment} -j KUBE-MARK-MASQ\n\
             -A KUBE-SEP-A{number:015} -p tcp {comment} -m tcp -j DNAT --to-destination 10.42.{high}.{low}:8080\n\
             -A KUBE-SEP-B{number:015} -s 10.43.{high}.{low}/32 {comment} -j KUBE-MARK-MASQ\n\
             -A KUBE-SEP-B{number:015} -p tcp {comment} -m tcp -j DNAT --to-destination 10.43.{high}.{low}:8080\n"
        );
    }
    text += &chains;
    text += "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n";
    text += "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n";
    text += &rules;
    text + "COMMIT\n"
}
