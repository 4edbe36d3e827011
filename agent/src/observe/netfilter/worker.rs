//! The thread that keeps netfilter's answer for the endpoints current, so that no pass waits for it: it hears of changes, reads
//! the rules, has them followed, keeps the answers and lets the rules go. Bursts of changes are one read at a time with a pause
//! that grows with what a read costs. Must not judge.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gwready_core::facts::steering::NetfilterFacts;
use gwready_core::facts::{Reading, Why};
use gwready_core::time::{Mono, Window};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::follow::Wanted;
use super::reader::{Mark, RuleReader};
use super::watch::RuleWatch;
use crate::clock;

/// Called from the thread when it has something new: a pass should run.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A look is followed by a pause of this many times its CPU time: changes without end keep a tenth of a core busy at most. Not of its
/// length: on a busy machine that is mostly waiting, and every pause would be the longer for it.
const REST: u32 = 9;
/// Shortest pause: changes in a row that a tool makes one by one are a few reads.
const SHORTEST_REST: Duration = Duration::from_millis(5);
/// Legacy tables tell nobody of their changes: a look at them costs this part of a core, at these intervals.
const LOOK_SHARE: u32 = 2000;
const SHORTEST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_secs(30);
/// Sets that packets fill or that expire change without a notice: everything is read anew after this time, or later if it is long.
const WHOLE_SHARE: u32 = 1000;
const WHOLE_LOOK: Duration = Duration::from_secs(30);
/// Reads in a row that a changing rule set may disturb before that is said.
const DISTURBED: u32 = 5;

