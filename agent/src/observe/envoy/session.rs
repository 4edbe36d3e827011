//! The questions of one read, and what is kept between reads so that the large answer is asked for only when it may have changed.
//!
//! `/ready` says the same word as `/server_info`, whose reply is 60 kB of built-in extensions; `/config_dump` is as large as the
//! gateway's configuration. So every read asks `/ready` and a dozen stats, and the listeners are asked for when Envoy restarted,
//! when a listener update was tried, accepted or rejected, or when the number of listeners changed, and every 30 s anyway.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gwready_core::decode::envoy_admin::{AdminStats, DecodedListener, STATS_FILTER, join, parse_listeners, parse_ready, parse_stats};
use gwready_core::facts::envoy::EnvoyAdmin;

use super::client::read_path;
use super::error::AdminReadError;

/// The listeners are asked for again after this time, whatever the counters say.
const RELIST_AFTER: Duration = Duration::from_secs(30);

/// Reads one admin socket again and again.
#[derive(Debug)]
pub struct AdminSession {
    socket: PathBuf,
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    stats: AdminStats,
    listeners: Vec<DecodedListener>,
    listed_at: Instant,
}

impl AdminSession {
    /// A session; nothing is asked yet.
    #[must_use]
    pub const fn new(socket: PathBuf) -> Self {
        Self { socket, known: None }
    }

    /// One whole read, or why there is none. Blocks until `deadline` at most.
    ///
    /// # Errors
    /// Any [`AdminReadError`]; what is known from before is forgotten then.
    pub fn read(&mut self, deadline: Instant) -> Result<EnvoyAdmin, AdminReadError> {
        let known = self.known.take();
        let (_, ready) = read_path(&self.socket, "/ready", deadline)?;
        let state = parse_ready(&ready)?;
        let stats = parse_stats(&self.body(&format!("/stats?format=json&filter={}", percent_encode(STATS_FILTER)), deadline)?)?;
        let known = match known {
            Some(known) if is_current(&known, &stats) => Known { stats, ..known },
            _ => {
                let body = self.body("/config_dump?resource=dynamic_listeners", deadline)?;
                Known { stats, listeners: parse_listeners(&body)?, listed_at: Instant::now() }
            }
        };
        let admin = join(state, &known.stats, &known.listeners);
        self.known = Some(known);
        Ok(admin)
    }

    fn body(&self, path: &str, deadline: Instant) -> Result<Vec<u8>, AdminReadError> {
        match read_path(&self.socket, path, deadline)? {
            (200, body) => Ok(body),
            (status, _) => Err(AdminReadError::Status { path: path.split('?').next().unwrap_or_default().to_owned(), status }),
        }
    }
}

fn is_current(known: &Known, stats: &AdminStats) -> bool {
    known.stats.revision == stats.revision && stats.uptime >= known.stats.uptime && known.listed_at.elapsed() < RELIST_AFTER
}

/// Everything but unreserved characters (RFC 3986), byte by byte.
fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_the_query_string() {
        assert_eq!(percent_encode(r"^(a\.b|c)$"), "%5E%28a%5C.b%7Cc%29%24");
    }
}
