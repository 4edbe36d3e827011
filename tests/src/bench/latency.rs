//! `gwready-bench latency`: from the close of the last listener to the published verdict, and to the first 503 that a
//! client gets, with eBPF and without; and beside them what the machine itself takes to wake a thread.
//!
//! The first is the agent's own word (`detected_in` of the transition: the kernel's time stamp to the publication). The
//! second is measured from outside: just before close(2) to the reply in hand of a client that asks `/healthz` again and again
//! with a short pause, a connection per request. Without the pause client and answers keep two processors busy, and what is
//! measured is how long the agent waits for one.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::listener::{Switch, monotonic};
use super::samples::Samples;
use super::table::{Table, figure};
use crate::agent::HEALTH_PORT;
use crate::wait::eventually;
use crate::{Agent, Node, client};

/// How many closes of each kind.
#[derive(Debug, Clone)]
pub struct Options {
    /// With eBPF.
    pub closes: u32,
    /// Without: each takes up to a second to be seen.
    pub polled: u32,
}

/// Everything measured with one configuration.
#[derive(Default)]
struct Seen {
    published: Samples,
    /// Changes that no kernel event brought: seen by the second look or by polling.
    without_event: usize,
    client: Samples,
    /// From a message to a waiting thread until it runs: no event can be answered sooner, and the machine's own tail is in all of it.
    wake: Samples,
}

const PATIENCE: Duration = Duration::from_secs(20);
/// Between two questions of the client.
const PAUSE: Duration = Duration::from_micros(200);
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    let node = Node::builder().addresses(1).without_ipv6().build()?;
    let mut table = Table::new(&["from the close of the last listener, us", "closes", "p50", "p99", "max"]);
    for (ebpf, closes) in [(true, options.closes), (false, options.polled)] {
        eprintln!("measuring: {closes} closes, eBPF {}", if ebpf { "on" } else { "off" });
        let seen = measure(&node, ebpf, closes)?;
        let mut row = |label: &str, samples: &Samples| {
            let shown = [samples.median(), samples.quantile(0.99), samples.max()].map(figure);
            let [p50, p99, max] = &shown;
            table.row(&[&label, &samples.count(), p50, p99, max]);
        };
        if ebpf {
            row("eBPF on: kernel event to published", &seen.published);
            row("eBPF on: close() to first 503 of a client", &seen.client);
            row("this machine: a waiting thread woken meanwhile", &seen.wake);
            eprintln!("not brought by an event: {} of {closes}", seen.without_event);
        } else {
            row("eBPF off: close() to first 503 of a client", &seen.client);
        }
    }
    println!("{table}\nTo reach on an idle machine: kernel event to published p50 < 200 us, p99 < 1000 us.");
    Ok(())
}

fn measure(node: &Node, ebpf: bool, closes: u32) -> Result<Seen> {
    let address = node.addresses().first().copied().context("no address")?;
    let mut switch = Switch::start(node, SocketAddr::new(address, 80))?;
    switch.open()?;
    let builder = Agent::builder(node).set("ports", json!([80])).set("ebpf", ebpf);
    let mut agent = builder.set("timing.min_up", "0s").set("probe.enabled", false).start()?;
    agent.wait_state("state=up", PATIENCE)?;
    if ebpf {
        agent.wait_log("programs attached", PATIENCE)?;
    }
    let mut seen = Seen::default();
    let (begin, told) = (channel(), channel());
    let (ping, pong) = (channel::<Instant>(), channel());
    thread::scope(|scope| {
        scope.spawn(move || ping.1.iter().try_for_each(|sent| pong.0.send(sent.elapsed())));
        let outside = node.outside();
        let client = scope.spawn(move || outside.enter(move || poll(address, &begin.1, &told.0)));
        let outcome = (0..closes).try_for_each(|turn| {
            // Spread over the polling period, else every close would follow a tick.
            let phase = if ebpf { Duration::from_millis(3) } else { Duration::from_millis(u64::from(turn * 619 % 1000)) };
            thread::sleep(phase);
            begin.0.send(())?;
            ping.0.send(Instant::now())?;
            seen.wake.push(pong.1.recv_timeout(PATIENCE).context("no wake")?.as_secs_f64() * 1e6);
            let closed = switch.close()?;
            let first = told.1.recv_timeout(PATIENCE).context("no 503")?;
            seen.client.push(first.saturating_sub(closed).as_secs_f64() * 1e6);
            // Published first, told afterwards: the history may lag a moment behind the answer.
            match eventually(PATIENCE, || detected_in(&agent))? {
                Some(took) => seen.published.push(took.as_secs_f64() * 1e6),
                None => seen.without_event += 1,
            }
            switch.open()?;
            agent.wait_state("state=up", PATIENCE).map(drop)
        });
        drop((begin.0, ping.0));
        let polled = client.join().map_err(|_| anyhow::anyhow!("the client panicked"))?;
        polled.and(outcome)
    })?;
    agent.stop()?;
    Ok(seen)
}

/// The client: once told to begin, asks until the answer is a 503, and tells when it had that one.
fn poll(address: IpAddr, begin: &Receiver<()>, tell: &Sender<Duration>) -> Result<()> {
    let to = SocketAddr::new(address, HEALTH_PORT);
    while begin.recv().is_ok() {
        let end = Instant::now() + PATIENCE;
        while !client::exchange(to, REQUEST, PATIENCE)?.starts_with(b"HTTP/1.1 503") {
            ensure!(Instant::now() < end, "still no 503");
            // The rate of questions, not a wait for a condition.
            thread::sleep(PAUSE);
        }
        tell.send(monotonic())?;
    }
    Ok(())
}

/// `detected_in` of the last transition, which must be the one to down.
fn detected_in(agent: &Agent) -> Result<Option<Duration>> {
    let (status, body) = agent.admin("/status")?;
    ensure!(status == 200, "/status: {status}");
    let status: Value = serde_json::from_str(&body)?;
    let last = status["history"].as_array().and_then(|history| history.last()).context("no history")?;
    ensure!(last["to"] == "down", "the last transition is {last}");
    let fields = last["line"]["fields"].as_array().context("no fields")?;
    let text = fields.iter().find(|field| field[0] == "detected_in").and_then(|field| field[1].as_str());
    text.map(|text| parse_age(text).with_context(|| format!("detected_in={text}"))).transpose()
}

/// `180us`, `1ms`, `2s`: the largest unit alone, which is all that the agent shows below a minute.
fn parse_age(text: &str) -> Option<Duration> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, nanos) = units.into_iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, nanos)))?;
    Some(Duration::from_nanos(number * nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_of_the_transition_line_are_read() {
        let read = ["180us", "12ms", "3s", "900ns", "3d4h"].map(parse_age);
        let expected = [180_000, 12_000_000, 3_000_000_000, 900].map(|nanos| Some(Duration::from_nanos(nanos)));
        assert_eq!(read[..4], expected);
        assert_eq!(read[4], None);
    }
}
