//! Bytes of a health request → what is asked, in any portions, from any client of DESIGN 4.1.
//!
//! Total: every input ends in a request, a fault or "more"; nothing is allocated unless a request line arrives in parts.
//! Only the request line is read; headers are skipped to the blank line, bodies are never waited for.
//! References: RFC 9112 (HTTP/1.1), RFC 1945 4.1 (simple requests of HTTP/0.9).

use super::proxy_protocol::{Opening, V1_PREFIX, V2Header};

/// Longest request line.
pub const MAX_LINE: usize = 4 * 1024;
/// Most bytes of request line, headers and blank lines before it.
pub const MAX_HEAD: usize = 16 * 1024;

/// How the client speaks; decides how the reply is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// No version: the reply is the body alone.
    V09,
    /// HTTP/1.0.
    V10,
    /// HTTP/1.1.
    V11,
    /// Any other version, or not HTTP at all.
    Other,
}

impl Protocol {
    /// All, in the order of metric labels.
    pub const ALL: [Self; 4] = [Self::V09, Self::V10, Self::V11, Self::Other];

    /// The metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V09 => "0.9",
            Self::V10 => "1.0",
            Self::V11 => "1.1",
            Self::Other => "other",
        }
    }

    pub(super) const fn index(self) -> usize {
        match self {
            Self::V09 => 0,
            Self::V10 => 1,
            Self::V11 => 2,
            Self::Other => 3,
        }
    }
}

/// What the client wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET, or OPTIONS, which is answered alike (HAProxy's stock check is `OPTIONS / HTTP/1.0`).
    Get,
    /// HEAD: no body.
    Head,
    /// Anything else.
    Other,
}

/// What the client asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `/healthz`, `/`, or `/healthz/<port>`.
    Health(Option<u16>),
    /// Any other path.
    Unknown,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// How to frame the reply.
    pub protocol: Protocol,
    /// What about.
    pub target: Target,
}

/// Why the bytes can't be a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not a request line: noise, a TLS ClientHello, an escape that the monitor did not translate.
    Malformed,
    /// Request line longer than [`MAX_LINE`] or head longer than [`MAX_HEAD`].
    TooLarge,
}

/// Where the parser stands after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Not finished.
    More,
    /// A request; whatever follows does not matter.
    Complete(Request),
    /// Never will be one.
    Fault(Fault),
}

#[derive(Debug)]
enum Stage {
    Opening(V2Header),
    Line,
    Headers { request: Request, at_line_start: bool },
}

/// Reads one request.
#[derive(Debug)]
pub struct Parser {
    stage: Stage,
    proxied: bool,
    head: usize,
    line: Vec<u8>,
}

impl Default for Parser {
    fn default() -> Self {
        Self { stage: Stage::Opening(V2Header::default()), proxied: false, head: 0, line: Vec::new() }
    }
}

