//! Requests and their whole answers over one socket. After any failure the socket is thrown away, so that no rest of an old
//! answer can be taken for a new one.

use std::fmt::Display;
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};
use rustix::io::Errno;

use super::NetlinkError;
use super::collect::{BatchState, DumpState};
use super::frame::push_request;
use super::socket::{Protocol, RequestSocket, new_buffer};
use crate::clock;

/// Tries per exchange when an answer is disturbed: the table changed, messages were lost or cut.
pub const TRIES: u32 = 3;
/// Requests per send. Answers wait in the receive buffer (212,992 bytes by default, about 2 KiB each with overhead) until all
/// are read: more would overrun it.
const BATCH: usize = 32;

/// A complete dump.
#[derive(Debug)]
pub struct Dumped<T> {
    /// What the decoder kept, in the kernel's order.
    pub items: Vec<T>,
    /// Datagrams that carried messages. Up to one, the kernel made the whole answer in one go.
    pub datagrams: u32,
}

/// One conversation with the kernel. Blocking; not shared between threads.
pub struct Exchange {
    protocol: Protocol,
    deadline: Duration,
    socket: Option<RequestSocket>,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Exchange {
    /// A conversation whose socket is opened by the first exchange, in the network namespace of the thread that makes it.
    /// `deadline` bounds each try of an exchange (checked between datagrams: it can last twice that when the kernel is
    /// silent in the end).
    #[must_use]
    pub fn new(protocol: Protocol, deadline: Duration) -> Self {
        Self { protocol, deadline, socket: None, buffer: new_buffer(), sequence: 0 }
    }

    /// As [`Exchange::new`], with the socket opened at once.
    ///
    /// # Errors
    /// [`NetlinkError::Open`].
    pub fn open(protocol: Protocol, deadline: Duration) -> Result<Self, NetlinkError> {
        let socket = Some(RequestSocket::open(protocol, deadline)?);
        Ok(Self { socket, ..Self::new(protocol, deadline) })
    }

    /// A dump: request `kind` with `body` (flags `NLM_F_REQUEST | NLM_F_DUMP`), every answer through `decode`, which gets the
    /// message type and body and returns none for a message that is not wanted. Complete, or an error after [`TRIES`] tries.
    ///
    /// # Errors
    /// Any [`NetlinkError`]; no item is handed out then.
    pub fn dump<T, E: Display>(
        &mut self,
        kind: u16,
        body: &[u8],
        mut decode: impl FnMut(u16, &[u8]) -> Result<Option<T>, E>,
    ) -> Result<Dumped<T>, NetlinkError> {
        self.tried(|exchange| {
            let sequence = exchange.take_sequences(1);
            let mut request = Vec::with_capacity(body.len() + 16);
            push_request(&mut request, kind, NLM_F_REQUEST | NLM_F_DUMP, sequence, body)?;
            let mut state = DumpState::new(sequence);
            exchange.converse(&request, |datagram| state.take(datagram, &mut decode))?;
            Ok(Dumped { items: state.items, datagrams: state.datagrams })
        })
    }

    /// Single requests of one `kind`, sent in batches; the answers in the order of `bodies`. A refusal of one request
    /// (`ENOENT` for "there is none") is that request's answer.
    ///
    /// # Errors
    /// Any [`NetlinkError`] but [`NetlinkError::Refused`]; no answer is handed out then.
    pub fn ask<T, E: Display>(
        &mut self,
        kind: u16,
        bodies: &[Vec<u8>],
        mut decode: impl FnMut(u16, &[u8]) -> Result<T, E>,
    ) -> Result<Vec<Result<T, Errno>>, NetlinkError> {
        let mut answers = Vec::with_capacity(bodies.len());
        for batch in bodies.chunks(BATCH) {
            answers.extend(self.tried(|exchange| exchange.ask_batch(kind, batch, &mut decode))?);
        }
        Ok(answers)
    }

    fn ask_batch<T, E: Display>(
        &mut self,
        kind: u16,
        bodies: &[Vec<u8>],
        decode: &mut impl FnMut(u16, &[u8]) -> Result<T, E>,
    ) -> Result<Vec<Result<T, Errno>>, NetlinkError> {
        let first = self.take_sequences(u32::try_from(bodies.len()).unwrap_or(u32::MAX));
        let mut request = Vec::with_capacity(bodies.iter().map(|body| body.len() + 20).sum());
        let mut sequence = first;
        for body in bodies {
            push_request(&mut request, kind, NLM_F_REQUEST, sequence, body)?;
            sequence = sequence.wrapping_add(1);
        }
        let mut state = BatchState::new(first, bodies.len());
        self.converse(&request, |datagram| state.take(datagram, decode))?;
        let missing = || NetlinkError::Malformed("a request without an answer".to_owned());
        state.answers.into_iter().map(|answer| answer.ok_or_else(missing)).collect()
    }

    /// Sends a request and receives until `take` is satisfied.
    fn converse(&mut self, request: &[u8], mut take: impl FnMut(&[u8]) -> Result<bool, NetlinkError>) -> Result<(), NetlinkError> {
        let begin = clock::mono();
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => RequestSocket::open(self.protocol, self.deadline)?,
        };
        socket.send(request)?;
        while !take(socket.receive(&mut self.buffer)?)? {
            if clock::mono().since(begin) > self.deadline {
                return Err(NetlinkError::Deadline(self.deadline));
            }
        }
        // Only a socket without a rest of an answer is used again.
        self.socket = Some(socket);
        Ok(())
    }

