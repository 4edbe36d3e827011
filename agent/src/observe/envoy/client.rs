//! One GET over a Unix socket, with a deadline for the whole of it. Written by hand because a blocking client for a Unix socket
//! needs thirty lines, and because a client that has no way to send another method is worth something here.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use gwready_core::decode::http_reply::{ReplyHead, decode_body, decode_head};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::error::AdminReadError;

/// Largest reply that is taken. The dynamic listeners of a gateway with a thousand host names are about 1 MB.
const MAX_REPLY: usize = 32 * 1024 * 1024;
const READ_SIZE: usize = 16 * 1024;

/// Status and body of `GET path`. Envoy answers `/ready` with 503 while it drains, so the status is the caller's to judge.
///
/// # Errors
/// Any [`AdminReadError`] but `Status` and `Content`.
pub fn read_path(socket: &Path, path: &str, deadline: Instant) -> Result<(u16, Vec<u8>), AdminReadError> {
    let fail = |doing: &str| {
        let doing = format!("{doing} {}", socket.display());
        move |source: io::Error| match source.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => AdminReadError::Deadline { path: path.to_owned() },
            _ => AdminReadError::Io { doing, source },
        }
    };
    let mut stream = connected(socket, path, deadline).map_err(fail("connecting to"))?;
    // HTTP/1.0 is refused by Envoy; without keep-alive the reply ends with the connection.
    let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nUser-Agent: gwready\r\nConnection: close\r\n\r\n");
    stream.set_write_timeout(Some(left(deadline, path)?)).map_err(fail("writing to"))?;
    stream.write_all(request.as_bytes()).map_err(fail("writing to"))?;
    let reply = read_all(&mut stream, path, deadline, fail("reading from"))?;
    let bad = |source| AdminReadError::Reply { path: path.to_owned(), source };
    let head: ReplyHead = decode_head(&reply).map_err(bad)?.ok_or(bad(gwready_core::decode::http_reply::ReplyError::Incomplete))?;
    Ok((head.status, decode_body(&head, &reply).map_err(bad)?))
}

/// Time that is left, never zero: a zero timeout would mean none.
fn left(deadline: Instant, path: &str) -> Result<Duration, AdminReadError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(AdminReadError::Deadline { path: path.to_owned() }) } else { Ok(left) }
}

/// Connects with a bound: a stopped Envoy whose backlog is full would block for ever (net/unix/af_unix.c waits `SO_SNDTIMEO`).
fn connected(socket: &Path, path: &str, deadline: Instant) -> io::Result<UnixStream> {
    let fd: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let left = left(deadline, path).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    set_socket_timeout(&fd, Timeout::Send, Some(left))?;
    connect(&fd, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(fd))
}

fn read_all(
    stream: &mut UnixStream,
    path: &str,
    deadline: Instant,
    fail: impl FnOnce(io::Error) -> AdminReadError,
) -> Result<Vec<u8>, AdminReadError> {
    let mut reply = Vec::new();
    let mut part = vec![0; READ_SIZE];
    loop {
        let left = left(deadline, path)?;
        match stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut part)) {
            Ok(0) => return Ok(reply),
            Ok(count) => reply.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fail(error)),
        }
        if reply.len() > MAX_REPLY {
            return Err(AdminReadError::TooLarge { path: path.to_owned() });
        }
    }
}
