//! The arguments. Completions and the manual page come from the same definition.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::parse_duration;

const EXIT_CODES: &str = "\
Exit codes:
  0  ok, up                       64  wrong arguments
  1  not up, or time ran out      69  address in use
  2  could not tell               77  missing privilege (check --require)
  3  no daemon to talk to         78  faulty configuration

Examples:
  gwready check                                 look once, without a daemon
  gwready status                                ask the daemon
  gwready wait --timeout 2m                     until this node is up
  gwready wait --min 2 node-1:9680 node-2:9680 node-3:9680
  gwready drain --for 30m --reason 'kernel update'
  gwready snapshot > node-3.json; gwready explain node-3.json";

/// Tells load balancers whether cilium-envoy on this node serves the gateway's ports.
#[derive(Debug, Parser)]
#[command(name = "gwready", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Arguments {
    /// Configuration file (YAML); without it every key has its default [env: GWREADY_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Override one key, e.g. --set timing.hold=10s or --set mode=load-balancer; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon
    Run,
    /// Look once with everything this process can see, without a daemon
    Check(CheckOptions),
    /// Wait until this node, a number of nodes, or a route is ready
    Wait(WaitOptions),
    /// Ask the daemon for its verdict and everything behind it
    Status(StatusOptions),
    /// Take this node out of the pool; existing connections stay
    Drain(DrainOptions),
    /// End a drain
    Undrain,
    /// Write everything a judgement depends on, for `gwready explain` on any machine
    Snapshot(SnapshotOptions),
    /// Judge a snapshot file again and tell every step
    Explain(ExplainOptions),
    /// Check the configuration: all faults, or the effective configuration
    CheckConfig(CheckConfigOptions),
    /// Is the agent of this pod alive? For the kubelet
    Live(ProbeOptions),
    /// Is the agent of this pod itself ready? For the kubelet
    Ready(ProbeOptions),
    /// Print shell completions
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Print a generated page of the documentation
    #[command(hide = true)]
    Docs {
        /// Which page
        page: Page,
    },
}

/// `gwready check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// Print the status document as JSON
    #[arg(long)]
    pub json: bool,
    /// Exit with 77 if a privilege is missing that would show more
    #[arg(long)]
    pub require: bool,
}

/// `gwready wait`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gwready wait                                      until this node is up
  gwready wait --timeout 2m --all node-1 node-2     until both are (port 9680)
  gwready wait --min 2 http://10.0.0.11:9680/healthz http://10.0.0.12:9680/healthz http://10.0.0.13:9680/healthz
  gwready wait --http http://10.0.0.100/ --host www.example.com --expect 200")]
pub struct WaitOptions {
    /// Give up after this time (exit 1)
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub timeout: Duration,
    /// So many of the nodes must be up at the same time
    #[arg(long, value_name = "N", conflicts_with = "all", value_parser = clap::value_parser!(u16).range(1..))]
    pub min: Option<u16>,
    /// All of the nodes must be up at the same time (default)
    #[arg(long)]
    pub all: bool,
    /// Health URLs of nodes: http://host:port/path, host:port or host; none: this node
    #[arg(value_name = "URL", conflicts_with = "http")]
    pub urls: Vec<String>,
    /// Wait for a route: ask this URL until it answers as expected
    #[arg(long, value_name = "URL", conflicts_with_all = ["min", "all"])]
    pub http: Option<String>,
    /// Host header for --http
    #[arg(long, value_name = "NAME", requires = "http")]
    pub host: Option<String>,
    /// Status that --http must answer with
    #[arg(long, value_name = "STATUS", requires = "http", default_value = "200", value_parser = clap::value_parser!(u16).range(100..600))]
    pub expect: u16,
}

/// `gwready status`.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// Print the status document as JSON
    #[arg(long)]
    pub json: bool,
}

/// A duration that is not over at once.
fn parse_span(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("a drain that ends at once drains nothing: give a longer time, or none".to_owned()),
        span => Ok(span),
    }
}

/// `gwready drain`.
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// End by itself after this time; without it, until `gwready undrain`
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_span)]
    pub duration: Option<Duration>,
    /// Why, shown in the log and the status
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// `gwready snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotOptions {
    /// Look afresh with this process's own privileges instead of asking the daemon
    #[arg(long)]
    pub fresh: bool,
}

/// `gwready explain`.
#[derive(Debug, Args)]
pub struct ExplainOptions {
    /// Snapshot file; - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `gwready check-config`.
#[derive(Debug, Args)]
pub struct CheckConfigOptions {
    /// Configuration file, instead of --config
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `gwready live`, `gwready ready`.
#[derive(Debug, Args)]
pub struct ProbeOptions {
    /// Ask this socket instead of the one in the pod's temporary folder
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// Generated pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Page {
    /// docs/configuration.md
    Configuration,
    /// docs/metrics.md
    Metrics,
    /// docs/verdict.md
    Verdict,
}