    fn tried<R>(&mut self, mut one: impl FnMut(&mut Self) -> Result<R, NetlinkError>) -> Result<R, NetlinkError> {
        let mut tries = 1;
        loop {
            match one(self) {
                Err(error) if error.is_disturbed() && tries < TRIES => {
                    if let NetlinkError::Truncated { length, .. } = error {
                        self.buffer.resize(length, 0);
                    }
                    tries += 1;
                }
                Err(NetlinkError::Interrupted(_)) => return Err(NetlinkError::Interrupted(tries)),
                other => return other,
            }
        }
    }

    const fn take_sequences(&mut self, count: u32) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(count);
        first
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::LinkHeader;

    use super::*;

    const RTM_GETLINK: u16 = 18;
    const SECOND: Duration = Duration::from_secs(5);
    /// `struct ifinfomsg`, all zero: every link.
    const EVERY_LINK: [u8; 16] = [0; 16];

    fn index(_: u16, body: &[u8]) -> Result<Option<u32>, netlink_packet_core::DecodeError> {
        LinkHeader::parse(body).map(|header| Some(header.index))
    }

    #[test]
    fn a_dump_of_links_has_the_loopback_and_the_socket_serves_again() {
        let mut exchange = Exchange::open(Protocol::Route, SECOND).unwrap();
        for _ in 0..3 {
            assert!(exchange.dump(RTM_GETLINK, &EVERY_LINK, index).unwrap().items.contains(&1));
        }
    }

    #[test]
    fn a_buffer_that_is_too_small_grows_and_the_answer_is_whole() {
        let mut exchange = Exchange::open(Protocol::Route, SECOND).unwrap();
        exchange.buffer.truncate(64);
        assert!(exchange.dump(RTM_GETLINK, &EVERY_LINK, index).unwrap().items.contains(&1));
        assert!(exchange.buffer.len() > 64);
    }

    #[test]
    fn a_refused_request_is_an_error_and_the_next_one_works() {
        let mut exchange = Exchange::open(Protocol::SockDiag, SECOND).unwrap();
        let no_family = vec![255; 64];
        let error = exchange.dump(20, &no_family, |_, _| Ok::<_, Errno>(Some(()))).unwrap_err();
        assert!(matches!(error, NetlinkError::Refused(_)), "{error}");
        let v4 = gwready_core::decode::inet_diag_request::encode_dump(gwready_core::net::Family::Ipv4, 1 << 10, &[1]).unwrap();
        exchange.dump(20, &v4, |_, _| Ok::<_, Errno>(Some(()))).unwrap();
    }

    #[test]
    fn a_batch_longer_than_one_send_is_answered_in_order() {
        let mut exchange = Exchange::open(Protocol::Route, SECOND).unwrap();
        let of = |ifindex: i32| {
            let mut body = EVERY_LINK.to_vec();
            body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
            body
        };
        let bodies: Vec<_> = (0..100).map(|at| of(if at % 3 == 0 { 1 } else { 2_000_000_000 })).collect();
        let answers = exchange.ask(RTM_GETLINK, &bodies, |_, body| LinkHeader::parse(body).map(|header| header.index)).unwrap();
        assert_eq!(answers.len(), 100);
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(*answer, if at % 3 == 0 { Ok(1) } else { Err(Errno::NODEV) }, "request {at}");
        }
    }

    #[test]
    fn a_silent_kernel_is_a_deadline() {
        let mut exchange = Exchange::open(Protocol::Route, Duration::from_millis(20)).unwrap();
        // Type 1 (NLMSG_NOOP) is below NLMSG_MIN_TYPE: the kernel does not answer it.
        let error = exchange.ask(1, &[Vec::new()], |_, _| Ok::<_, Errno>(())).unwrap_err();
        assert!(matches!(error, NetlinkError::Deadline(_)), "{error}");
        exchange.dump(RTM_GETLINK, &EVERY_LINK, index).unwrap();
    }
}
