//! The observer thread: waits for a reason to look, looks, judges, publishes. The only thread that keeps capabilities.
//!
//! One pass at a time; whatever arrives meanwhile is one more pass. Nothing here decides what is true (that is
//! `gwready_core::judge`) or when which source is due (that is [`super::schedule`]).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use gwready_core::facts::Snapshot;
use gwready_core::judge::{Judgement, judge, select};
use gwready_core::memory::Memory;
use gwready_core::policy::Policy;
use gwready_core::time::Mono;
use gwready_core::verdict::State;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::board::{Board, PassReport};
use super::kernel_events::KernelEvents;
use super::schedule::{Schedule, Scope, Trigger};
use super::sources::Sources;
use super::wake::Wake;
use crate::clock;
use crate::health::PortGuard;

/// Passes in a row that may follow each other because the plan changed under them.
const REPLANS: u32 = 3;

/// Everything the thread owns.
pub struct Observer {
    policy: Policy,
    sources: Sources,
    events: KernelEvents,
    schedule: Schedule,
    wake: Wake,
    snapshot: Snapshot,
    memory: Memory,
    board: Arc<Board>,
    events_started: bool,
    /// Owners of the listeners at the last pass, and who is watched for signals because of them.
    owners: BTreeSet<u32>,
    watched: BTreeSet<u32>,
    /// Envoys at the last pass, and the processes whose TERM announces their end.
    envoys: BTreeSet<u32>,
    envoys_and_ancestors: BTreeSet<u32>,
    /// Kernel time of the oldest event that has not had its second look.
    event_at: Option<Mono>,
    /// Events that have not had their second look were about processes.
    event_processes: bool,
    guard: Option<PortGuard>,
}

impl Observer {
    /// Nothing is read yet. `memory` is what an earlier run left in `state_dir`.
    #[must_use]
    pub fn new(
        policy: Policy,
        sources: Sources,
        events: KernelEvents,
        timing: (Duration, Duration),
        wake: Wake,
        memory: Memory,
        board: Arc<Board>,
    ) -> Self {
        let (resync, lb_poll) = timing;
        let schedule = Schedule::new(resync, lb_poll, clock::mono());
        Self {
            policy,
            sources,
            events,
            schedule,
            wake,
            snapshot: Snapshot::default(),
            memory,
            board,
            events_started: false,
            owners: BTreeSet::new(),
            watched: BTreeSet::new(),
            envoys: BTreeSet::new(),
            envoys_and_ancestors: BTreeSet::new(),
            event_at: None,
            event_processes: false,
            guard: None,
        }
    }

