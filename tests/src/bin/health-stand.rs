//! The agent's real health port with a verdict that comes over standard input: a line `up`, `drain` or `down` publishes it.
//! For tests of takeover, limits and real load balancers, where the rest of the agent would only stand in the way.
//!
//! Prints `serving ADDRESS [AGENT_CHECK_ADDRESS]` once it serves and `published STATE` for each line. On TERM it hands over
//! like the agent and ends.

use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use gwready::health::{BindError, HealthSettings, Unready, bind};
use gwready::publish::Publisher;
use gwready_core::verdict::State;
use gwready_tests::health::verdict::{answers, verdict};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

struct Options {
    settings: HealthSettings,
    first: Option<State>,
    delay: Duration,
    judged: Vec<IpAddr>,
}

fn main() -> Result<ExitCode> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let options = parse_options()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(options))
}

async fn run(options: Options) -> Result<ExitCode> {
    let mut term = signal(SignalKind::terminate())?;
    let bound = match bind(options.settings) {
        Err(error @ BindError::InUse { .. }) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(69));
        }
        bound => bound?,
    };
    let publisher = Arc::new(Publisher::new(answers()));
    if let (Some(first), true) = (options.first, options.delay.is_zero()) {
        publisher.publish(verdict(first, &options.judged));
    } else if let Some(first) = options.first {
        let (publisher, judged) = (Arc::clone(&publisher), options.judged.clone());
        tokio::spawn(async move {
            tokio::time::sleep(options.delay).await;
            publisher.publish(verdict(first, &judged));
        });
    }
    read_states(Arc::clone(&publisher), options.judged);
    let mut serving = bound.serve_when_ready(publisher).await?;
    let addresses = [serving.address(), serving.agent_check_address()];
    let shown: Vec<String> = addresses.into_iter().flatten().map(|address| address.to_string()).collect();
    println!("serving {}", shown.join(" "));
    std::io::stdout().flush()?;
    tokio::select! {
        _ = term.recv() => serving.retire().await,
        message = serving.failed() => bail!(message),
    }
    Ok(ExitCode::SUCCESS)
}

/// A thread of its own: standard input has no asynchronous form worth having.
fn read_states(publisher: Arc<Publisher>, judged: Vec<IpAddr>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(state) = State::ALL.into_iter().find(|state| state.as_str() == line.trim()) {
                publisher.publish(verdict(state, &judged));
                println!("published {state}");
            }
        }
    });
}

fn parse_options() -> Result<Options> {
    let mut options = Options { settings: HealthSettings::default(), first: None, delay: Duration::ZERO, judged: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => options.settings.listen = value.parse()?,
            "--agent-check" => options.settings.agent_check = Some(value.parse::<SocketAddr>()?),
            "--unready" => options.settings.unready = if value == "close" { Unready::Close } else { Unready::Status },
            "--state" => options.first = State::ALL.into_iter().find(|state| state.as_str() == value),
            "--delay-ms" => options.delay = Duration::from_millis(value.parse()?),
            "--judged" => options.judged.push(value.parse()?),
            "--descriptors" => {
                let limit = value.parse()?;
                setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) })?;
                options.settings.limits = options.settings.limits.within_descriptors(limit);
            }
            _ => bail!("unknown option {name}"),
        }
    }
    Ok(options)
}
