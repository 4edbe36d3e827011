//! Envoy's admin replies to facts: `/ready`, `/stats?format=json`, `/config_dump?resource=dynamic_listeners`.
//!
//! Source of the formats: envoy `api/envoy/admin/v3/{config_dump_shared,listeners,server_info}.proto`, as JSON of proto field names.
//! Must not judge: a rejected listener is a fact here, not a fault.

use std::net::IpAddr;

use serde::Deserialize;

use crate::facts::envoy::{ChainKind, EnvoyAdmin, EnvoyListener, FilterChain, ServerState};

/// Why a reply could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// `/ready` said a word that is no server state.
    #[error("unknown server state {0:?}")]
    State(String),
    /// Not the JSON that this version of Envoy should send.
    #[error("unexpected JSON from {path}")]
    Json {
        /// Which reply.
        path: &'static str,
        /// What serde says.
        #[source]
        source: serde_json::Error,
    },
}

/// Body of `/ready` (`LIVE`, `DRAINING`, `INITIALIZING`, `PRE_INITIALIZING`) to the state. The HTTP status says nothing more.
///
/// # Errors
/// On any other word.
pub fn parse_ready(body: &[u8]) -> Result<ServerState, AdminError> {
    match body.trim_ascii() {
        b"LIVE" => Ok(ServerState::Live),
        b"DRAINING" => Ok(ServerState::Draining),
        b"INITIALIZING" | b"PRE_INITIALIZING" => Ok(ServerState::Initializing),
        other => Err(AdminError::State(String::from_utf8_lossy(other).chars().take(64).collect())),
    }
}

/// Stats that [`parse_stats`] reads, as Envoy's `filter` parameter wants them (RE2, not yet percent-encoded).
pub const STATS_FILTER: &str = r"^(listener_manager\.lds\.(update_attempt|update_success|update_rejected)|listener_manager\.total_listeners_(active|warming)|control_plane\.connected_state|server\.uptime|listener\..*\.downstream_context_secrets_not_ready)$";

/// The stats of one read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdminStats {
    /// `control_plane.connected_state`.
    pub control_plane_connected: Option<bool>,
    /// `listener_manager.lds.update_rejected`.
    pub updates_rejected: u64,
    /// Seconds since Envoy started: running backwards means another process.
    pub uptime: u64,
    /// Everything that changes when the set of listeners may have changed. Equal revisions of the same process: same listeners.
    pub revision: Vec<(String, u64)>,
    /// Stat prefix of a listener (`0.0.0.0_80`) and its `downstream_context_secrets_not_ready`.
    pub secrets_not_ready: Vec<(String, u64)>,
}

#[derive(Deserialize)]
struct RawStats {
    #[serde(default)]
    stats: Vec<RawStat>,
}

#[derive(Deserialize)]
struct RawStat {
    name: Option<String>,
    #[serde(default)]
    value: serde_json::Value,
}

/// Reply of `/stats?format=json&filter=…`. Histograms and text readouts are left out.
///
/// # Errors
/// If it is not JSON of that shape.
pub fn parse_stats(body: &[u8]) -> Result<AdminStats, AdminError> {
    let raw: RawStats = serde_json::from_slice(body).map_err(|source| AdminError::Json { path: "/stats", source })?;
    let mut stats = AdminStats::default();
    for RawStat { name, value } in raw.stats {
        let (Some(name), Some(value)) = (name, value.as_u64()) else { continue };
        match name.as_str() {
            "control_plane.connected_state" => stats.control_plane_connected = Some(value != 0),
            "server.uptime" => stats.uptime = value,
            _ => {
                if let Some(prefix) = listener_prefix(&name) {
                    stats.secrets_not_ready.push((prefix.to_owned(), value));
                    continue;
                }
                if name == "listener_manager.lds.update_rejected" {
                    stats.updates_rejected = value;
                }
                stats.revision.push((name, value));
            }
        }
    }
    stats.revision.sort();
    Ok(stats)
}

