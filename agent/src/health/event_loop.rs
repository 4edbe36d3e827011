//! The serving thread: one epoll, no other wait, no allocation per request that comes in one piece.
//!
//! A connection whose request is there when it is accepted is answered at once, looked at once more [`SECOND_LOOK`] later, and
//! only then waited for: a busy port costs accept, recv, getsockname, send, shutdown, recv and close per request, and the client's
//! end of it wakes nobody.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use gwready_core::render::health::{Scope, answer, render_agent_check};
use gwready_core::time::Mono;
use rustix::event::{Timespec, epoll};
use rustix::net::getsockname;

use super::accept::{Accepted, Kind, Listener, peer_ip};
use super::connection::{Connection, Next};
use super::connections::Connections;
use super::control::Control;
use super::notice::{Noticed, warn_versionless};
use super::parse::Protocol;
use super::respond::{Sources, render_reply};
use super::settings::{Limits, Unready};
use super::stats::HealthStats;
use crate::clock;
use crate::publish::Publisher;

/// Token of the wake-up descriptor; listeners and then connections follow.
const WAKE: u64 = 0;
const FIRST_LISTENER: u64 = 1;
const FIRST_CONNECTION: u64 = 16;
/// From an answer to the look whether the client has closed too, as most have by then.
const SECOND_LOOK: Duration = Duration::from_millis(2);
/// Connections accepted in a row before the others get a turn.
const ACCEPT_BATCH: usize = 64;

/// Everything the thread owns.
pub(super) struct EventLoop {
    pub(super) epoll: std::os::fd::OwnedFd,
    pub(super) listeners: Vec<Listener>,
    pub(super) publisher: Arc<Publisher>,
    pub(super) stats: Arc<HealthStats>,
    pub(super) control: Arc<Control>,
    pub(super) unready: Unready,
    pub(super) limits: Limits,
    connections: Connections<Connection>,
    /// Answered and not registered with epoll, by the time of their second look: most never have to be.
    answered: VecDeque<(Mono, Connection)>,
    noticed: Noticed,
    paused_until: Option<Mono>,
    input: Vec<u8>,
    reply: Vec<u8>,
}

impl EventLoop {
    /// Registers the listening sockets; nothing is accepted until [`EventLoop::run`].
    pub(super) fn new(
        listeners: Vec<Listener>,
        publisher: Arc<Publisher>,
        stats: Arc<HealthStats>,
        control: Arc<Control>,
        unready: Unready,
        limits: Limits,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &control.wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        for (token, listener) in (FIRST_LISTENER..FIRST_CONNECTION).zip(&listeners) {
            epoll::add(&epoll, &listener.socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            listeners,
            publisher,
            stats,
            control,
            unready,
            limits,
            connections: Connections::new(),
            answered: VecDeque::new(),
            noticed: Noticed::default(),
            paused_until: None,
            input: vec![0; 16 * 1024],
            reply: Vec::with_capacity(2048),
        })
    }

