//! `gwready-bench overhead`: new connections per second through Envoy with the agent's eBPF programs attached and
//! detached, in turn; and what one event costs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use gwready::events::load::{Events, Options as Load, load};

use super::samples::{Samples, to_f64};
use super::table::{Table, figure};
use super::wrk;
use crate::listener::HOST_OK;
use crate::{Envoy, Node};

/// How often and how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Pairs, attached and detached in turn, each second pair the other way round.
    pub pairs: u32,
    /// Span of each measurement.
    pub span: Duration,
}

/// Connections at a time.
const CONNECTIONS: u32 = 16;

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let node = Node::builder().addresses(1).without_ipv6().build()?;
    let envoy = Envoy::start(&node)?;
    wrk::make_room(node.outside())?;
    let pid = u32::try_from(envoy.pid()?)?;
    // The programs tell namespaces apart by that of the thread which loads them.
    node.enter(|| compare(&node, pid, options))
}

fn compare(node: &Node, envoy: u32, options: &Options) -> Result<()> {
    let address = node.addresses().first().copied().context("no address")?;
    let rate = || {
        Ok::<_, anyhow::Error>(wrk::run(node.outside(), SocketAddr::new(address, 80), "/", HOST_OK, CONNECTIONS, options.span)?.per_second)
    };
    rate()?;
    let (mut attached, mut detached, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    for pair in 0..options.pairs {
        eprintln!("pair {} of {}", pair + 1, options.pairs);
        let without_first = if pair % 2 == 0 { None } else { Some(rate()?) };
        let events = attach(envoy)?;
        let with = rate()?;
        drop(events);
        let without = without_first.map_or_else(rate, Ok)?;
        attached.push(with);
        detached.push(without);
        ratios.push(with / without);
    }
    let mut table = Table::new(&["connections per second through Envoy", "median", "ratio"]);
    table.row(&[&"programs detached", &figure(detached.median()), &""]);
    table.row(&[&"programs attached", &figure(attached.median()), &figure(ratios.median())]);
    println!("{table}\nRatio: median of {} pairs; to reach: >= 0.99.\n", options.pairs);
    per_event(envoy, rate)
}

fn attach(envoy: u32) -> Result<Events> {
    let mut events = load(Load { own_namespace_only: true, debug: false })?;
    for program in events.programs() {
        ensure!(program.attached.is_ok(), "{program:?}");
    }
    events.watch.set_ports(&BTreeSet::from([80, 443]))?;
    events.watch.set_pids(&BTreeSet::from([envoy]))?;
    Ok(events)
}

/// Runs the same load with the kernel's own accounting of BPF programs, which is off otherwise because it costs time.
fn per_event(envoy: u32, rate: impl Fn() -> Result<f64>) -> Result<()> {
    let before = run_times()?;
    let _events = attach(envoy)?;
    let ours: BTreeSet<u32> = run_times()?.into_keys().filter(|id| !before.contains_key(id)).collect();
    let accounting = enable_stats(Stats::RunTime).context("the kernel's accounting of BPF programs")?;
    let (begin, from) = (Instant::now(), run_times()?);
    let per_second = rate()?;
    let (span, to) = (begin.elapsed(), run_times()?);
    drop(accounting);
    let mut table = Table::new(&["program", "runs per s", "ns per run", "% of one core", "runs per connection"]);
    for (id, after) in to.into_iter().filter(|(id, _)| ours.contains(id)) {
        let earlier = from.get(&id);
        let runs = after.runs - earlier.map_or(0, |one| one.runs);
        let time = after.time - earlier.map_or(Duration::ZERO, |one| one.time);
        let runs = to_f64(usize::try_from(runs)?);
        let each = time.as_secs_f64() * 1e9 / runs;
        let per_s = runs / span.as_secs_f64();
        let share = time.as_secs_f64() / span.as_secs_f64() * 100.0;
        table.row(&[&after.name, &figure(per_s), &figure(each), &figure(share), &figure(per_s / per_second)]);
    }
    println!(
        "{table}\nAt {} connections per second. Runs count every TCP state change and signal of the host: other load counts too.",
        figure(per_second)
    );
    Ok(())
}

struct RunTime {
    name: String,
    runs: u64,
    time: Duration,
}

/// Every loaded program by its id. One that ends meanwhile is left out.
fn run_times() -> Result<BTreeMap<u32, RunTime>> {
    let programs = loaded_programs().flatten();
    Ok(programs
        .map(|program| {
            let name = program.name_as_str().unwrap_or("?").to_owned();
            (program.id(), RunTime { name, runs: program.run_count(), time: program.run_time() })
        })
        .collect())
}