impl Parser {
    /// Takes the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Step {
        loop {
            let step = match &mut self.stage {
                Stage::Opening(header) => match header.feed(&mut bytes) {
                    Opening::More => return Step::More,
                    Opening::Broken => return Step::Fault(Fault::Malformed),
                    Opening::Over => {
                        self.stage = Stage::Line;
                        continue;
                    }
                },
                Stage::Line => self.feed_line(&mut bytes),
                Stage::Headers { request, at_line_start } => {
                    let request = *request;
                    let ended = skip_headers(at_line_start, bytes, MAX_HEAD.saturating_sub(self.head));
                    self.head = self.head.saturating_add(bytes.len());
                    return match ended {
                        true => Step::Complete(request),
                        false if self.head > MAX_HEAD => Step::Fault(Fault::TooLarge),
                        false => Step::More,
                    };
                }
            };
            match step {
                Some(step) => return step,
                None if bytes.is_empty() => return Step::More,
                None => {}
            }
        }
    }

    /// No more bytes have come for a while: what stands there is taken for a request if it can be one.
    #[must_use]
    pub fn when_quiet(&self) -> Step {
        match &self.stage {
            Stage::Headers { request, .. } => Step::Complete(*request),
            Stage::Line if !self.line.is_empty() => match parse_line(&self.line) {
                // A versionless path may be the beginning of a longer one, unless it is one that we know.
                Ok(Line::Request(request)) if request.protocol != Protocol::V09 || request.target != Target::Unknown => {
                    Step::Complete(request)
                }
                _ => Step::More,
            },
            _ => Step::More,
        }
    }

    /// No more bytes will ever come: the client closed its side.
    #[must_use]
    pub fn at_end(&self) -> Step {
        match &self.stage {
            Stage::Line if !self.line.is_empty() => match parse_line(&self.line) {
                Ok(Line::Request(request)) => Step::Complete(request),
                Ok(Line::Proxy) => Step::More,
                Err(fault) => Step::Fault(fault),
            },
            _ => self.when_quiet(),
        }
    }

    /// Takes bytes up to the end of the request line. `None`: go on with what is left.
    fn feed_line(&mut self, bytes: &mut &[u8]) -> Option<Step> {
        if self.line.is_empty() {
            let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.head = self.head.saturating_add(blank);
            *bytes = bytes.get(blank..).unwrap_or_default();
        }
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let (part, rest) = bytes.split_at_checked(end.unwrap_or(bytes.len())).unwrap_or((bytes, &[]));
        if !part.iter().all(|&byte| matches!(byte, b'\t' | b'\r' | b' '..=b'~')) {
            return Some(Step::Fault(Fault::Malformed));
        }
        if self.line.len() + part.len() > MAX_LINE || self.head > MAX_HEAD {
            return Some(Step::Fault(Fault::TooLarge));
        }
        let parsed = match end {
            None => {
                self.line.extend_from_slice(part);
                *bytes = &[];
                return None;
            }
            Some(_) if self.line.is_empty() => parse_line(part),
            Some(_) => {
                self.line.extend_from_slice(part);
                parse_line(&self.line)
            }
        };
        *bytes = rest.get(1..).unwrap_or_default();
        self.head = self.head.saturating_add(part.len() + 1);
        self.line = Vec::new();
        match parsed {
            Err(fault) => Some(Step::Fault(fault)),
            Ok(Line::Proxy) if self.proxied => Some(Step::Fault(Fault::Malformed)),
            Ok(Line::Proxy) => {
                self.proxied = true;
                None
            }
            Ok(Line::Request(request)) if request.protocol == Protocol::V09 => Some(Step::Complete(request)),
            Ok(Line::Request(request)) => {
                self.stage = Stage::Headers { request, at_line_start: true };
                None
            }
        }
    }
}

/// Looks for the blank line within the first `room` bytes. Bare line feeds count as line ends.
fn skip_headers(at_line_start: &mut bool, bytes: &[u8], room: usize) -> bool {
    for &byte in bytes.iter().take(room) {
        match byte {
            b'\n' if *at_line_start => return true,
            b'\n' => *at_line_start = true,
            b'\r' => {}
            _ => *at_line_start = false,
        }
    }
    false
}

enum Line {
    Proxy,
    Request(Request),
}

fn parse_line(line: &[u8]) -> Result<Line, Fault> {
    let line = line.trim_ascii_end();
    if line.starts_with(V1_PREFIX) {
        return Ok(Line::Proxy);
    }
    if line.contains(&b'\r') {
        return Err(Fault::Malformed);
    }
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Err(Fault::Malformed) };
    if !method.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
        return Err(Fault::Malformed);
    }
    let last = words.next_back();
    let protocol = match last {
        None if parse_version(target).is_some() => return Err(Fault::Malformed),
        None => Protocol::V09,
        Some(version) => parse_version(version).ok_or(Fault::Malformed)?,
    };
    let method = match method {
        b"GET" | b"OPTIONS" => Method::Get,
        b"HEAD" => Method::Head,
        _ => Method::Other,
    };
    // A word between target and version: a path with a blank in it, which is none of ours.
    let target = if words.next().is_some() { Target::Unknown } else { parse_target(target) };
    Ok(Line::Request(Request { method, protocol, target }))
}

fn parse_version(word: &[u8]) -> Option<Protocol> {
    let version = word.strip_prefix(b"HTTP/")?;
    match version {
        b"0.9" => Some(Protocol::V09),
        b"1.0" => Some(Protocol::V10),
        b"1.1" => Some(Protocol::V11),
        [major, rest @ ..] if major.is_ascii_digit() => match rest {
            [] => Some(Protocol::Other),
            [b'.', minor] if minor.is_ascii_digit() => Some(Protocol::Other),
            _ => None,
        },
        _ => None,
    }
}

/// Origin form or absolute form; the query is ignored.
fn parse_target(target: &[u8]) -> Target {
    let path = target.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let path = match authority_and_path(path) {
        None => path,
        Some(rest) => rest.iter().position(|&byte| byte == b'/').and_then(|slash| rest.get(slash..)).unwrap_or(b"/"),
    };
    match path {
        b"/" | b"/healthz" => Target::Health(None),
        _ => path.strip_prefix(b"/healthz/").and_then(parse_port).map_or(Target::Unknown, |port| Target::Health(Some(port))),
    }
}

fn authority_and_path(target: &[u8]) -> Option<&[u8]> {
    [b"http://".as_slice(), b"https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// Decimal without sign, blank or leading zero, so that each port has one path.
fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.starts_with(b"0") || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
