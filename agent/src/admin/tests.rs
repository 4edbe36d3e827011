//! The admin port over real connections.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use gwready_core::facts::Snapshot;
use gwready_core::policy::Policy;
use gwready_core::reason::Reason;
use gwready_core::render::status::{Input, StatusDocument, status_document};
use gwready_core::time::Now;
use gwready_core::verdict::{Outcome, State, Verdict};
use hyper::Request;

use super::answer::answer;
use super::*;
use crate::control::Readiness;
use crate::metrics::Exposition;

struct Told;

impl Pages for Told {
    fn metrics(&self, format: Exposition) -> String {
        format!("{format:?}\n")
    }

    fn live(&self) -> Readiness {
        Readiness::default()
    }

    fn ready(&self) -> Readiness {
        Readiness { pending: vec!["NotIntercepted: MapsUnreadable".to_owned(), "no whole pass yet".to_owned()] }
    }

    fn status(&self) -> StatusDocument {
        let verdict = Verdict {
            judged_at: Now::default(),
            observed_at: Default::default(),
            node_since: Now::default(),
            node: Outcome { state: State::Down, reason: Some(Reason::NoListener), ports: vec![80] },
            partial: 0,
            ports: vec![80],
            families: Vec::new(),
            addresses: Vec::new(),
            endpoints: Vec::new(),
            blind: Vec::new(),
            conditions: Vec::new(),
        };
        status_document(Input {
            node: "worker-1",
            agent: "0",
            verdict: &verdict,
            snapshot: &Snapshot::default(),
            policy: &Policy::default(),
            config: &serde_json::Value::Null,
            history: &[],
            not_visible: &[],
            now: Now::default(),
        })
    }
}

/// A server on a free port of loopback, on a thread of its own that lives as long as the test process.
fn start() -> SocketAddr {
    let listener = bind("127.0.0.1:0".parse().expect("address")).expect("bound");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(serve_on(listener, Vec::new(), Arc::new(Told))).expect("serves");
    });
    address
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    stream.write_all(request.as_bytes()).expect("request");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("reply");
    reply
}

fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String, String) {
    let reply = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"));
    let (head, body) = reply.split_once("\r\n\r\n").expect("head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn every_page_over_a_connection() {
    let address = start();
    let (status, head, body) = get(address, "/metrics", "");
    assert_eq!((status, body.as_str()), (200, "Text\n"));
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let (_, head, body) = get(address, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert_eq!(body, "OpenMetrics\n");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert_eq!(get(address, "/livez", "").0, 200);
    let (status, _, body) = get(address, "/readyz?verbose", "");
    assert_eq!((status, body.as_str()), (503, "NotIntercepted: MapsUnreadable\nno whole pass yet\n"));
    let (status, _, body) = get(address, "/status", "");
    let document: StatusDocument = serde_json::from_str(&body).expect("json");
    assert_eq!((status, document.outcome.reason), (200, Some(Reason::NoListener)));
    let (status, head, body) = get(address, "/", "");
    assert!(status == 200 && body.starts_with("<!DOCTYPE html>") && head.contains("content-security-policy: default-src 'none'"), "{head}");
    for header in ["cache-control: no-store", "x-content-type-options: nosniff", "connection: close"] {
        assert!(head.contains(header), "{header} is not in {head}");
    }
}

#[test]
fn other_paths_are_404_and_other_methods_405() {
    let address = start();
    for path in ["/healthz", "/statusx", "/metrics/", "//", "/../status", "*"] {
        assert_eq!(get(address, path, "").0, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let reply = ask(address, &format!("{method} /status HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
        assert!(reply.starts_with("HTTP/1.1 405") && reply.to_ascii_lowercase().contains("allow: get, head"), "{reply}");
    }
    let head = ask(address, "HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn oversized_and_broken_requests_end_the_connection_and_nothing_else() {
    let address = start();
    let long = format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let mut stream = TcpStream::connect(address).expect("connect");
    let _ = stream.write_all(long.as_bytes());
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    assert!(!reply.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply));
    assert!(!ask(address, "\u{0}\u{1}\u{2}\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert_eq!(get(address, "/livez", "").0, 200);
}

#[test]
fn idle_connections_do_not_keep_others_out() {
    let address = start();
    let idle: Vec<TcpStream> = (0..70).map(|_| TcpStream::connect(address).expect("connect")).collect();
    // More than the limit sit silent: the header timeout makes room long before a connection's lifetime is over.
    let begin = std::time::Instant::now();
    assert_eq!(get(address, "/livez", "").0, 200);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    drop(idle);
}

#[test]
fn the_status_is_for_loopback_and_listed_clients() {
    let allow = vec!["10.0.0.0/8".parse().expect("net")];
    for (path, open) in [("/metrics", true), ("/livez", true), ("/readyz", true), ("/status", false), ("/", false)] {
        for (client, listed) in
            [("127.0.0.1", true), ("::ffff:127.0.0.1", true), ("::ffff:10.0.0.9", true), ("192.0.2.1", false), ("::ffff:192.0.2.1", false)]
        {
            let client: IpAddr = client.parse().expect("address");
            let request = Request::get(path).body(()).expect("request");
            let forbidden = answer(&request, client, &allow, &Told).status() == 403;
            assert_eq!(forbidden, !open && !listed, "{path} for {client}");
        }
    }
}

#[test]
fn the_port_is_never_shared_and_taken_when_free() {
    let first = bind("[::]:0".parse().expect("address")).expect("bound");
    let address = first.local_addr().expect("address");
    assert_eq!(bind(address).expect_err("taken").kind(), std::io::ErrorKind::AddrInUse);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(serve(address, Vec::new(), Arc::new(Told))).expect("serves");
    });
    // The dual-stack listener takes IPv4 connections, and does not answer: nobody serves it.
    let v4 = SocketAddr::new("127.0.0.1".parse().expect("address"), address.port());
    let waiting = TcpStream::connect(v4).expect("dual stack");
    drop(waiting);
    drop(first);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        if let Ok(mut stream) = TcpStream::connect(v4) {
            let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
            let mut reply = String::new();
            if stream.read_to_string(&mut reply).is_ok() && reply.starts_with("HTTP/1.1 200") {
                return;
            }
        }
        assert!(std::time::Instant::now() < deadline, "the port was not taken over");
        std::thread::sleep(Duration::from_millis(20));
    }
}
