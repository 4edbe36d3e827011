//! The thread that walks /proc, so that no pass waits for it. One walk at a time. It is started by the first walk from the
//! observer thread, whose capabilities and network namespace it inherits, and ends with the reader. Must not judge or keep
//! anything.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};

use gwready_core::time::Mono;

use super::procfs_root::ProcRoot;
use super::walk::{Hit, Job, Walked, walk};
use crate::clock;

/// Called from the walker's thread when a walk has found something or is done: a pass should run.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a walk reports.
#[derive(Debug)]
pub(super) enum Message {
    Hit(Hit),
    Done(Walked),
}

/// The walker's thread is gone: the agent can't find owners any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// Between two walks at least this many times as long as the last one took, so that changing sockets can't keep a core busy.
const REST: u32 = 4;

/// Handle of the thread.
pub(super) struct Walker {
    jobs: Sender<(u64, Job)>,
    messages: Receiver<(u64, Message)>,
    /// The last order and its number, until it is done. A later order takes the place of one that has not begun.
    ordered: Option<Job>,
    number: u64,
}

impl fmt::Debug for Walker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walker").field("ordered", &self.ordered).finish_non_exhaustive()
    }
}

impl Walker {
    pub(super) fn spawn(root: Arc<ProcRoot>, envoy_exe: String, wake: Wake) -> std::io::Result<Self> {
        let (jobs, orders) = channel();
        let (reports, messages) = channel();
        std::thread::Builder::new().name("gwready-owners".to_owned()).spawn(move || {
            let mut rested_at = Mono(0);
            while let Some((number, job)) = next_job(&orders, rested_at) {
                let walked = walk(&root, &envoy_exe, &job, |hit| {
                    // A reader that is gone needs no report; the loop ends when its order channel closes.
                    let _ = reports.send((number, Message::Hit(hit)));
                    wake();
                });
                rested_at = walked.end.plus(walked.end.since(walked.begin).saturating_mul(REST));
                let _ = reports.send((number, Message::Done(walked)));
                wake();
            }
        })?;
        Ok(Self { jobs, messages, ordered: None, number: 0 })
    }

    /// A walk is ordered or under way.
    pub(super) const fn busy(&self) -> bool {
        self.ordered.is_some()
    }

    /// Orders a walk, unless one that serves as well is ordered already.
    pub(super) fn order(&mut self, job: Job) -> Result<(), Ended> {
        let served = self
            .ordered
            .as_ref()
            .is_some_and(|ordered| ordered.not_before <= job.not_before && job.wanted.iter().all(|inode| ordered.wanted.contains(inode)));
        if served {
            return Ok(());
        }
        self.number += 1;
        self.ordered = Some(job.clone());
        self.jobs.send((self.number, job)).map_err(|_| Ended)
    }

    /// What has arrived, without waiting.
    pub(super) fn take(&mut self) -> Result<Option<Message>, Ended> {
        match self.messages.try_recv() {
            Ok(message) => Ok(Some(self.note(message))),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Ended),
        }
    }

    /// What arrives until `until`.
    pub(super) fn wait(&mut self, until: Mono) -> Result<Option<Message>, Ended> {
        match self.messages.recv_timeout(until.since(clock::mono())) {
            Ok(message) => Ok(Some(self.note(message))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }

    fn note(&mut self, (number, message): (u64, Message)) -> Message {
        if matches!(message, Message::Done(_)) && number == self.number {
            self.ordered = None;
        }
        message
    }
}

/// The next order when its time has come, or the one that took its place meanwhile; none when the reader is gone.
fn next_job(orders: &Receiver<(u64, Job)>, rested_at: Mono) -> Option<(u64, Job)> {
    let mut next = orders.recv().ok()?;
    loop {
        let pause = next.1.not_before.max(rested_at).since(clock::mono());
        match orders.recv_timeout(pause) {
            Ok(newer) => next = newer,
            Err(RecvTimeoutError::Timeout) => return Some(next),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}
