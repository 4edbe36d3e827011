//! Envoy's own word, read from its admin socket (GET only). Source: `/ready`, `/server_info`, `/listeners`, `/stats`, `/config_dump?resource=dynamic_listeners`.

use serde::{Deserialize, Serialize};

/// One dynamic listener.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnvoyListener {
    /// Name, e.g. `default/cilium-gateway-gw/listener`, raw text.
    pub name: String,
    /// Ports of its addresses, ascending, as accepted or as last asked for.
    pub ports: Vec<u16>,
    /// An active version serves.
    pub active: bool,
    /// Envoy's sentence about the last rejected update, raw text.
    pub error: Option<String>,
    /// Ports that the rejected update asked for.
    pub rejected_ports: Vec<u16>,
    /// Server names of its TLS filter chains (exact names only), sorted.
    pub server_names: Vec<String>,
}

/// Envoy's server state (`/server_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// `LIVE`.
    #[default]
    Live,
    /// `DRAINING`: `/healthcheck/fail` was called.
    Draining,
    /// `PRE_INITIALIZING` or `INITIALIZING`.
    Initializing,
}

/// One read of the admin socket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnvoyAdmin {
    /// Server state.
    pub state: ServerState,
    /// Dynamic listeners, by name.
    pub listeners: Vec<EnvoyListener>,
    /// `control_plane.connected_state`; none where the stat does not exist (static or file configuration).
    pub control_plane_connected: Option<bool>,
    /// Sum of `downstream_context_secrets_not_ready` over the gateway listeners.
    pub secrets_not_ready: u64,
}