/// `listener.<prefix>.server_ssl_socket_factory.downstream_context_secrets_not_ready` → `<prefix>`.
fn listener_prefix(name: &str) -> Option<&str> {
    let inner = name.strip_prefix("listener.")?.strip_suffix(".downstream_context_secrets_not_ready")?;
    Some(inner.strip_suffix(".server_ssl_socket_factory").unwrap_or(inner))
}

/// A listener with the prefix of its stats.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodedListener {
    /// The facts.
    pub listener: EnvoyListener,
    /// `stat_prefix`, else its first address with `:` made `_` (envoy source/common/listener_manager/listener_impl.cc).
    pub stat_prefix: String,
}

#[derive(Deserialize)]
struct RawDump {
    #[serde(default)]
    configs: Vec<RawDynamic>,
}

#[derive(Deserialize)]
struct RawDynamic {
    #[serde(default)]
    name: String,
    active_state: Option<RawState>,
    error_state: Option<RawError>,
}

#[derive(Deserialize)]
struct RawState {
    listener: Option<RawListener>,
}

#[derive(Deserialize)]
struct RawError {
    failed_configuration: Option<RawListener>,
    #[serde(default)]
    details: String,
}

#[derive(Deserialize)]
struct RawListener {
    #[serde(default)]
    name: String,
    #[serde(default)]
    stat_prefix: String,
    address: Option<RawAddress>,
    #[serde(default)]
    additional_addresses: Vec<RawAdditional>,
    #[serde(default)]
    filter_chains: Vec<RawChain>,
    default_filter_chain: Option<RawChain>,
    #[serde(default)]
    listener_filters: Vec<RawFilter>,
}

#[derive(Deserialize)]
struct RawAdditional {
    address: Option<RawAddress>,
}

#[derive(Deserialize)]
struct RawAddress {
    socket_address: Option<RawSocketAddress>,
}

#[derive(Deserialize)]
struct RawSocketAddress {
    #[serde(default)]
    address: String,
    #[serde(default)]
    port_value: u16,
}

#[derive(Deserialize, Default)]
struct RawChain {
    #[serde(default)]
    filter_chain_match: RawMatch,
    #[serde(default)]
    filters: Vec<RawFilter>,
    transport_socket: Option<RawFilter>,
}

#[derive(Deserialize, Default)]
struct RawMatch {
    #[serde(default)]
    server_names: Vec<String>,
    #[serde(default)]
    transport_protocol: String,
    destination_port: Option<u16>,
}

#[derive(Deserialize)]
struct RawFilter {
    #[serde(default)]
    name: String,
    typed_config: Option<RawTyped>,
}

#[derive(Deserialize)]
struct RawTyped {
    #[serde(rename = "@type", default)]
    type_url: String,
}

impl RawFilter {
    /// Whether it is the extension with this message name, or (where no type is given) this extension name.
    fn is(&self, message: &str, extension: &str) -> bool {
        match &self.typed_config {
            Some(typed) if !typed.type_url.is_empty() => typed.type_url.rsplit('.').next() == Some(message),
            _ => self.name == extension,
        }
    }
}

impl RawListener {
    fn addresses(&self) -> impl Iterator<Item = &RawSocketAddress> {
        let additional = self.additional_addresses.iter().map(|one| one.address.as_ref());
        std::iter::once(self.address.as_ref()).chain(additional).flatten().filter_map(|address| address.socket_address.as_ref())
    }

    /// Ports of the loopback addresses, or of all others.
    fn ports(&self, loopback: bool) -> Vec<u16> {
        let is_wanted = |one: &&RawSocketAddress| one.address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) == loopback;
        let mut ports: Vec<u16> = self.addresses().filter(is_wanted).map(|one| one.port_value).filter(|port| *port != 0).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn stat_prefix(&self) -> String {
        if !self.stat_prefix.is_empty() {
            return self.stat_prefix.replace(':', "_");
        }
        match self.addresses().next() {
            Some(one) if one.address.contains(':') => format!("[{}]_{}", one.address.replace(':', "_"), one.port_value),
            Some(one) => format!("{}_{}", one.address, one.port_value),
            None => String::new(),
        }
    }
}

