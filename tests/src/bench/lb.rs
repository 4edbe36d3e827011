//! `gwready-bench lb`: the cost of a pass with few and with many entries in Cilium's load-balancer map, 20 local addresses.

use std::time::Duration;

use anyhow::Result;

use super::passes::{self, PassCost};
use super::table::{Table, figure};
use crate::lbmaps::LbMaps;
use crate::{Agent, Envoy, Node};

/// How many entries, how often, how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Few.
    pub few: u32,
    /// Many.
    pub many: u32,
    /// Pairs of measurements, few and many in turn.
    pub pairs: u32,
    /// Span of each.
    pub span: Duration,
}

/// Local addresses of each family.
const ADDRESSES: u8 = 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let node = Node::builder().addresses(ADDRESSES).build()?;
    let _envoy = Envoy::start(&node)?;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for pair in 1..=options.pairs {
        eprintln!("pair {pair} of {}", options.pairs);
        few.push(with_entries(&node, options.few, options)?);
        many.push(with_entries(&node, options.many, options)?);
    }
    let (few, many) = (passes::median(&few), passes::median(&many));
    let mut table = Table::new(&["entries, 20 addresses", "passes", "mean us", "50% <= us", "99% <= us", "cpu us"]);
    for (entries, cost) in [(options.few, &few), (options.many, &many)] {
        let shown = [cost.mean_us, cost.half_below_us, cost.most_below_us, cost.cpu_us].map(figure);
        let [mean, half, most, cpu] = &shown;
        table.row(&[&entries, &figure(cost.passes), mean, half, most, cpu]);
    }
    let ratio = |pick: fn(&PassCost) -> f64| figure(pick(&many) / pick(&few));
    table.row(&[&"ratio (to reach: < 1.2)", &"", &ratio(|cost| cost.mean_us), &"", &"", &ratio(|cost| cost.cpu_us)]);
    println!("{table}");
    println!(
        "cpu: of the observer thread per pass. It includes the walk for L7 frontends that follows a pass, a bounded number\nof rows a time, which few entries need not."
    );
    Ok(())
}

/// Maps made anew with so many entries, under an agent of its own.
fn with_entries(node: &Node, entries: u32, options: &Options) -> Result<PassCost> {
    let _maps = node.enter(|| {
        let mut maps = LbMaps::create(&node.bpffs(), options.many.max(1024))?;
        maps.fill(entries)?;
        Ok(maps)
    })?;
    let builder = Agent::builder(node).set("timing.resync", "50ms").set("timing.lb_poll", "50ms").set("probe.enabled", false);
    let mut agent = builder.start()?;
    agent.wait_state("state=up", PATIENCE)?;
    let cost = passes::measure(&agent, options.span)?;
    agent.stop()?;
    Ok(cost)
}
