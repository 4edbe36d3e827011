//! The clear-text question: HTTP/1.1 without Host, which Envoy answers itself (400) before routing. Also the request of an extra
//! probe, which has a Host and is routed.

use std::io;

use gwready_core::decode::http_reply::{ReplyError, decode_head};
use gwready_core::facts::probes::ProbeOutcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::settings::ExplicitProbe;

/// Signature of PROXY protocol v2, then version 2 command LOCAL, no family, no addresses: "the connection is the proxy's own"
/// (haproxy doc/proxy-protocol.txt 2.2).
pub(super) const PROXY_V2_LOCAL: [u8; 16] = *b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

const READ_SIZE: usize = 2048;

/// The bytes of the request.
pub(super) fn request(explicit: Option<&ExplicitProbe>) -> String {
    match explicit {
        None => "GET / HTTP/1.1\r\nUser-Agent: gwready-probe\r\nConnection: close\r\n\r\n".to_owned(),
        Some(ExplicitProbe { host, path, .. }) => {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: gwready-probe\r\nConnection: close\r\n\r\n")
        }
    }
}

/// Asks and reads the head of the reply. What is no HTTP, and an end before the head is whole, is [`ProbeOutcome::Reset`]: there
/// was no answer. The caller bounds the time.
pub(super) async fn ask(stream: &mut TcpStream, explicit: Option<&ExplicitProbe>) -> ProbeOutcome {
    match exchange(stream, request(explicit).as_bytes()).await {
        Ok(outcome) => outcome,
        Err(_) => ProbeOutcome::Reset,
    }
}

async fn exchange(stream: &mut TcpStream, request: &[u8]) -> io::Result<ProbeOutcome> {
    // A server that closes at once may have answered all the same: reading decides.
    let _ = stream.write_all(request).await;
    let mut reply = Vec::with_capacity(READ_SIZE);
    loop {
        if stream.read_buf(&mut reply).await? == 0 {
            return Ok(ProbeOutcome::Reset);
        }
        if let Some(outcome) = answered(&reply) {
            return Ok(outcome.unwrap_or(ProbeOutcome::Reset));
        }
    }
}

/// The outcome of these bytes; none = more are needed.
pub(super) fn answered(reply: &[u8]) -> Option<Result<ProbeOutcome, ReplyError>> {
    match decode_head(reply) {
        Ok(Some(head)) => Some(Ok(ProbeOutcome::Answered { status: head.status, server: head.server })),
        Ok(None) => None,
        Err(error) => Some(Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_request_has_no_host_and_so_is_never_routed() {
        let request = request(None);
        assert!(request.starts_with("GET / HTTP/1.1\r\n") && request.ends_with("\r\n\r\n"));
        assert!(!request.to_ascii_lowercase().contains("host:"));
    }

    #[test]
    fn an_extra_probe_asks_for_its_host_and_path() {
        let probe = ExplicitProbe { port: 80, host: "shop.example".into(), path: "/healthz?x=1".into(), sni: None, expect_status: vec![] };
        assert!(request(Some(&probe)).starts_with("GET /healthz?x=1 HTTP/1.1\r\nHost: shop.example\r\n"));
    }
}
