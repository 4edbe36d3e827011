//! A parsed request and an answer → the bytes of the reply.
//!
//! The token stands in the header and in the first body line, both early: some monitors read only the first packet or
//! the first 200 bytes. Replies without a state (400, 404, 431) contain no token at all. No Content-Type: nothing
//! reads it, and its 26 bytes would push the state line back.

use std::io::Write;
use std::net::IpAddr;

use gwready_core::render::health::{AnswerSettings, answer, render_body};
use gwready_core::time::Mono;
use gwready_core::verdict::{State, Verdict};

use super::parse::{Fault, Method, Protocol, Request, Target};
use super::settings::Unready;

/// A reply is shorter than this, so that it fits into one packet of an Ethernet path with any tunnel on it.
pub const MAX_REPLY: usize = 1400;
/// More than the longest head.
const MAX_HEAD: usize = 200;

/// What an answer is made from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The current verdict.
    pub verdict: Option<&'a Verdict>,
    /// Node name and rules.
    pub answers: &'a AnswerSettings,
    /// How a node that is not up answers.
    pub unready: Unready,
    /// Local address of the connection.
    pub local: Option<IpAddr>,
    /// When it is answered.
    pub now: Mono,
}

/// What was answered, for the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replied {
    /// Protocol of the request.
    pub protocol: Protocol,
    /// State in the reply, or that made it silent.
    pub state: Option<State>,
}

/// Writes the reply to `question` into `reply`, which is left empty if the right answer is to close without a byte.
pub fn render_reply(reply: &mut Vec<u8>, question: Result<Request, Fault>, sources: &Sources<'_>) -> Replied {
    reply.clear();
    let port = match question {
        Ok(Request { target: Target::Health(port), .. }) => port,
        _ => None,
    };
    let answered = answer(sources.verdict, sources.answers, sources.local, port, sources.now);
    if sources.unready == Unready::Close {
        // Errors too: a monitor that takes any byte for up must not be served a 404 by a node that is down.
        let node = || answer(sources.verdict, sources.answers, sources.local, None, sources.now);
        let state = answered.as_ref().map(|answer| answer.outcome.state).or_else(|| node().map(|answer| answer.outcome.state));
        if state != Some(State::Up) {
            return Replied { protocol: question.map_or(Protocol::Other, |request| request.protocol), state };
        }
    }
    let request = match question {
        Err(Fault::Malformed) => return refuse(reply, None, "400 Bad Request", "bad request\n"),
        Err(Fault::TooLarge) => return refuse(reply, None, "431 Request Header Fields Too Large", "request too large\n"),
        Ok(request) => request,
    };
    match (request.target, request.method, answered) {
        (Target::Unknown, ..) | (_, Method::Other, _) | (.., None) => refuse(reply, Some(request), "404 Not Found", "not found\n"),
        (.., Some(answered)) => {
            let state = answered.outcome.state;
            let body = render_body(&answered, sources.answers, MAX_REPLY - MAX_HEAD);
            let status = if state == State::Up { "200 OK" } else { "503 Service Unavailable" };
            write_reply(reply, Some(request), status, Some(state), &body);
            Replied { protocol: request.protocol, state: Some(state) }
        }
    }
}

fn refuse(reply: &mut Vec<u8>, request: Option<Request>, status: &str, body: &str) -> Replied {
    write_reply(reply, request, status, None, body);
    Replied { protocol: request.map_or(Protocol::Other, |request| request.protocol), state: None }
}

fn write_reply(reply: &mut Vec<u8>, request: Option<Request>, status: &str, state: Option<State>, body: &str) {
    let protocol = request.map_or(Protocol::Other, |request| request.protocol);
    if protocol != Protocol::V09 {
        reply.extend_from_slice(if protocol == Protocol::V10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
        reply.extend_from_slice(status.as_bytes());
        if let Some(state) = state {
            reply.extend_from_slice(b"\r\nx-gwready: state=");
            reply.extend_from_slice(state.as_str().as_bytes());
            if state != State::Up {
                reply.extend_from_slice(b"\r\nx-envoy-immediate-health-check-fail: true");
            }
        }
        reply.extend_from_slice(b"\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: ");
        // Writing to a Vec cannot fail.
        _ = write!(reply, "{}", body.len());
        reply.extend_from_slice(b"\r\n\r\n");
    }
    if request.is_none_or(|request| request.method != Method::Head || protocol == Protocol::V09) {
        reply.extend_from_slice(body.as_bytes());
    }
}

#[cfg(test)]
mod tests;