fn chain(raw: RawChain) -> FilterChain {
    let ends_tls = raw.transport_socket.as_ref().map(|socket| socket.is("DownstreamTlsContext", "envoy.transport_sockets.tls"));
    let http = raw.filters.iter().any(|filter| filter.is("HttpConnectionManager", "envoy.filters.network.http_connection_manager"));
    let wants_tls = raw.filter_chain_match.transport_protocol == "tls" || !raw.filter_chain_match.server_names.is_empty();
    let kind = match (ends_tls, http) {
        (Some(true), true) => ChainKind::Tls,
        (None, true) if !wants_tls => ChainKind::Http,
        (None, _) if wants_tls => ChainKind::Passthrough,
        _ => ChainKind::Opaque,
    };
    FilterChain { kind, server_names: raw.filter_chain_match.server_names, port: raw.filter_chain_match.destination_port }
}

/// Reply of `/config_dump?resource=dynamic_listeners`, one entry per listener name, by name. A rejected update that Envoy lists
/// both under its listener and without a name becomes one entry.
///
/// # Errors
/// If it is not JSON of that shape.
pub fn parse_listeners(body: &[u8]) -> Result<Vec<DecodedListener>, AdminError> {
    let raw: RawDump = serde_json::from_slice(body).map_err(|source| AdminError::Json { path: "/config_dump", source })?;
    let mut by_name = std::collections::BTreeMap::<String, DecodedListener>::new();
    for RawDynamic { name, active_state, error_state } in raw.configs {
        let failed = error_state.as_ref().and_then(|error| error.failed_configuration.as_ref());
        let name = if name.is_empty() { failed.map(|listener| listener.name.clone()).unwrap_or_default() } else { name };
        let entry = by_name.entry(name.clone()).or_default();
        entry.listener.name = name;
        if let Some(failed) = failed {
            entry.listener.rejected_ports = failed.ports(false);
            entry.listener.loopback_ports.extend(failed.ports(true));
        }
        if let Some(error) = error_state {
            entry.listener.error = Some(error.details);
        }
        if let Some(active) = active_state.and_then(|state| state.listener) {
            entry.stat_prefix = active.stat_prefix();
            entry.listener.active = true;
            entry.listener.ports = active.ports(false);
            entry.listener.loopback_ports.extend(active.ports(true));
            entry.listener.proxy_protocol =
                active.listener_filters.iter().any(|filter| filter.is("ProxyProtocol", "envoy.filters.listener.proxy_protocol"));
            entry.listener.chains = active.filter_chains.into_iter().chain(active.default_filter_chain).map(chain).collect();
        }
        entry.listener.loopback_ports.sort_unstable();
        entry.listener.loopback_ports.dedup();
    }
    Ok(by_name.into_values().collect())
}

/// Joins the three replies of one read.
#[must_use]
pub fn join(state: ServerState, stats: &AdminStats, listeners: &[DecodedListener]) -> EnvoyAdmin {
    let with_secrets = |decoded: &DecodedListener| {
        let secrets = stats.secrets_not_ready.iter().find(|(prefix, _)| *prefix == decoded.stat_prefix).map(|(_, value)| *value);
        EnvoyListener { secrets_not_ready: secrets, ..decoded.listener.clone() }
    };
    EnvoyAdmin {
        state,
        listeners: listeners.iter().map(with_secrets).collect(),
        control_plane_connected: stats.control_plane_connected,
        updates_rejected: stats.updates_rejected,
    }
}

#[cfg(test)]
#[path = "envoy_admin_tests.rs"]
mod tests;
