//! `gwready-bench pass`: what one pass, an idle minute and the memory of the agent cost on a crowded node, beside
//! `ss -tlnp`, which answers a smaller question.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::samples::Samples;
use super::table::{Table, figure};
use super::{cost, passes};
use crate::lbmaps::LbMaps;
use crate::{Agent, Crowd, Envoy, Node, paths};

/// How crowded the node gets, and for how long it is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Processes besides.
    pub processes: usize,
    /// Files that all of them together have open.
    pub files: u32,
    /// Listeners of another network namespace.
    pub listeners: u32,
    /// Connections in the node's own.
    pub connections: u32,
    /// Entries of Cilium's load-balancer map.
    pub entries: u32,
    /// Span of each measurement of passes.
    pub span: Duration,
    /// Span after which memory is read, and over which idle time is counted.
    pub idle: Duration,
}

/// Runs of `ss` per row.
const PEER_RUNS: usize = 3;
/// Spans of measurement per row.
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let node = Node::new()?;
    let _envoy = Envoy::start(&node)?;
    let mut maps = node.enter(|| LbMaps::create(&node.bpffs(), options.entries.max(1024)))?;
    // Twenty whole passes a second instead of one: more of them in a short time; each reads the same.
    let quick = Agent::builder(&node).set("timing.resync", "50ms").set("timing.lb_poll", "50ms").set("probe.enabled", false);
    let mut agent = quick.clone().start()?;
    agent.wait_state("state=up", PATIENCE)?;

    let mut table =
        Table::new(&["node with, added up", "passes", "mean us", "50% <= us", "99% <= us", "cpu us", "ss -tlnp ms", "ss / mean"]);
    let mut row = |label: &str| -> Result<()> {
        eprintln!("measuring: {label}");
        let costs: Vec<_> = (0..ROUNDS).map(|_| passes::measure(&agent, options.span)).collect::<Result<_>>()?;
        let ours = passes::median(&costs);
        let peer = socket_list(&node)?;
        let shown = [ours.mean_us, ours.half_below_us, ours.most_below_us, ours.cpu_us, peer * 1e3, peer * 1e6 / ours.mean_us].map(figure);
        let [mean, half, most, cpu, peer, ratio] = &shown;
        table.row(&[&label, &figure(ours.passes), mean, half, most, cpu, peer, ratio]);
        Ok(())
    };
    row("nothing else")?;
    let share = options.files / u32::try_from(options.processes.max(1))?;
    let _processes = Crowd::processes(node.space(), options.processes, share)?;
    row(&format!("{} processes, {} files", options.processes, options.files))?;
    let _listeners = Crowd::listeners_elsewhere(options.listeners)?;
    row(&format!("{} listeners elsewhere", options.listeners))?;
    let _connections = Crowd::connections(node.space(), options.connections)?;
    row(&format!("{} connections here", options.connections))?;
    node.enter(|| maps.fill(options.entries))?;
    row(&format!("{} LB entries", options.entries))?;
    agent.stop()?;
    println!("{table}\nTo reach: a pass under 1000 us, and not growing.\n");
    idle(&node, options)
}

/// Median of some runs of `ss -tlnp` in the node, seconds.
fn socket_list(node: &Node) -> Result<f64> {
    let mut samples = Samples::default();
    for _ in 0..PEER_RUNS {
        let begin = Instant::now();
        let output = node.command("ss").arg("-tlnp").output()?;
        samples.push(begin.elapsed().as_secs_f64());
        ensure!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(":80 "), "ss shows no gateway");
    }
    Ok(samples.median())
}

/// The agent as configured by default, in the crowded node, left alone.
fn idle(node: &Node, options: &Options) -> Result<()> {
    let begin = Instant::now();
    let mut agent = Agent::builder(node).start()?;
    agent.wait_state("state=up", PATIENCE)?;
    let started = begin.elapsed();
    // Loading the eBPF programs and the first walk of /proc belong to the start; then comes the idle span itself.
    thread::sleep(Duration::from_secs(5));
    eprintln!("measuring: {} s of the agent left alone", options.idle.as_secs());
    let (from, cpu) = (Instant::now(), cost::cpu_time(agent.pid(), None)?);
    thread::sleep(options.idle);
    let share = (cost::cpu_time(agent.pid(), None)? - cpu).as_secs_f64() / from.elapsed().as_secs_f64();
    let mib = |field| Ok::<_, anyhow::Error>(figure(f64::from(u32::try_from(cost::memory_kib(agent.pid(), field)?)?) / 1024.0));
    let size = f64::from(u32::try_from(fs::metadata(paths::gwready()?)?.len())?) / f64::from(1 << 20);
    let mut table = Table::new(&["in that node, by default", "seen", "to reach"]);
    table.row(&[&"start to state=up, ms", &started.as_millis(), &"-"]);
    table.row(&[&"resident after the idle span, MiB", &mib("VmRSS")?, &"< 10"]);
    table.row(&[&"resident at the peak, MiB", &mib("VmHWM")?, &"-"]);
    table.row(&[&"idle, % of one core", &figure(share * 100.0), &"< 0.2"]);
    table.row(&[&"open descriptors", &cost::descriptors(agent.pid())?, &"-"]);
    table.row(&[&"binary, MiB", &figure(size), &"< 10"]);
    println!("{table}");
    agent.stop()
}
