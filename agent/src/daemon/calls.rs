//! What the control sockets and the admin port ask of the daemon. Answers from the board; never waits for a read.

use std::sync::Arc;

use gwready_core::facts::{DrainRequest, Snapshot};
use gwready_core::judge::judge;
use gwready_core::memory::Memory;
use gwready_core::reason::Reason;
use gwready_core::render::sources::NotVisible;
use gwready_core::render::status::{Input, StatusDocument, status_document};
use gwready_core::render::text::sanitise;
use gwready_core::replay::{SnapshotFile, VERSION};

use super::board::Board;
use super::journal::Journal;
use crate::admin::Pages;
use crate::clock;
use crate::config::Config;
use crate::control::{Handler, Peer, Readiness, Request, Response};
use crate::metrics::Exposition;

/// Answers for one daemon.
#[derive(Debug)]
pub struct Calls {
    pub(super) board: Arc<Board>,
    pub(super) journal: Arc<Journal>,
    pub(super) config: Config,
    pub(super) not_visible: Vec<NotVisible>,
}

impl Calls {
    /// The status document. Before the first verdict it is the judgement of nothing seen: down, Starting.
    #[must_use]
    pub fn status(&self) -> StatusDocument {
        let (verdict, snapshot) = match (self.board.publisher.current(), self.board.latest()) {
            (Some(verdict), Some(latest)) => (verdict, Arc::clone(&latest.snapshot)),
            _ => {
                let nothing = Snapshot::default();
                let judgement = judge(&self.config.policy(), &nothing, &Memory::default(), clock::now());
                (Arc::new(judgement.verdict), Arc::new(nothing))
            }
        };
        let history = self.board.history();
        status_document(Input {
            node: &self.config.node_name,
            agent: env!("CARGO_PKG_VERSION"),
            verdict: &verdict,
            snapshot: &snapshot,
            policy: &self.config.policy(),
            config: &self.config.to_json(),
            history: &history,
            not_visible: &self.not_visible,
            now: clock::now(),
        })
    }

    /// Everything the last judgement depended on; none before the first.
    #[must_use]
    pub fn snapshot(&self) -> Option<SnapshotFile> {
        let latest = self.board.latest()?;
        Some(SnapshotFile {
            version: VERSION,
            agent: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.config.node_name.clone(),
            policy: self.config.policy(),
            config: self.config.to_json(),
            memory: latest.memory.clone(),
            snapshot: (*latest.snapshot).clone(),
            now: latest.now,
        })
    }

    /// Alive: the observer publishes. Does not depend on the verdict: the kubelet must not restart the agent of a bad node.
    #[must_use]
    pub fn live(&self) -> Readiness {
        let limit = self.config.timing.stale_after.max(self.config.timing.resync * 3);
        let Some(verdict) = self.board.publisher.current() else {
            return Readiness { pending: Vec::new() };
        };
        let age = clock::mono().since(verdict.judged_at.mono);
        let pending = if age > limit { vec![format!("the observer published nothing for {} ms", age.as_millis())] } else { Vec::new() };
        Readiness { pending }
    }

    /// Ready: observing, fresh, and seeing what the configuration requires.
    #[must_use]
    pub fn ready(&self) -> Readiness {
        let Some(verdict) = self.board.publisher.current() else {
            return Readiness { pending: vec!["the first pass is not over".to_owned()] };
        };
        let mut pending = self.live().pending;
        if let Some(reason @ (Reason::Starting | Reason::Stale)) = verdict.node.reason {
            pending.push(format!("{reason}: {}", reason.summary()));
        }
        if !self.board.is_serving() {
            pending.push("the health port is not served by this agent yet".to_owned());
        }
        pending.extend(verdict.blind.iter().map(|blind| {
            let reason = blind.reason.map_or("unknown", Reason::as_str);
            format!("{} can't be told: {reason}: {}", blind.kind, blind.message)
        }));
        Readiness { pending }
    }

    async fn drain(&self, for_ms: Option<u64>, reason: String, peer: Peer) -> Response {
        let now = clock::now().unix_ms;
        let drain = DrainRequest {
            by: format!("uid {}", peer.uid),
            reason,
            asked_unix_ms: now,
            until_unix_ms: for_ms.map(|ms| now.saturating_add(ms)),
        };
        tracing::info!(by = %sanitise(&drain.by), reason = %sanitise(&drain.reason), for_ms, "drain asked for");
        let until = if for_ms.is_some() { "until its time is over or `gwready undrain`" } else { "until `gwready undrain`" };
        self.board.set_drain(Some(drain));
        self.saved(format!("draining {until}")).await
    }

    /// Says what was done once it would survive a restart of the agent, or that it would not.
    async fn saved(&self, done: String) -> Response {
        match self.journal.save_now(&self.board).await {
            Ok(()) => Response::of(&done),
            Err(error) => Response::of(&format!("{done}, but this is lost when the agent restarts: {error}")),
        }
    }
}

impl Pages for Calls {
    fn metrics(&self, format: Exposition) -> String {
        self.board.metrics.render(format)
    }

    fn live(&self) -> Readiness {
        self.live()
    }

    fn ready(&self) -> Readiness {
        self.ready()
    }

    fn status(&self) -> StatusDocument {
        self.status()
    }
}

impl Handler for Calls {
    async fn handle(&self, request: Request, peer: Peer) -> Response {
        let not_yet = || Response::Error("the first pass is not over".to_owned());
        match request {
            Request::Status => Response::of(&self.status()),
            Request::Snapshot => self.snapshot().map_or_else(not_yet, |file| Response::of(&file)),
            Request::Live => Response::of(&self.live()),
            Request::Ready => Response::of(&self.ready()),
            Request::Drain { for_ms, reason } => self.drain(for_ms, reason, peer).await,
            Request::Undrain => {
                let was = self.board.drain().is_some();
                self.board.set_drain(None);
                tracing::info!(by = peer.uid, was_draining = was, "undrain asked for");
                self.saved(if was { "no longer draining" } else { "there was no drain" }.to_owned()).await
            }
        }
    }
}
