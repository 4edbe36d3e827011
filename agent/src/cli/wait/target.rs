//! What is waited for: a node's health URL, or a route.

use std::time::{Duration, Instant};

use gwready_core::render::text::sanitise;

use super::fetch::{Reply, Url, fetch};

/// Default port and path of a node's health URL.
const HEALTH_PORT: u16 = 9680;
const HEALTH_PATH: &str = "/healthz";

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// As the operator wrote it.
    pub(super) name: String,
    url: Url,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    StateUp,
    Status { host: Option<String>, status: u16 },
}

/// What a target said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// As wanted.
    pub(super) good: bool,
    /// In short, harmless: `state=down reason=HostPort`, `status=404`, `no answer (connection refused)`.
    pub(super) text: String,
}

impl Answer {
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self { good: false, text: text.into() }
    }
}

impl Target {
    /// A node: any of `http://host:port/path`, `host:port`, `host`.
    pub(super) fn node(text: &str) -> Result<Self, String> {
        let url = Url::parse(text, HEALTH_PORT, HEALTH_PATH)?;
        Ok(Self { name: text.to_owned(), url, wanted: Wanted::StateUp })
    }

    /// A route: a URL, the Host header to send, and the status that is wanted.
    pub(super) fn route(text: &str, host: Option<&str>, status: u16) -> Result<Self, String> {
        let url = Url::parse(text, 80, "/")?;
        if host.is_some_and(|host| host.is_empty() || !host.bytes().all(|b| b.is_ascii_graphic())) {
            return Err("--host must be a host name".to_owned());
        }
        Ok(Self { name: text.to_owned(), url, wanted: Wanted::Status { host: host.map(str::to_owned), status } })
    }

    /// Asks once.
    pub(super) fn ask(&self, patience: Duration) -> Answer {
        let host = match &self.wanted {
            Wanted::StateUp => None,
            Wanted::Status { host, .. } => host.as_deref(),
        };
        match fetch(&self.url, host, Instant::now() + patience) {
            Ok(reply) => self.judge(&reply),
            Err(sentence) => Answer::bad(format!("no answer ({})", sanitise(&sentence))),
        }
    }

    fn judge(&self, reply: &Reply) -> Answer {
        match &self.wanted {
            Wanted::StateUp => judge_health(reply),
            Wanted::Status { status, .. } => Answer { good: reply.status == *status, text: format!("status={}", reply.status) },
        }
    }
}

/// The state line is the first body line, and stable. Without one, whoever answered is not gwready.
fn judge_health(reply: &Reply) -> Answer {
    let line = reply.body.lines().next().unwrap_or_default();
    let token = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let Some(state) = token("state") else {
        return Answer::bad(format!("status={}, but no state line: not gwready?", reply.status));
    };
    let mut text = format!("state={}", sanitise(state));
    for name in ["reason", "port", "partial"] {
        if let Some(value) = token(name) {
            text.push_str(&format!(" {name}={}", sanitise(value)));
        }
    }
    Answer { good: state == "up" && reply.status == 200, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, body: body.to_owned() }
    }

    #[test]
    fn only_a_state_line_that_says_up_is_good() {
        for (status, body, good, text) in [
            (200, "state=up node=w address=all partial=1 ports=80\nx", true, "state=up partial=1"),
            (503, "state=down node=w address=all reason=HostPort port=80 ports=80", false, "state=down reason=HostPort port=80"),
            (503, "state=drain node=w reason=DrainRequested", false, "state=drain reason=DrainRequested"),
            (503, "state=up", false, "state=up"),
            (200, "hello state=up", true, "state=up"),
            (200, "<html>ok", false, "status=200, but no state line: not gwready?"),
            (404, "", false, "status=404, but no state line: not gwready?"),
        ] {
            assert_eq!(judge_health(&reply(status, body)), Answer { good, text: text.to_owned() }, "{body}");
        }
    }

    #[test]
    fn a_route_is_judged_by_its_status_alone() {
        let target = Target::route("http://10.0.0.1/", Some("a.example"), 404).expect("valid");
        assert!(target.judge(&reply(404, "")).good && !target.judge(&reply(200, "state=up")).good);
        assert!(Target::route("http://10.0.0.1/", Some("a b"), 200).is_err());
    }
}
