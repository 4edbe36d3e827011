//! The thread that reads Envoy's admin interface at an interval and shares the latest reading. The observer takes what is
//! there; it never waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gwready_core::facts::envoy::EnvoyAdmin;
use gwready_core::facts::{Reading, Unavailable};
use gwready_core::time::Window;

use super::session::AdminSession;
use crate::clock;

/// How the admin interface is read.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// Path of the socket.
    pub socket: PathBuf,
    /// From the end of one read to the begin of the next.
    pub interval: Duration,
    /// Bound of one whole read.
    pub deadline: Duration,
}

impl AdminSettings {
    /// Every second, two seconds at most.
    #[must_use]
    pub const fn new(socket: PathBuf) -> Self {
        Self { socket, interval: Duration::from_secs(1), deadline: Duration::from_secs(2) }
    }
}

/// The latest reading, shared. Cheap to clone; never blocks.
#[derive(Debug, Clone, Default)]
pub struct LatestAdmin {
    reading: Arc<ArcSwap<Reading<EnvoyAdmin>>>,
}

impl LatestAdmin {
    /// The latest reading; [`Reading::NotRead`] before the first one has ended.
    #[must_use]
    pub fn get(&self) -> Arc<Reading<EnvoyAdmin>> {
        self.reading.load_full()
    }

    /// Replaces it. For readers, and for tests of what depends on it.
    pub fn set(&self, reading: Reading<EnvoyAdmin>) {
        self.reading.store(Arc::new(reading));
    }
}

/// The running reader. Ends its thread when dropped.
#[derive(Debug)]
pub struct EnvoyAdminReader {
    latest: LatestAdmin,
    // None only while it is dropped.
    ask: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EnvoyAdminReader {
    /// Starts the thread. `wake` is called from it after each reading that says something else than the one before: it must
    /// not block.
    ///
    /// # Errors
    /// When the thread can't be made.
    pub fn spawn(settings: AdminSettings, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let latest = LatestAdmin::default();
        let (ask, asked) = mpsc::channel();
        let shared = latest.clone();
        let run = move || {
            let mut session = AdminSession::new(settings.socket.clone());
            loop {
                let reading = read_admin(&mut session, settings.deadline);
                let news = says_else(&shared.get(), &reading);
                shared.set(reading);
                if news {
                    wake();
                }
                if asked.recv_timeout(settings.interval) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                // Several requests are one.
                while asked.try_recv().is_ok() {}
            }
        };
        let thread = std::thread::Builder::new().name("envoy-admin".to_owned()).spawn(run)?;
        Ok(Self { latest, ask: Some(ask), thread: Some(thread) })
    }

    /// Where the latest reading is.
    #[must_use]
    pub fn latest(&self) -> LatestAdmin {
        self.latest.clone()
    }

    /// Reads again at once instead of at the end of the interval: something happened to Envoy.
    pub fn ask_now(&self) {
        if let Some(ask) = &self.ask {
            // An ended thread shows in `has_ended`.
            let _ = ask.send(());
        }
    }

    /// The thread is gone, which it never should be while the agent runs.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for EnvoyAdminReader {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // Bounded by the deadline of one read. A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// One reading, at once and on the calling thread, within `deadline`.
pub fn read_admin(session: &mut AdminSession, deadline: Duration) -> Reading<EnvoyAdmin> {
    let begin = clock::mono();
    let result = session.read(Instant::now() + deadline);
    let window = Window { begin, end: clock::mono() };
    match result {
        Ok(value) => Reading::Observed { value, window },
        Err(error) => Reading::Unavailable(Unavailable { why: error.why(), detail: error.detail(), window }),
    }
}

/// Whether a judgement could differ: counters that only grow and times do not count.
fn says_else(before: &Reading<EnvoyAdmin>, after: &Reading<EnvoyAdmin>) -> bool {
    match (before, after) {
        (Reading::Observed { value: before, .. }, Reading::Observed { value: after, .. }) => {
            without_counters(before) != without_counters(after)
        }
        (Reading::Unavailable(before), Reading::Unavailable(after)) => before.why != after.why,
        _ => true,
    }
}

fn without_counters(admin: &EnvoyAdmin) -> EnvoyAdmin {
    let mut admin = admin.clone();
    admin.updates_rejected = 0;
    admin.listeners.iter_mut().for_each(|listener| listener.secrets_not_ready = None);
    admin
}
