//! Where the observer and the serving threads meet: the published verdict, the last snapshot, the operator's drain, the
//! history. Short locks, no IO under them: the observer must never wait for a client or a disk.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use gwready_core::condition::ConditionType;
use gwready_core::facts::{DrainRequest, Snapshot};
use gwready_core::memory::Memory;
use gwready_core::reason::Reason;
use gwready_core::render::flapping::Flapping;
use gwready_core::render::joining::Joining;
use gwready_core::render::log_line::{Level, Line};
use gwready_core::render::transition::{Context, Transition, transition};
use gwready_core::time::{Mono, Now};
use gwready_core::verdict::Verdict;

use super::schedule::Trigger;
use super::wake::Waker;
use crate::clock;
use crate::logging::{self, Notices};
use crate::metrics::{Metrics, Published};
use crate::publish::Publisher;
use crate::state::Saved;

/// What one pass hands over.
#[derive(Debug)]
pub struct PassReport<'a> {
    /// What caused it.
    pub triggers: &'a [Trigger],
    /// When it began.
    pub began: Mono,
    /// Kernel time of the first event that asked for it.
    pub event_at: Option<Mono>,
    /// It is the first look after that event, not the second.
    pub first_look: bool,
    /// The judgement.
    pub verdict: Verdict,
    /// What was judged.
    pub snapshot: &'a Snapshot,
    /// What was remembered before.
    pub memory: Memory,
    /// What is remembered from now on.
    pub memory_after: &'a Memory,
}

/// Everything the last judgement depended on, for `snapshot`, `/status` and the metrics.
#[derive(Debug, Clone)]
pub struct Latest {
    /// What was judged.
    pub snapshot: Arc<Snapshot>,
    /// What was remembered before.
    pub memory: Memory,
    /// When.
    pub now: Now,
}

/// The meeting place.
#[derive(Debug)]
pub struct Board {
    /// The verdict that the health port answers with.
    pub publisher: Arc<Publisher>,
    /// What the passes cost and found, counted.
    pub metrics: Arc<Metrics>,
    latest: ArcSwapOption<Latest>,
    story: Mutex<Story>,
    serving: AtomicBool,
    waker: Waker,
}

/// What is kept of the past.
#[derive(Debug, Default)]
struct Story {
    saved: Saved,
    flapping: Flapping,
    joining: Joining,
    /// Conditions of which it was said that they can't be told.
    blind: Notices<(ConditionType, Option<Reason>)>,
    /// The content differs from what was last given out for saving.
    dirty: bool,
}

impl Board {
    /// A board with what an earlier run saved.
    #[must_use]
    pub fn new(publisher: Arc<Publisher>, metrics: Arc<Metrics>, saved: Saved, waker: Waker) -> Self {
        Self {
            publisher,
            metrics,
            latest: ArcSwapOption::empty(),
            story: Mutex::new(Story { saved, ..Story::default() }),
            serving: AtomicBool::new(false),
            waker,
        }
    }

    /// Publishes a verdict first, then keeps what others want to know about it.
    pub fn publish(&self, report: PassReport<'_>) {
        let prev = self.publisher.current();
        let next = Arc::new(report.verdict);
        self.publisher.publish(Arc::clone(&next));
        let published = clock::mono();
        let detected_in = report.event_at.map(|at| published.since(at));
        if let Some(took) = detected_in.filter(|_| report.first_look) {
            self.metrics.observe_event_to_verdict(took);
        }
        for trigger in report.triggers {
            self.metrics.count_pass(trigger.as_str(), published.since(report.began));
        }
        let context = Context { detected_in, drain: report.snapshot.drain.as_ref() };
        self.tell(prev.as_deref(), &next, context, report.memory_after);
        let snapshot = Arc::new(report.snapshot.clone());
        self.metrics.publish(Published { verdict: Arc::clone(&next), snapshot: Arc::clone(&snapshot) });
        self.latest.store(Some(Arc::new(Latest { snapshot, memory: report.memory, now: next.judged_at })));
    }

