//! Measures the agent beside its peers: `cargo xtask bench <name>` and `cargo xtask soak` build and start this.
//!
//! Only reads the command line, says how busy the machine is and how to repeat the run; the rest is `gwready_tests::bench`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use gwready_tests::bench::{cost, health, latency, lb, listener, netfilter, overhead, pass, soak};

#[derive(Parser)]
#[command(name = "gwready-bench", about = "Figures of the agent beside its peers, in the same run")]
struct Arguments {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Subcommand)]
enum Measurement {
    /// One pass on a crowded node beside `ss -tlnp`; idle time, memory, size
    Pass {
        #[arg(long, default_value_t = 1500)]
        processes: usize,
        #[arg(long, default_value_t = 150_000)]
        files: u32,
        #[arg(long, default_value_t = 15_000)]
        listeners: u32,
        #[arg(long, default_value_t = 50_000)]
        connections: u32,
        #[arg(long, default_value_t = 60_000)]
        entries: u32,
        /// Seconds of each measurement of passes
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Seconds of the idle span
        #[arg(long, default_value_t = 60)]
        idle: u64,
    },
    /// One pass with few and with many entries in Cilium's load-balancer map
    Lb {
        #[arg(long, default_value_t = 10)]
        few: u32,
        #[arg(long, default_value_t = 60_000)]
        many: u32,
        #[arg(long, default_value_t = 5)]
        pairs: u32,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// From the close of the last listener to the verdict and to a client's first 503
    Latency {
        #[arg(long, default_value_t = 500)]
        closes: u32,
        /// Closes with eBPF off
        #[arg(long, default_value_t = 60)]
        polled: u32,
    },
    /// Connections per second through Envoy with the eBPF programs attached and detached
    Overhead {
        #[arg(long, default_value_t = 7)]
        pairs: u32,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// Rate of /healthz beside nginx
    Health {
        #[arg(long, default_value_t = 5)]
        pairs: u32,
        #[arg(long, default_value_t = 16)]
        connections: u32,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// Many netfilter rules: what a change costs, and what they cost when nothing changes
    Netfilter {
        #[arg(long, default_value_t = 20_000)]
        rules: usize,
        #[arg(long, default_value_t = 9)]
        rounds: u32,
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// Churn without one wrong transition
    Soak {
        #[arg(long, default_value_t = 30)]
        minutes: u64,
    },
    /// A listener that obeys its standard input; started by `latency`
    #[command(hide = true)]
    Listener { address: SocketAddr },
}

fn main() -> Result<()> {
    let span = Duration::from_secs;
    let measurement = match Arguments::parse().measurement {
        Measurement::Listener { address } => return listener::serve(address),
        other => other,
    };
    announce()?;
    match measurement {
        Measurement::Pass { processes, files, listeners, connections, entries, seconds, idle } => {
            pass::run(&pass::Options { processes, files, listeners, connections, entries, span: span(seconds), idle: span(idle) })
        }
        Measurement::Lb { few, many, pairs, seconds } => lb::run(&lb::Options { few, many, pairs, span: span(seconds) }),
        Measurement::Latency { closes, polled } => latency::run(&latency::Options { closes, polled }),
        Measurement::Overhead { pairs, seconds } => overhead::run(&overhead::Options { pairs, span: span(seconds) }),
        Measurement::Health { pairs, connections, seconds } => health::run(&health::Options { pairs, connections, span: span(seconds) }),
        Measurement::Netfilter { rules, rounds, seconds } => netfilter::run(&netfilter::Options { rules, rounds, span: span(seconds) }),
        Measurement::Soak { minutes } => {
            let report = soak::run(span(minutes * 60))?;
            println!("{}", report.table());
            report.judge()
        }
        Measurement::Listener { address } => listener::serve(address),
    }
}

/// Figures mean nothing without the machine: its load and build stand above them, with the way to repeat them.
fn announce() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = if arguments.first().is_some_and(|name| name == "soak") { "cargo xtask" } else { "cargo xtask bench" };
    let build = if cfg!(debug_assertions) { " THIS IS NO RELEASE BUILD." } else { "" };
    println!("$ {command} {}", arguments.join(" "));
    println!("load average before: {}, processors: {}.{build}\n", cost::load_average()?, std::thread::available_parallelism()?);
    Ok(())
}