#[derive(Debug, Default)]
struct State {
    wanted: Wanted,
    /// Counts the changes of `wanted`.
    order: u64,
    /// The order that `reading` answers.
    answered: u64,
    reading: Reading<NetfilterFacts>,
    ends: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    answered: Condvar,
    bell: OwnedFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // Full only after 2^64 - 2 rings that nobody heard; then it is readable anyway.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// The running thread. Ends with this value.
#[derive(Debug)]
pub struct NetfilterReader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl NetfilterReader {
    /// Starts the thread, with the capabilities and in the network namespace of the caller. Nothing is read before
    /// [`NetfilterReader::want`].
    ///
    /// # Errors
    /// When the thread or its eventfd can't be made.
    pub fn spawn(wake: Wake) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { state: Mutex::default(), answered: Condvar::new(), bell });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("gwready-netfilter".to_owned()).spawn(move || Worker::new(own, wake).run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Sets what the rules are followed for and waits for the answer, `patience` at most. The same as before: nothing is waited for.
    pub fn want(&self, wanted: Wanted, patience: Duration) {
        let mut state = self.shared.lock();
        if state.order > 0 && state.wanted == wanted {
            return;
        }
        state.wanted = wanted;
        state.order += 1;
        let order = state.order;
        self.shared.ring();
        // Too late is no answer yet: the reading says for which endpoints it is.
        drop(self.shared.answered.wait_timeout_while(state, patience, |state| state.answered < order));
    }

    /// The latest reading; [`Reading::NotRead`] before the first one has ended.
    #[must_use]
    pub fn latest(&self) -> Reading<NetfilterFacts> {
        self.shared.lock().reading.clone()
    }
}

impl Drop for NetfilterReader {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.ring();
        if let Some(thread) = self.thread.take() {
            // Bounded by the deadlines of one read. A panic of the thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// What the thread keeps between two reads. No rule is among it.
struct Worker {
    shared: Arc<Shared>,
    wake: Wake,
    reader: RuleReader,
    watch: Option<RuleWatch>,
    /// The rules that the reading is of; none after a failure.
    seen: Option<Mark>,
    /// The last order that was answered.
    answered: u64,
    /// Reads in a row that a change disturbed.
    disturbed: u32,
    /// Not before this time is anything read.
    rested: Mono,
    next_look: Mono,
    next_whole: Mono,
    noticed: bool,
}

impl Worker {
    fn new(shared: Arc<Shared>, wake: Wake) -> Self {
        let reader = RuleReader::new();
        let now = clock::mono();
        Self {
            shared,
            wake,
            reader,
            watch: None,
            seen: None,
            answered: 0,
            disturbed: 0,
            rested: now,
            next_look: now,
            next_whole: now,
            noticed: false,
        }
    }

    fn run(mut self) {
        loop {
            let (wanted, order) = {
                let state = self.shared.lock();
                if state.ends {
                    return;
                }
                (state.wanted.clone(), state.order)
            };
            let now = clock::mono();
            let again = self.disturbed > 0;
            // An order is answered at once: somebody may be waiting for it.
            let at_once = order != self.answered && !again;
            let due = order > 0 && (self.noticed || again || now >= self.next_look);
            if at_once || (due && now >= self.rested) {
                self.look(&wanted, order);
            } else {
                self.wait(due, order > 0);
            }
        }
    }

    /// Sleeps until a notice, an order, or the time of the next look.
    fn wait(&mut self, due: bool, ordered: bool) {
        let until = if due { self.rested } else { self.next_look };
        let sleep = until.since(clock::mono());
        let timeout = Timespec { tv_sec: i64::try_from(sleep.as_secs()).unwrap_or(i64::MAX), tv_nsec: sleep.subsec_nanos().into() };
        let mut fds = vec![PollFd::from_borrowed_fd(self.shared.bell.as_fd(), PollFlags::IN)];
        // While a read is due already, notices may wait: they stay readable.
        let heard = self.watch.as_ref().filter(|_| !due).map(AsFd::as_fd);
        fds.extend(heard.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // An interruption is one more round of the loop.
        let _ = poll(&mut fds, ordered.then_some(&timeout));
        drop(fds);
        let mut counter = [0_u8; 8];
        let _ = rustix::io::read(&self.shared.bell, &mut counter);
        self.noticed |= self.watch.as_mut().is_some_and(RuleWatch::drain);
    }

    /// One look: whether the rules are those of the last reading, and if not, a new reading.
    fn look(&mut self, wanted: &Wanted, order: u64) {
        let begin = clock::mono();
        let spent = clock::thread_cpu();
        // What happens from here on is a notice for the next look.
        self.watch = self.watch.take().or_else(|| self.reader.watch());
        let noticed = self.watch.as_mut().is_some_and(RuleWatch::drain) || std::mem::take(&mut self.noticed);
        self.noticed = false;
        // The kernel counts a generation up a moment before it shows it, and sends its notice afterwards: what was read within that moment
        // can bear the number of what came then. So a notice asks for a new reading whatever the number.
        let known = self.seen.filter(|_| !noticed && self.answered == order && begin < self.next_whole);
        let mut news = false;
        match self.reader.read(known, wanted) {
            Ok(None) => self.confirm(Window { begin, end: clock::mono() }),
            Ok(Some((mark, value))) => {
                let end = clock::mono();
                news = known != Some(mark);
                self.seen = Some(mark);
                self.disturbed = 0;
                self.next_whole = end.plus(WHOLE_LOOK.max(end.since(begin).saturating_mul(WHOLE_SHARE)));
                self.publish(Reading::Observed { value, window: Window { begin, end } }, order);
                crate::memory::give_back();
            }
            Err(error) => {
                let window = Window { begin, end: clock::mono() };
                let failed = error.unavailable(window);
                self.seen = None;
                self.disturbed = if failed.why == Why::Interrupted { self.disturbed + 1 } else { 0 };
                // What passes by itself is tried again soon; what does not, as seldom as a look that finds nothing.
                news = matches!(failed.why, Why::Interrupted | Why::Deadline);
                if self.disturbed == 0 || self.disturbed >= DISTURBED {
                    self.disturbed = 0;
                    self.publish(Reading::Unavailable(failed), order);
                }
            }
        }
        let end = clock::mono();
        let cost = clock::thread_cpu().saturating_sub(spent);
        self.rested = end.plus(SHORTEST_REST.max(cost.saturating_mul(REST)));
        // The share is of a look that finds nothing new. One that found news may be followed by more of them, and says nothing of that cost.
        let share = if news { Duration::ZERO } else { cost.saturating_mul(LOOK_SHARE) };
        self.next_look = end.plus(share.clamp(SHORTEST_LOOK, LONGEST_LOOK));
    }

    /// The rules are those of the reading: it holds as of now.
    fn confirm(&self, now: Window) {
        if let Reading::Observed { window, .. } = &mut self.shared.lock().reading {
            *window = now;
        }
    }

    fn publish(&mut self, reading: Reading<NetfilterFacts>, order: u64) {
        self.answered = order;
        let mut state = self.shared.lock();
        let news = says_else(&state.reading, &reading);
        state.reading = reading;
        state.answered = order;
        drop(state);
        self.shared.answered.notify_all();
        if news {
            (self.wake)();
        }
    }
}

/// Whether a judgement could differ.
fn says_else(before: &Reading<NetfilterFacts>, after: &Reading<NetfilterFacts>) -> bool {
    match (before, after) {
        (Reading::Observed { value: before, .. }, Reading::Observed { value: after, .. }) => before != after,
        (Reading::Unavailable(before), Reading::Unavailable(after)) => (before.why, &before.detail) != (after.why, &after.detail),
        _ => true,
    }
}
