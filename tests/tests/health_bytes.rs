//! The health port byte by byte: bytes in → bytes out → how the connection ends. Each row is a client that exists or an
//! accident that happens; `docs/load-balancers.md` says which. The real server, in this process, over loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use gwready::health::Unready;
use gwready_core::verdict::State;
use gwready_tests::health::exchange::{Act, End, Seen, exchange};
use gwready_tests::health::port::Port;

const JUDGED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 11));
const LINE: &str = "state=up node=worker-1 address=127.0.0.11 ports=80,443\n";
const PATIENCE: Duration = Duration::from_secs(4);

fn open(unready: Unready, state: Option<State>) -> Result<Port> {
    let port = Port::open(unready, JUDGED)?;
    state.into_iter().for_each(|state| port.set(state));
    Ok(port)
}

fn converse(port: &Port, acts: &[Act]) -> Result<Seen> {
    exchange(port.address()?, acts, PATIENCE)
}

fn ask(port: &Port, request: &str) -> Result<Seen> {
    converse(port, &[send(request)])
}

fn send(bytes: impl AsRef<[u8]>) -> Act {
    Act::Send(bytes.as_ref().to_vec())
}

fn ok(version: &str) -> String {
    format!(
        "{version} 200 OK\r\nx-gwready: state=up\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{LINE}",
        LINE.len()
    )
}

fn refusal(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Sends each request whole and byte by byte, and expects this reply, an orderly close, and no wait.
#[track_caller]
fn answers_at_once(port: &Port, name: &str, request: &[u8], reply: &str) -> Result<()> {
    for act in [Act::Send(request.to_vec()), Act::Trickle(request.to_vec())] {
        let seen = converse(port, &[act])?;
        assert_eq!((seen.reply.as_str(), seen.end), (reply, End::Closed), "{name}");
        assert!(seen.waited < Duration::from_millis(150), "{name}: answered by the request, not by a timer: {:?}", seen.waited);
    }
    Ok(())
}

#[test]
fn every_client_of_the_contract() -> Result<()> {
    let port = open(Unready::Status, Some(State::Up))?;
    let head = ok("HTTP/1.0").trim_end_matches(LINE).to_owned();
    for (name, request, reply) in [
        ("stock BIG-IP send string", "GET /\r\n", LINE.to_owned()),
        ("bigd appends CRLFCRLF", "GET /\r\n\r\n\r\n", LINE.to_owned()),
        ("In-TMM appends CRLF", "GET /\r\n\r\n", LINE.to_owned()),
        ("bare line feed", "GET /\n", LINE.to_owned()),
        ("versionless path", "GET /healthz\r\n", LINE.to_owned()),
        ("HTTP/1.0", "GET /healthz HTTP/1.0\r\n\r\n", ok("HTTP/1.0")),
        ("HTTP/1.0 by bigd", "GET /healthz HTTP/1.0\r\n\r\n\r\n\r\n", ok("HTTP/1.0")),
        ("HTTP/1.1 with Host", "GET /healthz HTTP/1.1\r\nHost: gw\r\n\r\n", ok("HTTP/1.1")),
        ("HTTP/1.1 without Host", "GET /healthz HTTP/1.1\r\n\r\n", ok("HTTP/1.1")),
        ("bare line feeds", "GET /healthz HTTP/1.1\nHost: gw\n\n", ok("HTTP/1.1")),
        ("keep-alive", "GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", ok("HTTP/1.1")),
        ("Expect", "GET / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", ok("HTTP/1.1")),
        ("body", "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", ok("HTTP/1.1")),
        ("chunked", "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", ok("HTTP/1.1")),
        ("HAProxy httpchk", "OPTIONS / HTTP/1.0\r\n\r\n", ok("HTTP/1.0")),
        ("AS3 default", "HEAD / HTTP/1.0\r\n\r\n", head),
        ("absolute form", "GET http://10.0.0.11:9680/healthz HTTP/1.1\r\n\r\n", ok("HTTP/1.1")),
        ("query", "GET /healthz?lb=f5 HTTP/1.1\r\n\r\n", ok("HTTP/1.1")),
        ("pipelined", "GET / HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", ok("HTTP/1.1")),
        ("PROXY v1", "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nGET / HTTP/1.1\r\n\r\n", ok("HTTP/1.1")),
        ("PROXY v1, versionless", "PROXY UNKNOWN\r\nGET /\r\n", LINE.to_owned()),
        ("other path", "GET /metrics HTTP/1.1\r\n\r\n", refusal("404 Not Found", "not found\n")),
        ("other port", "GET /healthz/8080 HTTP/1.1\r\n\r\n", refusal("404 Not Found", "not found\n")),
        ("other method", "POST /healthz HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", refusal("404 Not Found", "not found\n")),
        ("escapes not translated", "GET / HTTP/1.1/r/nHost: gw/r/n\r\n\r\n", refusal("400 Bad Request", "bad request\n")),
    ] {
        answers_at_once(&port, name, request.as_bytes(), &reply)?;
    }
    for (name, header) in [
        ("PROXY v2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\xdc\x04\x01\xbb".as_slice()),
        ("PROXY v2 LOCAL", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"),
    ] {
        answers_at_once(&port, name, &[header, b"GET / HTTP/1.0\r\n\r\n"].concat(), &ok("HTTP/1.0"))?;
        answers_at_once(&port, name, &[header, b"GET /\r\n"].concat(), LINE)?;
    }
    for (name, noise) in [
        ("TLS ClientHello", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".as_slice()),
        ("SSLv2 ClientHello", b"\x80\x2e\x01\x03\x01"),
        ("noise", b"\0\xff\0\xff\xde\xad\xbe\xef"),
    ] {
        answers_at_once(&port, name, noise, &refusal("400 Bad Request", "bad request\n"))?;
    }
    Ok(())
}

#[test]
fn a_port_of_its_own_and_the_node_on_loopback() -> Result<()> {
    let port = open(Unready::Status, Some(State::Down))?;
    let line = |seen: Seen| seen.reply.lines().last().unwrap_or_default().to_owned();
    assert_eq!(line(ask(&port, "GET /healthz/443 HTTP/1.0\r\n\r\n")?), "state=up node=worker-1 address=127.0.0.11 ports=443");
    assert_eq!(
        line(ask(&port, "GET /healthz/80 HTTP/1.0\r\n\r\n")?),
        "state=down node=worker-1 address=127.0.0.11 reason=HostPort port=80 ports=80"
    );
    let number = port.address()?.port();
    for loopback in [SocketAddr::from((Ipv4Addr::LOCALHOST, number)), SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], number))] {
        let seen = exchange(loopback, &[send("GET / HTTP/1.0\r\n\r\n")], PATIENCE)?;
        assert_eq!(line(seen), "state=down node=worker-1 address=all reason=HostPort port=80 ports=80,443");
    }
    Ok(())
}

