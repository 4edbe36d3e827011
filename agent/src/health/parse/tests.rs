//! Request lines that real clients send, portions of any size, and that no bytes at all can upset the parser.

use proptest::prelude::*;

use super::*;

const fn request(method: Method, protocol: Protocol, target: Target) -> Step {
    Step::Complete(Request { method, protocol, target })
}

const NODE: Target = Target::Health(None);

fn parse(bytes: &[u8]) -> Step {
    Parser::default().feed(bytes)
}

/// As `parse`, one byte at a time.
fn trickle(bytes: &[u8]) -> Step {
    let mut parser = Parser::default();
    bytes.iter().map(|&byte| parser.feed(&[byte])).find(|step| *step != Step::More).unwrap_or(Step::More)
}

#[track_caller]
fn reads(bytes: &[u8], expected: Step) {
    let shown = bytes.get(..80).unwrap_or(bytes).escape_ascii();
    assert_eq!(parse(bytes), expected, "{shown}");
    assert_eq!(trickle(bytes), expected, "byte by byte: {shown}");
}

#[test]
fn versionless_requests_end_with_their_line() {
    for bytes in [b"GET /\r\n".as_slice(), b"GET /\n", b"GET /\r\n\r\n\r\n", b"\r\n\r\nGET /\r\n", b"GET / \r\n", b"GET / HTTP/0.9\r\n"] {
        reads(bytes, request(Method::Get, Protocol::V09, NODE));
    }
    reads(b"GET /healthz/443\r\n", request(Method::Get, Protocol::V09, Target::Health(Some(443))));
}

