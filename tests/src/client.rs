//! A client that tells who answered: connects, sends HTTP/1.1 without Host, looks at the reply.
//!
//! Envoy answers that itself (400, `server: envoy`) before routing, on TLS ports too as the plain
//! filter chain has no port of its own. Must not retry: every connection counts.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Result;

use crate::space::Space;

/// Bound of connect and of the reply.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Who served one connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Envoy, by its `server` header.
    Envoy,
    /// A [`crate::thief`], by the name in its banner.
    Thief(String),
    /// nginx, by its `server` header.
    Nginx,
    /// Something else; the first 60 bytes.
    Other(String),
    /// RST to the SYN, or ICMP unreachable.
    Refused,
    /// Accepted and ended without a byte.
    Closed,
    /// Nobody accepted, or nobody answered in [`PATIENCE`].
    Timeout,
}

/// How often each [`Answer`] came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(pub BTreeMap<Answer, usize>);

impl Counts {
    /// How often this one came.
    #[must_use]
    pub fn of(&self, answer: &Answer) -> usize {
        self.0.get(answer).copied().unwrap_or(0)
    }

    /// How often a thief of any name came.
    #[must_use]
    pub fn thief(&self) -> usize {
        let thieves = self.0.iter();
        thieves.filter(|(answer, _)| matches!(answer, Answer::Thief(_) | Answer::Nginx)).map(|(_, count)| count).sum()
    }

    /// How often Envoy came.
    #[must_use]
    pub fn envoy(&self) -> usize {
        self.of(&Answer::Envoy)
    }

    /// All connections.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.0).finish()
    }
}

/// One connection from `from` to `address:port`.
pub fn ask(from: &Space, address: IpAddr, port: u16) -> Result<Answer> {
    from.enter(|| Ok(ask_here(SocketAddr::new(address, port), PATIENCE)))
}

/// `times` connections, one after the other.
pub fn ask_many(from: &Space, address: IpAddr, port: u16, times: usize) -> Result<Counts> {
    from.enter(|| {
        let mut counts = Counts::default();
        for _ in 0..times {
            let answer = ask_here(SocketAddr::new(address, port), PATIENCE);
            *counts.0.entry(answer).or_insert(0) += 1;
        }
        Ok(counts)
    })
}

/// One connection from the calling thread's namespace.
#[must_use]
pub fn ask_here(to: SocketAddr, patience: Duration) -> Answer {
    ask_saying(to, b"GET / HTTP/1.1\r\n\r\n", patience)
}

/// As [`ask_here`], with another request.
#[must_use]
pub fn ask_saying(to: SocketAddr, request: &[u8], patience: Duration) -> Answer {
    // Envoy keeps the connection open: its headers are enough.
    let told = |reply: &[u8]| reply.windows(4).any(|four| four == b"\r\n\r\n") || (reply.starts_with(b"THIEF ") && reply.ends_with(b"\n"));
    match exchange_until(to, request, patience, told) {
        Ok(reply) => classify(&reply),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable => Answer::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Answer::Timeout,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Answer::Closed,
            _ => Answer::Other(error.to_string()),
        },
    }
}

/// Sends bytes and reads until the other side closes, or until nothing came for `patience` after a
/// first byte.
pub fn exchange(to: SocketAddr, request: &[u8], patience: Duration) -> std::io::Result<Vec<u8>> {
    exchange_until(to, request, patience, |_| false)
}

fn exchange_until(to: SocketAddr, request: &[u8], patience: Duration, enough: impl Fn(&[u8]) -> bool) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    stream.write_all(request)?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if enough(&reply) {
            return Ok(reply);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(reply),
            Ok(count) => reply.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(_) if !reply.is_empty() => return Ok(reply),
            Err(error) => return Err(error),
        }
    }
}

fn classify(reply: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(reply);
    let lower = text.to_ascii_lowercase();
    if reply.is_empty() {
        Answer::Closed
    } else if let Some(name) = text.strip_prefix("THIEF ") {
        Answer::Thief(name.trim().to_owned())
    } else if lower.contains("\r\nserver: envoy\r\n") {
        Answer::Envoy
    } else if lower.contains("\r\nserver: nginx") {
        Answer::Nginx
    } else if lower.contains("\r\nserver: thief") {
        Answer::Thief("http".into())
    } else {
        Answer::Other(text.chars().take(60).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_told_by_its_reply() {
        let envoy = b"HTTP/1.1 400 Bad Request\r\ndate: x\r\nserver: envoy\r\n\r\n";
        assert_eq!(classify(envoy), Answer::Envoy);
        let nginx = b"HTTP/1.1 400 Bad Request\r\nServer: nginx/1.22.1\r\n\r\n";
        assert_eq!(classify(nginx), Answer::Nginx);
        assert_eq!(classify(b"THIEF a\n"), Answer::Thief("a".into()));
        assert_eq!(classify(b""), Answer::Closed);
        assert_eq!(classify(b"ssh"), Answer::Other("ssh".into()));
    }
}
