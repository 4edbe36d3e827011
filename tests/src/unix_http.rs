//! One HTTP request over a Unix socket: Envoy's admin interface as tests use it. The agent itself
//! never POSTs to it; tests do, to produce faults.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Sends `METHOD path` and returns the body of a 2xx reply; another status is an error with the
/// body in it.
pub fn request(socket: &Path, method: &str, path: &str) -> Result<String> {
    let (status, body) = request_status(socket, method, path)?;
    ensure!((200..300).contains(&status), "{method} {path}: {status} {body}");
    Ok(body)
}

/// Sends `METHOD path` and returns status and body.
pub fn request_status(socket: &Path, method: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket).with_context(|| format!("connecting {}", socket.display()))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    // HTTP/1.0 is refused by Envoy; without keep-alive the reply ends with the connection.
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: admin\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    let reply = String::from_utf8_lossy(&reply);
    let (head, body) = reply.split_once("\r\n\r\n").context("no end of headers")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return Ok((status, join_chunks(body)?));
    }
    Ok((status, body.to_owned()))
}

fn join_chunks(mut rest: &str) -> Result<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").context("chunk without a size")?;
        let size = usize::from_str_radix(size, 16)?;
        if size == 0 {
            return Ok(body);
        }
        body += after.get(..size).context("chunk cut short")?;
        rest = after.get(size + 2..).context("chunk without an end")?;
    }
}