    /// Looks after the health port too, which takes the privileges that only this thread has.
    #[must_use]
    pub fn guarding(mut self, guard: PortGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Runs until the process ends.
    ///
    /// # Errors
    /// If waiting itself fails: the daemon must end then, an observer that can't wait is no observer.
    pub fn run(mut self) -> io::Result<()> {
        self.pass(&[Trigger::Start]);
        loop {
            self.wait()?;
            let triggers = self.collect();
            if !triggers.is_empty() && !self.is_idle_poll(&triggers) {
                self.pass(&triggers);
            }
            self.start_events();
        }
    }

    /// Sleeps until something is due or a descriptor is readable.
    fn wait(&self) -> io::Result<()> {
        let sleep = self.schedule.sleep(clock::mono());
        let timeout = Timespec { tv_sec: i64::try_from(sleep.as_secs()).unwrap_or(i64::MAX), tv_nsec: sleep.subsec_nanos().into() };
        let mut fds = vec![PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN)];
        let others = [self.events.fd(), self.sources.notifications()];
        fds.extend(others.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Why a pass should run now, if it should.
    fn collect(&mut self) -> Vec<Trigger> {
        let now = clock::mono();
        let mut triggers = self.wake.take();
        let arrived = self.events.drain(&self.envoys_and_ancestors, &mut self.snapshot.terminating);
        if arrived.first_at.is_some() {
            self.event_at = self.event_at.or(arrived.first_at);
            self.event_processes |= arrived.processes;
            self.schedule.event();
        }
        self.sources.note_openers(arrived.openers);
        if arrived.overflow {
            triggers.extend([Trigger::Tick, Trigger::Event]);
        }
        if self.sources.take_notifications() {
            triggers.push(Trigger::Netlink);
        }
        for due in self.schedule.due(now) {
            if !triggers.contains(&due) {
                triggers.push(due);
            }
        }
        triggers
    }

    /// One pass: read what the triggers concern, judge, publish. Runs again at once if the judgement changed the plan.
    fn pass(&mut self, triggers: &[Trigger]) {
        let looks = triggers.contains(&Trigger::Event);
        let second_look = looks && !self.schedule.looks_again();
        let mut scope = triggers.iter().fold(Scope::default(), |scope, trigger| scope.and(trigger.scope()));
        scope.owners |= looks && (second_look || self.event_processes);
        for _ in 0..REPLANS {
            let begin = clock::mono();
            let plan = select::plan(&self.policy, &self.snapshot, &self.memory);
            let plan = self.sources.read(scope, plan, &self.policy, &self.memory, &mut self.snapshot);
            self.snapshot.drain = self.board.drain();
            let Judgement { verdict, memory } = judge(&self.policy, &self.snapshot, &self.memory, clock::now());
            let before = std::mem::replace(&mut self.memory, memory);
            self.board.publish(PassReport {
                triggers,
                began: begin,
                event_at: self.event_at.filter(|_| looks),
                first_look: !second_look,
                verdict,
                snapshot: &self.snapshot,
                memory: before,
                memory_after: &self.memory,
            });
            if self.memory.plan == plan {
                break;
            }
            scope = Trigger::Netlink.scope();
        }
        if second_look {
            self.event_at = None;
            self.event_processes = false;
        }
        if triggers.contains(&Trigger::Tick) {
            self.board.metrics.set_datapath_drops(self.sources.datapath_drops());
            if let Some(guard) = self.guard.as_mut().filter(|_| self.board.is_serving()) {
                guard.look(clock::mono());
            }
        }
        self.after_pass();
    }

    /// A look at Cilium's maps that found what the last one found, on a node that is plainly up: nothing to judge. Three of
    /// four looks are of this kind; the tick judges what time alone changes.
    fn is_idle_poll(&mut self, triggers: &[Trigger]) -> bool {
        let plainly_up =
            self.board.publisher.load().as_ref().is_some_and(|verdict| verdict.node.state == State::Up && verdict.partial == 0);
        if triggers != [Trigger::Lb] || !plainly_up {
            return false;
        }
        let begin = clock::mono();
        let found = self.sources.read_lb(&self.memory.plan);
        let news = !found.says_the_same_as(&self.snapshot.lb);
        self.snapshot.lb = found;
        if !news {
            self.board.metrics.count_pass(Trigger::Lb.as_str(), clock::mono().since(begin));
        }
        !news
    }

    /// What follows from a pass for the others: kernel events to ask for, endpoints to probe, what a tick may do on the side.
    fn after_pass(&mut self) {
        let owners = Sources::owner_pids(&self.snapshot);
        let envoys = Sources::envoy_pids(&self.policy, &self.snapshot);
        if (&owners, &envoys) != (&self.owners, &self.envoys) {
            self.watched = self.sources.with_ancestors(&owners);
            self.envoys_and_ancestors = self.sources.with_ancestors(&envoys);
            (self.owners, self.envoys) = (owners, envoys);
        }
        self.events.watch(&self.memory.plan.ports, &self.watched);
        self.sources.instruct(&self.memory);
        if self.events_started {
            self.events.retry(clock::mono());
            self.events.tell(&self.board.metrics);
        }
        self.sources.walk_on();
    }

    /// The programs are loaded once the health port answers: the load costs memory and time that a start must not wait for.
    fn start_events(&mut self) {
        if !self.events_started && self.board.is_serving() {
            self.events_started = true;
            self.events.start(clock::mono());
            self.after_pass();
        }
    }
}
