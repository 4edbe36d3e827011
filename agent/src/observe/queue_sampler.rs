//! Close samples of accept queues that look as if they stood still, on a thread of its own, so that no pass waits for them.
//!
//! A queue that is kept at its limit by more clients than Envoy can take differs from a stuck one only in the short gaps that
//! accepts leave (`gwready_core::memory_queues`). Sleeps while nothing is suspected. Must not conclude anything.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gwready_core::facts::queues::{QueueSample, QueueSamples};

use super::sockets::SocketReader;
use crate::clock;

/// Shortest pause between two samples.
const MIN_PAUSE: Duration = Duration::from_millis(4);
/// A pause lasts at least this many times what the sample took: 2 % of one processor at most, however many listeners there are.
const PAUSE_FACTOR: u32 = 50;
/// Longest pause: a slow table must not starve the history.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Samples kept if nobody takes them; the newest win.
const MAX_SAMPLES: usize = 4096;

#[derive(Debug, Default)]
struct State {
    ports: Vec<u16>,
    suspects: BTreeSet<u64>,
    samples: Vec<QueueSample>,
    ends: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running sampler. Ends its thread when dropped.
#[derive(Debug)]
pub struct QueueSampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl QueueSampler {
    /// Starts the thread, in the network namespace of the caller. It needs no capability.
    ///
    /// # Errors
    /// When the thread can't be made.
    pub fn spawn() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("queue-sampler".to_owned()).spawn(move || run(&own))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Sets what is sampled from now on: sockets by cookie, all of them on one of `ports`. No suspects: nothing is read.
    pub fn watch(&self, ports: &[u16], suspects: impl IntoIterator<Item = u64>) {
        let mut state = self.shared.lock();
        state.suspects = suspects.into_iter().collect();
        if state.ports != ports {
            state.ports = ports.to_vec();
        }
        self.shared.changed.notify_one();
    }

    /// The samples since the last call, in the order of time.
    #[must_use]
    pub fn take(&self) -> QueueSamples {
        QueueSamples(std::mem::take(&mut self.shared.lock().samples))
    }

    /// The thread is gone, which it never should be while the agent runs.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for QueueSampler {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    let mut reader = SocketReader::new();
    let mut pause = MIN_PAUSE;
    loop {
        let mut state = shared.lock();
        while !state.ends && state.suspects.is_empty() {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + pause;
        while !state.ends && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.ends {
            return;
        }
        let ports = state.ports.clone();
        drop(state);
        let begin = Instant::now();
        let rows = reader.read_listeners(&ports);
        pause = begin.elapsed().saturating_mul(PAUSE_FACTOR).clamp(MIN_PAUSE, MAX_PAUSE);
        // A failed read is no sample: missing beats wrong, and the pass says what can't be read.
        let Ok(rows) = rows else { continue };
        let at = clock::mono();
        let mut state = shared.lock();
        let state = &mut *state;
        let suspected = rows.iter().filter(|row| state.suspects.contains(&row.id.cookie));
        state.samples.extend(suspected.map(|row| QueueSample { cookie: row.id.cookie, length: row.queue_length, at }));
        let excess = state.samples.len().saturating_sub(MAX_SAMPLES);
        state.samples.drain(..excess);
    }
}
