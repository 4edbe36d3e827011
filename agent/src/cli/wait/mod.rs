//! `gwready wait`: asks health URLs, or a route, until enough of them answer as wanted.
//!
//! In a pipeline it stands in place of `kubectl wait --for=condition=Programmed`, which may never come true in host-network mode.

mod fetch;
mod progress;
mod target;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::args::WaitOptions;
use super::exit::Exit;
use super::{output, report_faults};
use crate::config::{Config, Faults};

use progress::Progress;
use target::{Answer, Target};

/// Between two rounds.
const INTERVAL: Duration = Duration::from_millis(500);
/// One target may take so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits. The configuration is only loaded where this node is meant.
pub(super) fn run(options: &WaitOptions, config: &dyn Fn() -> Result<Config, Faults>) -> Exit {
    let targets = match targets(options, config) {
        Ok(targets) => targets,
        Err(exit) => return exit,
    };
    let needed = options.min.map_or(targets.len(), usize::from);
    if needed > targets.len() {
        output::complain(&format!("gwready: --min {needed} of {} can never be\n", targets.len()));
        return Exit::Usage;
    }
    let begin = Instant::now();
    let deadline = begin.checked_add(options.timeout);
    let mut progress = Progress::new(&targets, needed);
    loop {
        let round = Instant::now();
        let patience =
            deadline.map_or(PATIENCE, |deadline| deadline.saturating_duration_since(round).clamp(Duration::from_millis(50), PATIENCE));
        let answers = ask_all(&targets, patience);
        let good = answers.iter().filter(|answer| answer.good).count();
        progress.show(&answers, deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())));
        if good >= needed {
            progress.end(true, begin.elapsed());
            return Exit::Ok;
        }
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            progress.end(false, begin.elapsed());
            return Exit::NotUp;
        }
        std::thread::sleep(INTERVAL.saturating_sub(round.elapsed()).min(left));
    }
}

/// Asks every target at the same time, so that a dead one does not hold up the others.
fn ask_all(targets: &[Target], patience: Duration) -> Vec<Answer> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = targets.iter().map(|target| scope.spawn(move || target.ask(patience))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Answer::bad("internal fault"))).collect()
    })
}

fn targets(options: &WaitOptions, config: &dyn Fn() -> Result<Config, Faults>) -> Result<Vec<Target>, Exit> {
    let wrong = |sentence: String| {
        output::complain(&format!("gwready: {sentence}\n"));
        Exit::Usage
    };
    if let Some(url) = &options.http {
        return Target::route(url, options.host.as_deref(), options.expect).map(|target| vec![target]).map_err(wrong);
    }
    if options.urls.is_empty() {
        let config = config().map_err(|faults| report_faults(&faults))?;
        return Target::node(&format!("http://{}/healthz", reachable(config.health.listen))).map(|target| vec![target]).map_err(wrong);
    }
    options.urls.iter().map(|url| Target::node(url)).collect::<Result<_, _>>().map_err(wrong)
}

/// The address under which a listener of this host is reached from this host. `[::]` takes IPv4 too: the health port clears IPV6_V6ONLY.
fn reachable(listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() { SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), listen.port()) } else { listen }
}
