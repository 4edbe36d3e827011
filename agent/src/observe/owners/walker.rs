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

/// Handle of the thread.
pub(super) struct Walker {
    jobs: Sender<Job>,
    messages: Receiver<Message>,
    busy: bool,
}

impl fmt::Debug for Walker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walker").field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl Walker {
    pub(super) fn spawn(root: Arc<ProcRoot>, envoy_exe: String, wake: Wake) -> std::io::Result<Self> {
        let (jobs, orders) = channel::<Job>();
        let (reports, messages) = channel();
        std::thread::Builder::new().name("gwready-owners".to_owned()).spawn(move || {
            for job in orders {
                let walked = walk(&root, &envoy_exe, &job, |hit| {
                    // A reader that is gone needs no report; the loop ends when its order channel closes.
                    let _ = reports.send(Message::Hit(hit));
                    wake();
                });
                let _ = reports.send(Message::Done(walked));
                wake();
            }
        })?;
        Ok(Self { jobs, messages, busy: false })
    }

    /// A walk is under way.
    pub(super) const fn busy(&self) -> bool {
        self.busy
    }

    pub(super) fn start(&mut self, job: Job) -> Result<(), Ended> {
        self.jobs.send(job).map_err(|_| Ended)?;
        self.busy = true;
        Ok(())
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

    fn note(&mut self, message: Message) -> Message {
        self.busy &= !matches!(message, Message::Done(_));
        message
    }
}