#[test]
fn not_up_is_503_with_the_state_in_header_and_body() -> Result<()> {
    let port = open(Unready::Status, None)?;
    let starting = ask(&port, "GET / HTTP/1.1\r\n\r\n")?.reply;
    assert!(
        starting.starts_with("HTTP/1.1 503 Service Unavailable\r\nx-gwready: state=down\r\nx-envoy-immediate-health-check-fail: true\r\n")
    );
    assert!(starting.ends_with("\r\n\r\nstate=down node=worker-1 address=all reason=Starting ports=80,443\n"), "{starting}");
    port.set(State::Drain);
    let drain = ask(&port, "GET / HTTP/1.1\r\n\r\n")?.reply;
    assert!(drain.contains("\r\nx-gwready: state=drain\r\n") && !drain.contains("state=up") && !drain.contains("state=down"), "{drain}");
    assert_eq!(ask(&port, "GET /\r\n")?.reply, "state=drain node=worker-1 address=127.0.0.11 reason=DrainRequested ports=80,443\n");
    Ok(())
}

#[test]
fn a_request_whose_end_never_comes_is_answered_after_a_short_silence() -> Result<()> {
    let port = open(Unready::Status, Some(State::Up))?;
    for (request, reply) in [
        ("GET / HTTP/1.1\r\nHost: gw\r\n", ok("HTTP/1.1")),
        ("GET / HTTP/1.0\r\n", ok("HTTP/1.0")),
        ("GET / HTTP/1.0", ok("HTTP/1.0")),
        ("GET /", LINE.to_owned()),
    ] {
        let seen = ask(&port, request)?;
        assert_eq!((seen.reply, seen.end), (reply.clone(), End::Closed), "{request:?}");
        assert!((Duration::from_millis(195)..Duration::from_millis(400)).contains(&seen.waited), "{request:?}: {:?}", seen.waited);
        let finished = converse(&port, &[send(request), Act::Finish])?;
        assert_eq!((finished.reply, finished.end), (reply, End::Closed), "{request:?}, then our side closed");
        assert!(finished.waited < Duration::from_millis(150), "nothing more can come: {:?}", finished.waited);
    }
    let begun = converse(&port, &[send("GET / HT"), Act::Pause(Duration::from_millis(300)), send("TP/1.0\r\n\r\n")])?;
    assert_eq!(begun.reply, ok("HTTP/1.0"), "a request line in two parts is not cut short");
    Ok(())
}