    /// Serves until told to finish.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        while !self.control.is_finishing() {
            self.turn(&mut events, None)?;
        }
        for index in 0..self.listeners.len() {
            while self.accept_some(index) {}
            if let Some(listener) = self.listeners.get(index) {
                // Fails only for a descriptor that is not registered.
                _ = epoll::delete(&self.epoll, &listener.socket);
            }
        }
        self.listeners.clear();
        let end = clock::mono().plus(self.limits.finish);
        _ = epoll::delete(&self.epoll, &self.control.wake);
        while self.open() > 0 && clock::mono() < end {
            self.turn(&mut events, Some(end))?;
        }
        Ok(())
    }

    /// Waits for something to do, at most until `end`, and does it.
    fn turn(&mut self, events: &mut Vec<epoll::Event>, end: Option<Mono>) -> io::Result<()> {
        let second_look = self.answered.front().map(|(at, _)| *at);
        let expiry = self.connections.first().map(|(deadline, _)| deadline);
        let next = [end, self.paused_until, second_look, expiry].into_iter().flatten().min();
        // Rounded up to the millisecond, so that the wait never ends just before its deadline and spins.
        let timeout = next.map(|next| timespec(next.since(clock::mono()).saturating_add(Duration::from_micros(999))));
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events.iter() {
            match event.data.u64() {
                WAKE => {}
                token if token < FIRST_CONNECTION => {
                    self.accept_some(usize::try_from(token - FIRST_LISTENER).unwrap_or(usize::MAX));
                }
                token => self.readable(usize::try_from(token - FIRST_CONNECTION).unwrap_or(usize::MAX)),
            }
        }
        // After the questions: who waits for an answer goes first.
        self.look_again(clock::mono());
        self.expire(clock::mono())
    }

    /// Accepts up to a batch; true if there may be more.
    fn accept_some(&mut self, index: usize) -> bool {
        for _ in 0..ACCEPT_BATCH {
            let Some(listener) = self.listeners.get(index) else { return false };
            let kind = listener.kind;
            match listener.accept() {
                Accepted::None => return false,
                Accepted::Again => {}
                Accepted::Connection(socket, peer) => {
                    self.stats.count_accepted();
                    let own = peer.is_some_and(|peer| self.control.is_own(peer.port()));
                    let connection = Connection::new(socket, peer_ip(peer), own, clock::mono());
                    if self.open() >= self.limits.connections {
                        self.make_room();
                    }
                    self.serve_new(connection, kind);
                }
                Accepted::Exhausted => {
                    self.stats.count_accept_failure();
                    if !self.make_room() {
                        self.pause();
                        return false;
                    }
                }
            }
        }
        true
    }

    fn serve_new(&mut self, mut connection: Connection, kind: Kind) {
        let now = clock::mono();
        let next = match kind {
            Kind::Health => connection.read(&mut self.input, &self.limits, now),
            Kind::AgentCheck => {
                let line = self.agent_check_line(&connection, now);
                connection.reply(line.as_bytes(), &self.limits, now)
            }
        };
        match self.follow(&mut connection, next, now) {
            None => {}
            Some(_) if connection.is_answered() => self.answered.push_back((now.plus(SECOND_LOOK), connection)),
            Some(deadline) => self.register(deadline, connection),
        }
        self.stats.set_open(self.open());
    }

    fn open(&self) -> usize {
        self.connections.len() + self.answered.len()
    }

    /// The second look at each connection for which it is due at `until`. Where the client has closed, epoll never hears of it.
    fn look_again(&mut self, until: Mono) {
        while let Some((_, mut connection)) = self.answered.pop_front_if(|(at, _)| *at <= until) {
            let now = clock::mono();
            let next = connection.read(&mut self.input, &self.limits, now);
            if let Some(deadline) = self.follow(&mut connection, next, now) {
                self.register(deadline, connection);
            }
        }
        self.stats.set_open(self.open());
    }

    fn register(&mut self, deadline: Mono, connection: Connection) {
        let slot = self.connections.reserve(connection.peer);
        let token = u64::try_from(slot).unwrap_or(u64::MAX - FIRST_CONNECTION) + FIRST_CONNECTION;
        match epoll::add(&self.epoll, &connection.socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN) {
            Ok(()) => self.connections.put(slot, deadline, connection),
            Err(_) => self.connections.release(slot),
        }
    }

    fn readable(&mut self, slot: usize) {
        let Some((_, mut connection)) = self.connections.take(slot) else { return };
        let now = clock::mono();
        let next = connection.read(&mut self.input, &self.limits, now);
        self.settle(slot, connection, next, now);
    }

    /// Carries out `next` and keeps or drops the connection; true if it was dropped.
    fn settle(&mut self, slot: usize, mut connection: Connection, next: Next, now: Mono) -> bool {
        let deadline = self.follow(&mut connection, next, now);
        match deadline {
            Some(deadline) => self.connections.put(slot, deadline, connection),
            None => {
                drop(connection);
                self.connections.release(slot);
            }
        }
        self.stats.set_open(self.open());
        deadline.is_none()
    }

    /// Answers if that is next; the deadline of the wait that follows, or none to close.
    fn follow(&mut self, connection: &mut Connection, next: Next, now: Mono) -> Option<Mono> {
        let question = match next {
            Next::Wait(deadline) => return Some(deadline),
            Next::Close => return None,
            Next::Answer(question) => question,
        };
        let verdict = self.publisher.load();
        let sources = Sources {
            verdict: verdict.as_deref(),
            answers: self.publisher.answers(),
            unready: self.unready,
            local: self.local_ip(&connection.socket),
            now,
        };
        let replied = render_reply(&mut self.reply, question, &sources);
        if !connection.own {
            self.stats.count_request(replied.protocol, replied.state);
        }
        if let (Protocol::V09, Unready::Status, Some(peer)) = (replied.protocol, self.unready, connection.peer) {
            warn_versionless(&mut self.noticed, peer);
        }
        match connection.reply(&self.reply, &self.limits, now) {
            Next::Wait(deadline) => Some(deadline),
            _ => None,
        }
    }

    fn agent_check_line(&self, connection: &Connection, now: Mono) -> String {
        let verdict = self.publisher.load();
        let answered = answer(verdict.as_deref(), self.publisher.answers(), self.local_ip(&connection.socket), None, now);
        answered.map(|answered| render_agent_check(&answered.outcome)).unwrap_or_default()
    }

    /// Asked only if the answer depends on it: one system call less with `scope: node`.
    fn local_ip(&self, socket: impl AsFd) -> Option<std::net::IpAddr> {
        match self.publisher.answers().scope {
            Scope::Node => None,
            Scope::Address => SocketAddr::try_from(getsockname(socket).ok()?).ok().map(|local| local.ip()),
        }
    }

    fn expire(&mut self, now: Mono) -> io::Result<()> {
        while let Some((_, slot)) = self.connections.first().filter(|(deadline, _)| *deadline <= now) {
            self.expire_one(slot, now);
        }
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.set_accepting(epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    fn expire_one(&mut self, slot: usize, now: Mono) -> bool {
        let Some((_, mut connection)) = self.connections.take(slot) else { return false };
        // What has arrived meanwhile counts: the request of a good client may lie here unread, and closing would reset it.
        let next = match connection.read(&mut self.input, &self.limits, now) {
            Next::Wait(_) => connection.expire(),
            next => next,
        };
        self.settle(slot, connection, next, now)
    }

    /// Lets connections of the peer that holds most expire now until one is gone; false if there is none.
    fn make_room(&mut self) -> bool {
        let now = clock::mono();
        let before = self.open();
        self.look_again(now.plus(SECOND_LOOK));
        if self.open() < before {
            return true;
        }
        for _ in 0..=self.connections.len() {
            let Some(slot) = self.connections.first_of_the_greediest() else { return false };
            self.stats.count_expired_early();
            if self.expire_one(slot, now) {
                return true;
            }
        }
        false
    }

    fn pause(&mut self) {
        self.paused_until = Some(clock::mono().plus(self.limits.accept_pause));
        if let Err(error) = self.set_accepting(epoll::EventFlags::empty()) {
            tracing::warn!(%error, "health port could not pause accepting");
        }
    }

    fn set_accepting(&self, interest: epoll::EventFlags) -> io::Result<()> {
        for (token, listener) in (FIRST_LISTENER..FIRST_CONNECTION).zip(&self.listeners) {
            epoll::modify(&self.epoll, &listener.socket, epoll::EventData::new_u64(token), interest)?;
        }
        Ok(())
    }
}

fn timespec(duration: Duration) -> Timespec {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 }
}
