//! One plain HTTP GET with one deadline for everything. Standard library only: nothing here runs beside the daemon.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Longest reply that is read.
const MAX_BYTES: usize = 64 * 1024;

/// A plain HTTP URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    /// Host and port to connect to.
    host: String,
    port: u16,
    path: String,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// HTTP status.
    pub(super) status: u16,
    /// Body, as far as it was read.
    pub(super) body: String,
}

impl Url {
    /// Reads `http://host[:port][/path]`, `host:port` or `host`; hosts are names, IPv4 or `[IPv6]`.
    pub(super) fn parse(text: &str, port: u16, path: &str) -> Result<Self, String> {
        let fault = |why: &str| format!("\"{text}\" is not a URL of the form http://host:port/path: {why}");
        if text.starts_with("https://") {
            return Err(fault("https is not supported here"));
        }
        let (with_scheme, rest) = text.strip_prefix("http://").map_or((false, text), |rest| (true, rest));
        if !rest.bytes().all(|b| b.is_ascii_graphic()) || rest.contains("://") || rest.contains('@') {
            return Err(fault("it has a character or a part that is not allowed"));
        }
        let (authority, given_path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, given_port) = split_port(authority).ok_or_else(|| fault("the address is malformed"))?;
        // A scheme means that the operator wrote a whole URL, whose default port is HTTP's.
        let default_port = if with_scheme && !given_path.is_empty() { 80 } else { port };
        let port = match given_port {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or_else(|| fault("the port must be from 1 to 65535"))?,
            None => default_port,
        };
        let path = if given_path.is_empty() { path } else { given_path };
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }

    fn authority(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
    };
    match rest.strip_prefix(':') {
        Some(port) if !host.is_empty() && !port.contains(':') => Some((host, Some(port))),
        None if !host.is_empty() && rest.is_empty() => Some((host, None)),
        _ => None,
    }
}

/// Asks once; the sentence says what went wrong.
pub(super) fn fetch(url: &Url, host: Option<&str>, deadline: Instant) -> Result<Reply, String> {
    let addresses = (url.host.as_str(), url.port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut stream = connect(addresses, deadline)?;
    let host = host.map_or_else(|| url.authority(), str::to_owned);
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: gwready\r\nAccept: */*\r\nConnection: close\r\n\r\n", url.path);
    stream.set_write_timeout(Some(left(deadline)?)).map_err(|error| error.to_string())?;
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < MAX_BYTES && !is_whole(&bytes) {
        stream.set_read_timeout(Some(left(deadline)?)).map_err(|error| error.to_string())?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err("no reply in time".to_owned()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A reset after the reply does not take it back.
            Err(_) if !bytes.is_empty() => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    parse_reply(&bytes)
}

fn connect(addresses: impl Iterator<Item = SocketAddr>, deadline: Instant) -> Result<TcpStream, String> {
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

fn left(deadline: Instant) -> Result<Duration, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err("no reply in time".to_owned()) } else { Ok(left) }
}

/// Head and the length that it announces have arrived; without a length the peer's close ends the reply.
fn is_whole(bytes: &[u8]) -> bool {
    let Some((head, body)) = split_head(bytes) else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

fn split_head(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(bytes.get(..end)?).into_owned(), bytes.get(end + 4..)?))
}

fn parse_reply(bytes: &[u8]) -> Result<Reply, String> {
    let (head, body) = split_head(bytes).ok_or("the reply is not HTTP, or ended early")?;
    let status = head.lines().next().and_then(|line| line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok());
    Ok(Reply { status: status.ok_or("the reply has no status line")?, body: String::from_utf8_lossy(body).into_owned() })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn urls_in_every_form_an_operator_writes() {
        let node = |text| Url::parse(text, 9680, "/healthz").map(|url| (url.authority(), url.path));
        for (text, authority, path) in [
            ("node-1", "node-1:9680", "/healthz"),
            ("node-1:8080", "node-1:8080", "/healthz"),
            ("http://node-1", "node-1:9680", "/healthz"),
            ("http://node-1/", "node-1:80", "/"),
            ("http://10.0.0.1:9680/healthz/80?x=1", "10.0.0.1:9680", "/healthz/80?x=1"),
            ("[fd00::1]", "[fd00::1]:9680", "/healthz"),
            ("http://[fd00::1]:9680/healthz", "[fd00::1]:9680", "/healthz"),
        ] {
            assert_eq!(node(text), Ok((authority.to_owned(), path.to_owned())), "{text}");
        }
        for text in
            ["", "https://a", "ftp://a", "a b", "a:0", "a:x", "a:70000", "fd00::1", "[fd00::1", "http://u@h/", "[::1]9680", "a\r\nb"]
        {
            assert!(node(text).is_err(), "{text}");
        }
    }

    /// Serves one connection with these bytes, then closes or keeps it open until the client goes.
    fn serve(reply: &'static [u8], keep_open: bool) -> (Url, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let url = Url::parse(&format!("http://{}/x", listener.local_addr().expect("address")), 1, "/").expect("url");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("client");
            let mut request = [0; 1024];
            let count = stream.read(&mut request).expect("request");
            stream.write_all(reply).expect("reply");
            if keep_open {
                let _ = stream.read(&mut [0; 16]);
            }
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        (url, thread)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[test]
    fn a_reply_is_read_to_its_length_or_to_the_close() {
        let (url, server) = serve(b"HTTP/1.1 503 No\r\nContent-Length: 8\r\n\r\nstate=up", true);
        assert_eq!(fetch(&url, Some("h.example"), soon()), Ok(Reply { status: 503, body: "state=up".to_owned() }));
        let request = server.join().expect("server");
        assert!(request.starts_with("GET /x HTTP/1.1\r\nHost: h.example\r\n"), "{request}");
        let (url, _server) = serve(b"HTTP/1.0 200 OK\r\n\r\nto the end", false);
        assert_eq!(fetch(&url, None, soon()), Ok(Reply { status: 200, body: "to the end".to_owned() }));
    }

    #[test]
    fn silence_nonsense_and_refusal_are_sentences() {
        let (url, _server) = serve(b"", true);
        assert_eq!(fetch(&url, None, Instant::now() + Duration::from_millis(100)), Err("no reply in time".to_owned()));
        let (url, _server) = serve(b"SSH-2.0-x\r\n", false);
        assert!(fetch(&url, None, soon()).expect_err("nonsense").contains("not HTTP"));
        let free = TcpListener::bind("127.0.0.1:0").expect("port").local_addr().expect("address");
        let url = Url::parse(&free.to_string(), 1, "/").expect("url");
        assert!(fetch(&url, None, soon()).expect_err("refused").contains("refused"));
    }
}
