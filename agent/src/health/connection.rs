//! One connection: read the request, answer, close our side, wait for the client's.
//!
//! Closing a socket that has unread bytes, or gets some later, sends a reset, and a reset makes the client's kernel drop
//! a reply that it has not read yet. Hence half-close, drain, then close. Reply and FIN leave in one packet (MSG_MORE).

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use gwready_core::time::Mono;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::parse::{Fault, Parser, Request, Step};
use super::settings::Limits;

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) peer: Option<IpAddr>,
    /// Our own question whether we are the member that gets the connections; not counted.
    pub(super) own: bool,
    accepted_at: Mono,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Reading(Parser),
    /// Answered; so many more bytes are thrown away, until then, before we lose patience. Neither grows: who sends a byte now and
    /// then must not keep a connection for ever.
    Draining {
        left: usize,
        until: Mono,
    },
}

/// What the event loop has to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Render a reply to this and call [`Connection::reply`].
    Answer(Result<Request, Fault>),
    /// Wait until readable, no longer than this.
    Wait(Mono),
    /// Drop it.
    Close,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, peer: Option<IpAddr>, own: bool, accepted_at: Mono) -> Self {
        Self { socket, peer, own, accepted_at, stage: Stage::Reading(Parser::default()) }
    }

    /// Reads what is there.
    pub(super) fn read(&mut self, buffer: &mut [u8], limits: &Limits, now: Mono) -> Next {
        loop {
            let step = match (recv(&self.socket, &mut *buffer, RecvFlags::empty()), &mut self.stage) {
                (Err(Errno::INTR), _) => continue,
                (Err(Errno::AGAIN), _) => return Next::Wait(self.deadline(limits, now)),
                (Err(_), _) | (Ok((_, 0)), Stage::Draining { .. }) => return Next::Close,
                (Ok((_, 0)), Stage::Reading(parser)) => match parser.at_end() {
                    Step::More => return Next::Close,
                    step => step,
                },
                (Ok((_, length)), Stage::Reading(parser)) => parser.feed(buffer.get(..length).unwrap_or_default()),
                (Ok((_, length)), Stage::Draining { left, .. }) if length < *left => {
                    *left -= length;
                    continue;
                }
                (Ok(_), Stage::Draining { .. }) => return Next::Close,
            };
            match step {
                Step::Complete(request) => return Next::Answer(Ok(request)),
                Step::Fault(fault) => return Next::Answer(Err(fault)),
                Step::More => {}
            }
        }
    }

    /// The deadline of [`Next::Wait`] has passed, or room is needed.
    pub(super) fn expire(&self) -> Next {
        match &self.stage {
            Stage::Reading(parser) => match parser.when_quiet() {
                Step::Complete(request) => Next::Answer(Ok(request)),
                Step::Fault(fault) => Next::Answer(Err(fault)),
                Step::More => Next::Close,
            },
            Stage::Draining { .. } => Next::Close,
        }
    }

    /// Sends the reply (none: closes without a byte) and closes our side.
    pub(super) fn reply(&mut self, reply: &[u8], limits: &Limits, now: Mono) -> Next {
        let sent = match reply {
            [] => Ok(0),
            // Held back until the shutdown that follows. A fresh socket's buffer takes any reply whole.
            _ => send(&self.socket, reply, SendFlags::NOSIGNAL | SendFlags::MORE),
        };
        if sent != Ok(reply.len()) || shutdown(&self.socket, Shutdown::Write).is_err() {
            return Next::Close;
        }
        self.stage = Stage::Draining { left: limits.drain_bytes, until: now.plus(limits.drain) };
        Next::Wait(self.deadline(limits, now))
    }

    /// The reply is on its way; only the client's end is waited for.
    pub(super) const fn is_answered(&self) -> bool {
        matches!(self.stage, Stage::Draining { .. })
    }

    fn deadline(&self, limits: &Limits, now: Mono) -> Mono {
        match &self.stage {
            Stage::Draining { until, .. } => *until,
            Stage::Reading(parser) => {
                let last = self.accepted_at.plus(limits.header_timeout);
                if parser.when_quiet() == Step::More { last } else { last.min(now.plus(limits.quiet)) }
            }
        }
    }
}
