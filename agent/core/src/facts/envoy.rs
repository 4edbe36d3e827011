//! Envoy's own word, read from its admin socket (GET only). Source: `/ready`, `/stats`, `/config_dump?resource=dynamic_listeners`.

use serde::{Deserialize, Serialize};

/// What a filter chain does with a connection. Decides what a probe may send without reaching a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainKind {
    /// Clear text, HTTP connection manager: Envoy answers a request without Host by itself.
    Http,
    /// TLS ends here, HTTP connection manager behind it: a ServerHello comes from Envoy.
    Tls,
    /// TLS that is not ended here: a ClientHello goes to a backend.
    Passthrough,
    /// Anything else (TCP proxy on clear text, TLS ended before a TCP proxy, unknown filters): a connect may reach a backend.
    Opaque,
}

/// One filter chain of a listener.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FilterChain {
    /// What it does.
    pub kind: ChainKind,
    /// `filter_chain_match.server_names`, exact or `*.suffix`; empty = any name and none.
    pub server_names: Vec<String>,
    /// `filter_chain_match.destination_port`, where the chain is for one port only.
    pub port: Option<u16>,
}

/// One dynamic listener.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvoyListener {
    /// Name, e.g. `default/cilium-gateway-gw/listener`, raw text.
    pub name: String,
    /// Ports of the addresses of the version that serves, ascending; those of loopback addresses are in `loopback_ports`.
    pub ports: Vec<u16>,
    /// An active version serves.
    pub active: bool,
    /// Envoy's sentence about the last rejected update, raw text.
    pub error: Option<String>,
    /// Ports that the rejected update asked for, ascending, loopback left out.
    pub rejected_ports: Vec<u16>,
    /// Ports of loopback addresses, of either version, ascending. Behind a load balancer these are Cilium's proxy ports, in
    /// host-network mode a gateway that nobody outside can reach.
    pub loopback_ports: Vec<u16>,
    /// Filter chains of the version that serves.
    pub chains: Vec<FilterChain>,
    /// The listener wants a PROXY protocol header first.
    pub proxy_protocol: bool,
    /// `downstream_context_secrets_not_ready` of this listener: connections closed because a certificate has not arrived.
    /// None where the listener has no such stat.
    pub secrets_not_ready: Option<u64>,
}

impl EnvoyListener {
    /// Whether the name is one that Cilium gives to the listeners of a Gateway: `<namespace>/cilium-gateway-<name>/…`
    /// (Cilium: operator/pkg/model/translation, pkg/policy/api/utils.go).
    #[must_use]
    pub fn is_gateway(&self) -> bool {
        self.gateway().is_some()
    }

    /// `<namespace>/<gateway>` of a gateway listener.
    #[must_use]
    pub fn gateway(&self) -> Option<String> {
        let mut parts = self.name.splitn(3, '/');
        let namespace = parts.next().filter(|part| !part.is_empty())?;
        let gateway = parts.next()?.strip_prefix("cilium-gateway-").filter(|part| !part.is_empty())?;
        parts.next()?;
        Some(format!("{namespace}/{gateway}"))
    }
}

/// Envoy's server state (`/ready`, the same word as `state` in `/server_info`).
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

impl ServerState {
    /// The word for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "LIVE",
            Self::Draining => "DRAINING",
            Self::Initializing => "INITIALIZING",
        }
    }
}

/// One read of the admin socket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvoyAdmin {
    /// Server state.
    pub state: ServerState,
    /// Dynamic listeners, by name.
    pub listeners: Vec<EnvoyListener>,
    /// `control_plane.connected_state`; none where the stat does not exist (static or file configuration).
    pub control_plane_connected: Option<bool>,
    /// `listener_manager.lds.update_rejected`: rejected updates since Envoy started.
    pub updates_rejected: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_listeners_are_told_by_their_name() {
        let gateway = |name: &str| EnvoyListener { name: name.to_owned(), ..EnvoyListener::default() }.gateway();
        assert_eq!(gateway("default/cilium-gateway-gw/listener").as_deref(), Some("default/gw"));
        assert_eq!(gateway("team-a/cilium-gateway-public-edge/listener-8443").as_deref(), Some("team-a/public-edge"));
        for other in [
            "cilium-http-ingress:10000",
            "default/cilium-ingress/listener",
            "a/cilium-gateway-/listener",
            "/cilium-gateway-x/l",
            "a/cilium-gateway-x",
            "",
        ] {
            assert_eq!(gateway(other), None, "{other}");
        }
    }
}
