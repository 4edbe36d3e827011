//! A well-behaved probe, and many of them at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::exchange::{Act, End, exchange};

/// Asks `/healthz` once. The error says what was wrong: no connection, a reset, no answer in `patience`, no state line.
pub fn probe(server: SocketAddr, patience: Duration) -> Result<String, String> {
    let request = Act::Send(b"GET /healthz HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n".to_vec());
    let seen = exchange(server, &[request], patience).map_err(|error| format!("{error:#}"))?;
    match (seen.end, seen.reply.lines().find(|line| line.starts_with("state="))) {
        (End::Closed, Some(line)) => Ok(line.to_owned()),
        (end, _) => Err(format!("{end:?} after {:?}: {:?}", seen.waited, seen.reply)),
    }
}

/// What a crowd of probing clients saw.
#[derive(Debug, Default)]
pub struct Tally {
    /// Probes answered as expected.
    pub good: u64,
    /// Everything else, described.
    pub bad: Vec<String>,
    /// The longest wait for an answer.
    pub slowest: Duration,
    /// Answers that took longer than half a second: a SYN was sent twice.
    pub slow: u64,
}

/// Clients that probe until they are stopped.
#[derive(Debug)]
pub struct Probers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Tally>>,
}

impl Probers {
    /// Starts `clients` threads that probe `server` every `interval` and expect a state line that begins with `expected`.
    #[must_use]
    pub fn start(server: SocketAddr, clients: usize, interval: Duration, expected: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..clients)
            .map(|_| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    let mut tally = Tally::default();
                    while !stop.load(Ordering::Relaxed) {
                        let begin = Instant::now();
                        match probe(server, Duration::from_secs(3)) {
                            Ok(line) if line.starts_with(expected) => tally.good += 1,
                            Ok(line) => tally.bad.push(line),
                            Err(error) => tally.bad.push(error),
                        }
                        tally.slowest = tally.slowest.max(begin.elapsed());
                        tally.slow += u64::from(begin.elapsed() > Duration::from_millis(500));
                        thread::sleep(interval.saturating_sub(begin.elapsed()));
                    }
                    tally
                })
            })
            .collect();
        Self { stop, threads }
    }

    /// Ends them and adds up what they saw.
    #[must_use]
    pub fn finish(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().fold(Tally::default(), |mut sum, thread| {
            match thread.join() {
                Ok(tally) => {
                    sum.good += tally.good;
                    sum.bad.extend(tally.bad);
                    sum.slowest = sum.slowest.max(tally.slowest);
                    sum.slow += tally.slow;
                }
                Err(_) => sum.bad.push("a client panicked".to_owned()),
            }
            sum
        })
    }
}