#[test]
fn what_a_client_sends_late_never_costs_it_the_reply() -> Result<()> {
    let port = open(Unready::Status, Some(State::Up))?;
    let pause = Act::Pause(Duration::from_millis(50));
    let late = converse(&port, &[send("GET /\r\n"), pause.clone(), send("\r\n\r\n"), pause.clone(), send("more")])?;
    assert_eq!((late.reply.as_str(), late.end), (LINE, End::Closed));
    // Linux hands out a reply that a reset overtook, other clients do not: there must be no reset at all.
    assert!(!late.refused, "reset while the client still spoke");
    let unread = converse(&port, &[send([b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![b'x'; 100_000]].concat()), pause])?;
    assert_eq!((unread.reply, unread.end), (ok("HTTP/1.1"), End::Closed));
    Ok(())
}

#[test]
fn a_head_that_is_too_large_is_refused_in_order() -> Result<()> {
    let port = open(Unready::Status, Some(State::Up))?;
    let refused = refusal("431 Request Header Fields Too Large", "request too large\n");
    let filler = "x".repeat(64 * 1024);
    for request in [format!("GET / HTTP/1.1\r\nX: {filler}\r\n\r\n"), format!("GET /{filler} HTTP/1.1\r\n\r\n")] {
        let seen = ask(&port, &request)?;
        assert_eq!((seen.reply.as_str(), seen.end), (refused.as_str(), End::Closed));
    }
    Ok(())
}

#[test]
fn close_mode_says_nothing_at_all_unless_up() -> Result<()> {
    let port = open(Unready::Close, None)?;
    let requests = ["GET /\r\n", "GET / HTTP/1.1\r\n\r\n", "HEAD / HTTP/1.0\r\n\r\n", "POST /x HTTP/1.1\r\n\r\n", "\x16\x03\x01"];
    let silent = |when: &str| -> Result<()> {
        for request in requests {
            let seen = ask(&port, request)?;
            assert_eq!((seen.reply.as_str(), seen.end), ("", End::Closed), "{when}: {request:?}");
        }
        Ok(())
    };
    silent("starting")?;
    for state in [State::Drain, State::Down] {
        port.set(state);
        silent(state.as_str())?;
    }
    port.set(State::Up);
    assert_eq!(ask(&port, "GET /\r\n")?.reply, LINE);
    Ok(())
}

#[test]
fn agent_check_speaks_first_and_in_haproxys_words() -> Result<()> {
    let port = open(Unready::Status, None)?;
    let address = port.agent_check()?;
    let line = |acts: &[Act]| -> Result<String> {
        let seen = exchange(address, acts, PATIENCE)?;
        assert_eq!(seen.end, End::Closed);
        Ok(seen.reply)
    };
    assert_eq!(line(&[])?, "down #Starting\n");
    for (state, expected) in [(State::Up, "ready up\n"), (State::Drain, "up drain\n"), (State::Down, "down #HostPort\n")] {
        port.set(state);
        assert_eq!(line(&[])?, expected);
        assert_eq!(line(&[send("backend/server\n")])?, expected, "agent-send is ignored");
    }
    Ok(())
}

#[test]
fn requests_are_counted_by_protocol_and_state() -> Result<()> {
    let port = open(Unready::Status, Some(State::Up))?;
    for request in ["GET /\r\n", "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET /x HTTP/1.1\r\n\r\n", "\x16\x03"] {
        ask(&port, request)?;
    }
    let snapshot = port.serving().stats().snapshot();
    let counted: Vec<(&str, &str, u64)> = snapshot
        .requests
        .iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(protocol, state, count)| (protocol.as_str(), *state, *count))
        .collect();
    assert_eq!(counted, [("0.9", "up", 1), ("1.0", "up", 1), ("1.1", "up", 1), ("1.1", "none", 1), ("other", "none", 1)]);
    assert_eq!(snapshot.requests.len(), 16, "every series exists from the start");
    Ok(())
}
