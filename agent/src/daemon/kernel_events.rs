//! The eBPF side of the observer: load, watch, drain, retry. Whatever fails here, polling goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use gwready_core::facts::platform::Termination;
use gwready_core::time::Mono;

use crate::events::KernelEvent;
use crate::events::load::{Events, Options, PROGRAMS, load};
use crate::metrics::Metrics;

/// SIGTERM; the numbers are the same on every architecture we build for (asm-generic/signal.h).
const SIGTERM: i32 = 15;
/// Until the second attempt to load what failed. What is in the way while a node starts is often gone soon.
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// Each wait is twice the last one, up to this: an attempt costs some 50 ms and 30 MiB for a moment.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// What a drain of the ring brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrived {
    /// Something happened that a pass should look at; kernel time of the first such event.
    pub first_at: Option<Mono>,
    /// Among it was a signal to a watched process, or the exit of one.
    pub processes: bool,
    /// Who began to listen.
    pub openers: BTreeSet<u32>,
    /// Records were lost: everything has to be read anew.
    pub overflow: bool,
}

/// Loads and owns the programs.
pub struct KernelEvents {
    wanted: bool,
    debug: bool,
    loaded: Option<Events>,
    next_try: Mono,
    pause: Duration,
    /// A ring that was replaced may have had records in it.
    replaced: bool,
    last_reason: Option<String>,
    pids: BTreeSet<u32>,
    ports: BTreeSet<u16>,
}

impl KernelEvents {
    /// Nothing is loaded yet. `wanted` is the configuration's `ebpf`.
    #[must_use]
    pub const fn new(wanted: bool, debug: bool) -> Self {
        Self {
            wanted,
            debug,
            loaded: None,
            next_try: Mono(u64::MAX),
            pause: FIRST_RETRY,
            replaced: false,
            last_reason: None,
            pids: BTreeSet::new(),
            ports: BTreeSet::new(),
        }
    }

    /// Loads the programs, if they are wanted. Call once the health port answers: loading takes some 50 ms and 30 MiB for a
    /// moment. One WARN per reason.
    pub fn start(&mut self, now: Mono) {
        if !self.wanted {
            self.warn_once("eBPF is switched off (ebpf: false)".to_owned());
            return;
        }
        self.next_try = now.plus(self.pause);
        self.pause = LAST_RETRY.min(self.pause * 2);
        match load(Options { own_namespace_only: true, debug: self.debug }) {
            Ok(events) => {
                let missing: Vec<String> =
                    events.programs().iter().filter_map(|p| p.attached.as_ref().err().map(|why| format!("{}: {why}", p.name))).collect();
                self.take(events);
                if missing.is_empty() {
                    self.last_reason = None;
                    tracing::info!("kernel events: {} programs attached", PROGRAMS.len());
                } else {
                    self.warn_once(missing.join("; "));
                }
            }
            Err(error) => self.warn_once(error.to_string()),
        }
    }

    /// An attempt that brings no more than there is changes nothing: counts go on, no record is lost.
    fn take(&mut self, events: Events) {
        let working = |events: &Events| events.programs().iter().filter(|program| program.attached.is_ok()).count();
        let before = self.loaded.as_ref().map_or(0, working);
        if working(&events) > before {
            self.replaced = before > 0;
            self.loaded = Some(events);
            self.rewatch();
        }
    }

    /// Tries again what failed: soon at first, then more and more rarely. What is attached stays so for as long as the agent
    /// holds it (`docs/decisions/ebpf-attach.md`).
    pub fn retry(&mut self, now: Mono) {
        if self.wanted && now >= self.next_try && self.attached().iter().any(|(_, attached)| !attached) {
            self.start(now);
        }
    }

    fn warn_once(&mut self, reason: String) {
        if self.last_reason.as_ref() != Some(&reason) {
            tracing::warn!("kernel events are missing, polling goes on: {reason}");
            self.last_reason = Some(reason);
        }
    }

    /// Every program with whether it is attached and proven.
    fn attached(&self) -> Vec<(&'static str, bool)> {
        let is = |name: &str| self.loaded.as_ref().is_some_and(|e| e.programs().iter().any(|p| p.name == name && p.attached.is_ok()));
        PROGRAMS.iter().map(|name| (*name, is(name))).collect()
    }

    /// Brings the metrics up to date.
    pub fn tell(&self, metrics: &Metrics) {
        metrics.set_attached(self.attached());
        let counts = |events: &Events| {
            let counted = self.ports.iter().filter_map(|port| Some((*port, events.watch.established(*port)?)));
            counted.collect::<BTreeMap<u16, u64>>()
        };
        metrics.set_connections(self.loaded.as_ref().map(counts).filter(|counted| !counted.is_empty()));
    }

    /// Watches these ports and processes from now on.
    pub fn watch(&mut self, ports: &[u16], pids: &BTreeSet<u32>) {
        let ports: BTreeSet<u16> = ports.iter().copied().collect();
        if ports == self.ports && *pids == self.pids {
            return;
        }
        (self.ports, self.pids) = (ports, pids.clone());
        self.rewatch();
    }

    fn rewatch(&mut self) {
        let Some(events) = &mut self.loaded else { return };
        let result = events.watch.set_ports(&self.ports).and_then(|()| events.watch.set_pids(&self.pids));
        if let Err(error) = result {
            self.warn_once(error.to_string());
        }
    }

    /// Takes everything out of the ring. A TERM on its way to one of `envoys` (Envoys and their ancestors) is noted in
    /// `terminating`; one for another owner of a port is only a reason to look.
    pub fn drain(&mut self, envoys: &BTreeSet<u32>, terminating: &mut Option<Termination>) -> Arrived {
        let mut arrived = Arrived::default();
        let Some(events) = &mut self.loaded else { return arrived };
        let own = events.namespace();
        let drained = events.ring.drain(|event| {
            if let KernelEvent::Listener { netns: Some(netns), .. } = &event
                && own.is_some_and(|own| own != *netns)
            {
                return;
            }
            if let KernelEvent::Signal { at, signal: SIGTERM, target, .. } = &event
                && envoys.contains(target)
            {
                *terminating = Some(Termination { pid: *target, at: *at });
            }
            if let KernelEvent::Listener { listening: true, by, .. } = &event {
                arrived.openers.insert(by.pid);
            }
            tracing::debug!(?event, "kernel event");
            arrived.processes |= !matches!(event, KernelEvent::Listener { .. });
            arrived.first_at.get_or_insert(event.at());
        });
        if drained.lost > 0 {
            tracing::debug!(lost = drained.lost, "kernel events were lost: reading everything anew");
        }
        arrived.overflow = drained.lost > 0 || std::mem::take(&mut self.replaced);
        if let Some(log) = &mut events.log {
            log.flush();
        }
        arrived
    }

    /// Readable while events wait.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.loaded.as_ref().map(|events| events.ring.as_fd())
    }
}