    fn tell(&self, prev: Option<&Verdict>, next: &Verdict, context: Context<'_>, memory: &Memory) {
        let changed = transition(prev, next, context);
        let mut lines = Vec::new();
        {
            let mut story = self.story();
            if let Some(changed) = changed {
                if let Some(from) = changed.from {
                    self.metrics.count_transition(from, changed.to, changed.reason);
                }
                lines.extend(story.flapping.offer(next.judged_at.mono, changed.to, changed.line.clone()));
                story.saved.push(changed);
                story.dirty = true;
            }
            lines.extend(story.flapping.due(next.judged_at.mono));
            lines.extend(story.joining.note(next));
            let learnt = !story.saved.ports_seen.keys().eq(memory.ports_seen.keys()) || story.saved.families_seen != memory.families_seen;
            story.dirty |= learnt;
            story.saved.note(next, memory);
        }
        lines.iter().for_each(logging::write);
        self.tell_plan(prev, next);
        self.tell_blindness(next);
    }

    /// Writes what was held back of a storm of transitions: the log's last line tells the last state.
    pub fn tell_rest(&self) {
        let rest = self.story().flapping.flush(clock::mono());
        rest.iter().for_each(logging::write);
    }

    /// What is judged, when it is first known and whenever it changes.
    fn tell_plan(&self, prev: Option<&Verdict>, next: &Verdict) {
        let plan = |verdict: &Verdict| {
            let addresses: Vec<IpAddr> = verdict.addresses.iter().map(|a| a.address).collect();
            (verdict.ports.clone(), verdict.families.clone(), addresses)
        };
        if is_starting(next) || prev.is_some_and(|prev| !is_starting(prev) && plan(prev) == plan(next)) {
            return;
        }
        let fronts = next.ports.iter().flat_map(|port| next.families.iter().map(move |family| format!("{port}/{family}")));
        let addresses = next.addresses.iter().map(|a| a.address.to_string());
        let line = Line::new(Level::Info, "expected fronts")
            .field("fronts", fronts.collect::<Vec<_>>().join(","))
            .field("addresses", addresses.collect::<Vec<_>>().join(","));
        logging::write(&line);
    }

    /// A required condition that can't be told counts as holding: one WARN for each, so that nobody takes it for proof.
    fn tell_blindness(&self, next: &Verdict) {
        if is_starting(next) {
            return;
        }
        for blind in &next.blind {
            let news = self.story().blind.is_news((blind.kind, blind.reason));
            if news {
                let line = Line::new(Level::Warn, "condition can't be told and counts as holding")
                    .field("condition", blind.kind)
                    .field_if("reason", blind.reason)
                    .field("detail", &blind.message);
                logging::write(&line);
            }
        }
    }

    /// The last judgement's input.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Latest>> {
        self.latest.load_full()
    }

    /// The last transitions, newest last.
    #[must_use]
    pub fn history(&self) -> Vec<Transition> {
        self.story().saved.transitions.clone()
    }

    /// The drain in force.
    #[must_use]
    pub fn drain(&self) -> Option<DrainRequest> {
        self.story().saved.drain_in_force(clock::now().unix_ms).cloned()
    }

    /// Sets or ends the drain and asks for a pass.
    pub fn set_drain(&self, drain: Option<DrainRequest>) {
        let mut story = self.story();
        story.saved.drain = drain;
        story.dirty = true;
        drop(story);
        self.waker.wake(Trigger::Drain);
    }

    /// What should be written to `state_dir`: always when `anyway`, else only if it changed since the last call.
    #[must_use]
    pub fn to_save(&self, anyway: bool) -> Option<Saved> {
        let mut story = self.story();
        (std::mem::take(&mut story.dirty) || anyway).then(|| story.saved.clone())
    }

    /// The health port answers: the observer may now load its eBPF programs.
    pub fn set_serving(&self) {
        self.serving.store(true, Ordering::Release);
        self.waker.wake(Trigger::Probe);
    }

    /// Whether the health port answers.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    fn story(&self) -> MutexGuard<'_, Story> {
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_starting(verdict: &Verdict) -> bool {
    verdict.node.reason == Some(Reason::Starting)
}
