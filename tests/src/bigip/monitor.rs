//! A monitor's configuration, what it sends, and what it finds in a reply.

use std::time::Duration;

use anyhow::{Context, Result};
use regex_lite::Regex;

use super::escape::unescape;
use super::prober::Prober;

/// As much of a reply as is searched.
pub const SEARCHED: usize = 5120;

/// An `ltm monitor http`. Strings are as an operator writes them.
#[derive(Debug, Clone)]
pub struct Monitor {
    /// Send string.
    pub send: String,
    /// Receive string, a regular expression; empty: any byte at all.
    pub recv: String,
    /// Receive-disable string, a regular expression; empty: none.
    pub recv_disable: String,
    /// Between probes.
    pub interval: Duration,
    /// Without a good reply for this long, the member is down.
    pub timeout: Duration,
}

impl Default for Monitor {
    /// The stock monitor: a versionless request, any reply is good, 5 s and 16 s.
    fn default() -> Self {
        Self {
            send: r"GET /\r\n".to_owned(),
            recv: String::new(),
            recv_disable: String::new(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(16),
        }
    }
}

/// What one probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The receive string matched.
    Good,
    /// Only the receive-disable string matched.
    Disabled,
    /// Neither, or no reply.
    Bad,
}

impl Monitor {
    /// The monitor that docs/load-balancers.md gives to operators.
    #[must_use]
    pub fn recommended() -> Self {
        Self {
            send: r"GET /healthz HTTP/1.1\r\nHost: gw\r\nConnection: Close\r\n\r\n".to_owned(),
            recv: "state=up".to_owned(),
            recv_disable: "state=drain".to_owned(),
            ..Self::default()
        }
    }

    /// The bytes on the wire: both probers append line ends to whatever is configured (F5 bug 1026781).
    #[must_use]
    pub fn bytes(&self, prober: Prober) -> Vec<u8> {
        let mut bytes = unescape(&self.send);
        bytes.extend_from_slice(prober.appends());
        bytes
    }

    /// Searches a reply: headers and body alike. If both match, receive wins.
    pub fn find(&self, reply: &[u8]) -> Result<Finding> {
        let searched = String::from_utf8_lossy(reply.get(..SEARCHED).unwrap_or(reply));
        let matches = |pattern: &str| -> Result<bool> {
            let pattern = String::from_utf8(unescape(pattern))?;
            Ok(Regex::new(&pattern).with_context(|| pattern.clone())?.is_match(&searched))
        };
        Ok(if !reply.is_empty() && (self.recv.is_empty() || matches(&self.recv)?) {
            Finding::Good
        } else if !self.recv_disable.is_empty() && matches(&self.recv_disable)? {
            Finding::Disabled
        } else {
            Finding::Bad
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_outcomes_and_receive_wins() {
        let monitor = Monitor::recommended();
        assert_eq!(monitor.find(b"HTTP/1.1 200 OK\r\nx-gwready: state=up\r\n\r\n").expect("find"), Finding::Good);
        assert_eq!(monitor.find(b"state=drain node=x").expect("find"), Finding::Disabled);
        assert_eq!(monitor.find(b"state=drain state=up").expect("find"), Finding::Good);
        assert_eq!(monitor.find(b"state=down node=x").expect("find"), Finding::Bad);
        assert_eq!(monitor.find(b"").expect("find"), Finding::Bad);
    }

    #[test]
    fn only_the_first_5120_bytes_are_searched() {
        let monitor = Monitor::recommended();
        let reply = |before: usize| [vec![b'x'; before], b"state=up".to_vec()].concat();
        assert_eq!(monitor.find(&reply(SEARCHED - 8)).expect("find"), Finding::Good);
        assert_eq!(monitor.find(&reply(SEARCHED - 7)).expect("find"), Finding::Bad);
    }

    #[test]
    fn an_empty_receive_string_takes_any_byte() {
        let stock = Monitor::default();
        assert_eq!(stock.find(b"HTTP/1.1 400 Bad Request\r\n").expect("find"), Finding::Good);
        assert_eq!(stock.find(b"").expect("find"), Finding::Bad);
        assert_eq!(stock.bytes(Prober::Bigd), b"GET /\r\n\r\n\r\n");
        assert_eq!(stock.bytes(Prober::InTmm), b"GET /\r\n\r\n");
    }
}
