//! One TCP conversation, byte by byte: what is sent, what comes back, and how the connection ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// What a client does, in order.
#[derive(Debug, Clone)]
pub enum Act {
    /// Send these bytes in one write.
    Send(Vec<u8>),
    /// Send them one at a time.
    Trickle(Vec<u8>),
    /// Let this much time pass: part of what the client does, not a wait for the server.
    Pause(Duration),
    /// Close our side.
    Finish,
}

/// How a connection ended for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server closed in order.
    Closed,
    /// A reset.
    Reset,
    /// Still open after the time allowed.
    Open,
}

/// What the client saw.
#[derive(Debug)]
pub struct Seen {
    /// All bytes of the reply.
    pub reply: String,
    /// How it ended.
    pub end: End,
    /// A send failed: the server had reset the connection already.
    pub refused: bool,
    /// From the last act to the first byte, or to the end if there was none.
    pub waited: Duration,
}

/// Connects, acts, and reads to the end, at most for `patience` after the last act. Errors are those of connecting.
pub fn exchange(server: SocketAddr, acts: &[Act], patience: Duration) -> Result<Seen> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(2))?;
    stream.set_nodelay(true)?;
    let mut refused = false;
    for act in acts {
        match act {
            // Not an error of ours: what the server said before is read below.
            Act::Send(bytes) => refused |= stream.write_all(bytes).is_err(),
            Act::Trickle(bytes) => bytes.iter().for_each(|&byte| refused |= stream.write_all(&[byte]).is_err()),
            Act::Pause(time) => thread::sleep(*time),
            Act::Finish => _ = stream.shutdown(Shutdown::Write),
        }
    }
    let begin = Instant::now();
    let (mut reply, mut first, mut buffer) = (Vec::new(), None, [0; 4096]);
    let end = loop {
        let left = patience.saturating_sub(begin.elapsed()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => break End::Closed,
            Ok(length) => {
                first.get_or_insert_with(|| begin.elapsed());
                reply.extend_from_slice(&buffer[..length]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break End::Open,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break End::Reset,
        }
    };
    Ok(Seen { reply: String::from_utf8_lossy(&reply).into_owned(), end, refused, waited: first.unwrap_or_else(|| begin.elapsed()) })
}