#[test]
fn versioned_requests_end_with_a_blank_line() {
    reads(b"GET /healthz HTTP/1.0\r\n", Step::More);
    reads(b"GET /healthz HTTP/1.0\r\n\r\n", request(Method::Get, Protocol::V10, NODE));
    reads(b"GET /healthz HTTP/1.1\nHost: gw\n\n", request(Method::Get, Protocol::V11, NODE));
    reads(b"HEAD / HTTP/1.0\r\n\r\n", request(Method::Head, Protocol::V10, NODE));
    reads(b"OPTIONS / HTTP/1.0\r\n\r\n", request(Method::Get, Protocol::V10, NODE));
    reads(b"GET / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", request(Method::Get, Protocol::V11, NODE));
    reads(b"POST / HTTP/1.1\r\n\r\n", request(Method::Other, Protocol::V11, NODE));
    reads(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", request(Method::Other, Protocol::Other, Target::Unknown));
}

#[test]
fn targets() {
    for (target, expected) in [
        ("/", NODE),
        ("/healthz", NODE),
        ("/healthz?probe=1&x=/healthz/80", NODE),
        ("/?a", NODE),
        ("/healthz#x", NODE),
        ("http://10.0.0.11:9680/healthz", NODE),
        ("HTTP://gw", NODE),
        ("https://gw/healthz/80?x", Target::Health(Some(80))),
        ("/healthz/443", Target::Health(Some(443))),
        ("/healthz/", Target::Unknown),
        ("/healthz/0", Target::Unknown),
        ("/healthz/080", Target::Unknown),
        ("/healthz/+80", Target::Unknown),
        ("/healthz/65536", Target::Unknown),
        ("/healthz/80/x", Target::Unknown),
        ("/Healthz", Target::Unknown),
        ("healthz", Target::Unknown),
        ("*", Target::Unknown),
        ("/metrics", Target::Unknown),
        ("/health z", Target::Unknown),
    ] {
        reads(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes(), request(Method::Get, Protocol::V11, expected));
    }
}

#[test]
fn proxy_headers_are_skipped() {
    let get = b"GET / HTTP/1.0\r\n\r\n";
    let up = request(Method::Get, Protocol::V10, NODE);
    for header in [
        b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".as_slice(),
        b"PROXY UNKNOWN\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\xdc\x04\x01\xbb",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\x05state",
    ] {
        reads(&[header, get].concat(), up);
        reads(&[header, b"GET /\r\n"].concat(), request(Method::Get, Protocol::V09, NODE));
    }
    reads(b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0GET /\r\n", Step::Fault(Fault::Malformed));
    reads(b"\r\n\r\n\0\r\nGET /\r\n", Step::Fault(Fault::Malformed));
    reads(b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\nGET /\r\n", Step::Fault(Fault::Malformed));
}

#[test]
fn what_is_no_request_is_said_to_be_none() {
    for bytes in [
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc".as_slice(),
        b"\x80\x2e\x01",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"GET\r\n",
        b"GET HTTP/1.1\r\n",
        b"GET / HTTP/1.1/r/nHost: gw/r/n\r\n\r\n",
        b"GET / HTTP/x\r\n\r\n",
        b"G(T / HTTP/1.1\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\rX\r\n\r\n",
    ] {
        reads(bytes, Step::Fault(Fault::Malformed));
    }
}

#[test]
fn sizes_are_bounded() {
    let long_line = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(MAX_LINE));
    reads(long_line.as_bytes(), Step::Fault(Fault::TooLarge));
    let long_head = format!("GET / HTTP/1.1\r\n{}\r\n", "X-Filler: 0123456789abcdef\r\n".repeat(MAX_HEAD / 28 + 1));
    reads(long_head.as_bytes(), Step::Fault(Fault::TooLarge));
    let fits = format!("GET / HTTP/1.1\r\n{}\r\n", "X-Filler: 0123456789abcdef\r\n".repeat(MAX_HEAD / 28 - 2));
    reads(fits.as_bytes(), request(Method::Get, Protocol::V11, NODE));
    reads(&b"\r\n".repeat(MAX_HEAD), Step::Fault(Fault::TooLarge));
}

#[test]
fn silence_completes_what_can_be_a_request() {
    let quiet = |bytes: &[u8]| {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(bytes), Step::More);
        (parser.when_quiet(), parser.at_end())
    };
    let get = |protocol| request(Method::Get, protocol, NODE);
    assert_eq!(quiet(b"GET / HTTP/1.1\r\nHost: gw\r\n"), (get(Protocol::V11), get(Protocol::V11)));
    assert_eq!(quiet(b"GET / HTTP/1.0"), (get(Protocol::V10), get(Protocol::V10)));
    assert_eq!(quiet(b"GET /"), (get(Protocol::V09), get(Protocol::V09)));
    assert_eq!(quiet(b"GET /heal"), (Step::More, request(Method::Get, Protocol::V09, Target::Unknown)), "may go on");
    assert_eq!(quiet(b"GE"), (Step::More, Step::Fault(Fault::Malformed)));
    assert_eq!(quiet(b"PROXY UNKNOWN\r\n"), (Step::More, Step::More));
    assert_eq!(quiet(b"\r\n\r\n"), (Step::More, Step::More));
    assert_eq!(quiet(b""), (Step::More, Step::More));
}

/// Bytes that reach the deeper branches: pieces of real requests among noise.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        b"GET ".as_slice(),
        b"/healthz",
        b"/",
        b" HTTP/1.1",
        b" HTTP/1.0",
        b"\r\n",
        b"\n",
        b"\r",
        b"PROXY ",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"\x21\x11\0\x0c",
        b"Host: x",
        b"http://",
        b"443",
    ])
    .prop_map(<[u8]>::to_vec);
    prop::collection::vec(prop_oneof![4 => known, 1 => prop::collection::vec(any::<u8>(), 0..40)], 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Total, and the same whatever the portions: a step is reached at the same byte.
    #[test]
    fn portions_do_not_matter(bytes in pieces(), cuts in prop::collection::vec(1_usize..20, 0..40)) {
        let whole = parse(&bytes);
        let mut parser = Parser::default();
        let mut rest = bytes.as_slice();
        let mut step = Step::More;
        for cut in cuts.into_iter().chain(std::iter::repeat(7)) {
            if rest.is_empty() || step != Step::More {
                break;
            }
            let (part, after) = rest.split_at(cut.min(rest.len()));
            step = parser.feed(part);
            rest = after;
        }
        // Noise after the end of a line is seen only by who got it in the same portion, and then it was not needed.
        prop_assert_eq!(step, whole);
        _ = (parser.when_quiet(), parser.at_end());
    }
}
