//! What the prober is told by the configuration, ready to use.

use std::time::Duration;

/// An extra probe that the operator asked for. Unlike the built-in one it is meant to be routed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplicitProbe {
    /// Expected port it is sent to, on every judged address in turn.
    pub port: u16,
    /// `Host` header.
    pub host: String,
    /// Path with query, beginning with `/`.
    pub path: String,
    /// Server name: TLS if there is one, else clear text.
    pub sni: Option<String>,
    /// Statuses that pass; empty = any.
    pub expect_status: Vec<u16>,
}

impl ExplicitProbe {
    /// The text that names it in results.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.host, self.path)
    }
}

/// The `probe` and `probes` parts of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSettings {
    /// The built-in probes run.
    pub enabled: bool,
    /// Between two probes of one front.
    pub interval: Duration,
    /// Bound of one probe, from connect to answer.
    pub timeout: Duration,
    /// Failures in a row after which the rotation goes on to the next address.
    pub fall: u32,
    /// Server name to ask for where Envoy ends TLS for it.
    pub sni: Option<String>,
    /// Extra probes.
    pub explicit: Vec<ExplicitProbe>,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        let two = Duration::from_secs(2);
        Self { enabled: true, interval: two, timeout: two, fall: 3, sni: None, explicit: Vec::new() }
    }
}
