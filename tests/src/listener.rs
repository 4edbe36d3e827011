//! Gateway listeners as Cilium's operator builds them, rendered to Envoy's JSON.
//!
//! Shapes: cilium `operator/pkg/model/translation/envoy_listener.go` — one listener for all ports
//! of a Gateway, the first address in `address`, the rest in `additional_addresses`, filter chains
//! told apart by transport protocol and server name. Pure values; [`crate::envoy`] writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::certificate::Certificate;

/// The listener's name in Envoy: `<namespace>/cilium-gateway-<gateway>/listener`.
pub const GATEWAY_LISTENER: &str = "default/cilium-gateway-gw/listener";
/// A host that Envoy answers with 200.
pub const HOST_OK: &str = "ok.example";
/// A host whose backend accepts and never answers.
pub const HOST_SILENT: &str = "silent.example";
/// A host without a healthy backend: Envoy answers 503.
pub const HOST_DEAD: &str = "dead.example";
/// A server name with a certificate.
pub const SNI: &str = "gw.example";

const SOL_SOCKET: i32 = 1;
const SO_MARK: i32 = 36;
const SOL_IP: i32 = 0;
const IP_TRANSPARENT: i32 = 19;
const SOL_IPV6: i32 = 41;
const IPV6_TRANSPARENT: i32 = 75;
/// What `cilium.bpf_metadata` puts on host-network listeners.
const CILIUM_MARK: i32 = 0xb00;

/// Which families a listener binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    /// IPv4, and IPv6 where the node has it.
    OfNode,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Both by IPv6 sockets that take IPv4 too (`IPV6_V6ONLY` off).
    Dual,
}

/// What a listener does with a `ClientHello`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// No TLS filter chain.
    Off,
    /// Terminated for these server names.
    Terminate(Vec<String>),
    /// Passed on to a silent backend for these server names.
    Passthrough(Vec<String>),
    /// Terminated for these server names by a secret that never arrives.
    MissingSecret(Vec<String>),
}

/// One Envoy listener. Change what a test is about, keep the rest.
#[derive(Debug, Clone)]
pub struct Listener {
    /// Envoy's name of it; the key of an LDS update.
    pub name: String,
    /// TCP ports, the first becomes the main address.
    pub ports: Vec<u16>,
    /// Families of the wildcard addresses.
    pub families: Families,
    /// Bind these instead of the wildcards.
    pub addresses: Vec<IpAddr>,
    /// One socket per worker and address, or one per address.
    pub reuse_port: bool,
    /// A filter chain for clear text.
    pub plain: bool,
    /// TLS filter chains.
    pub tls: Tls,
    /// Wants a PROXY protocol header first.
    pub proxy_protocol: bool,
    /// Accept-queue limit that Envoy asks for; `None` for Envoy's own.
    pub backlog: Option<u32>,
    /// `SO_MARK` of its sockets, where Envoy puts marks.
    pub mark: i32,
    /// A filter that does not exist, so that Envoy rejects the update.
    pub broken: bool,
}

impl Listener {
    /// The listener of a Gateway with HTTP on 80 and HTTPS on 443.
    #[must_use]
    pub fn gateway() -> Self {
        Self {
            name: GATEWAY_LISTENER.into(),
            ports: vec![80, 443],
            families: Families::OfNode,
            addresses: Vec::new(),
            reuse_port: true,
            plain: true,
            proxy_protocol: false,
            tls: Tls::Terminate(vec![SNI.into()]),
            backlog: None,
            mark: CILIUM_MARK,
            broken: false,
        }
    }

    /// A plain HTTP listener named like a split one (`…/listener-<port>`).
    #[must_use]
    pub fn http(port: u16) -> Self {
        Self { name: format!("{GATEWAY_LISTENER}-{port}"), ports: vec![port], tls: Tls::Off, ..Self::gateway() }
    }

    /// The addresses that it binds, in Cilium's order: ports, then families.
    #[must_use]
    pub fn sockets(&self, node_has_ipv6: bool) -> Vec<(IpAddr, u16)> {
        let (v4, v6) = match self.families {
            Families::OfNode => (true, node_has_ipv6),
            Families::V4 => (true, false),
            Families::V6 | Families::Dual => (false, true),
        };
        let mut addresses = self.addresses.clone();
        if addresses.is_empty() {
            addresses.extend(v4.then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
            addresses.extend(v6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
        }
        let pairs = self.ports.iter();
        pairs.flat_map(|&port| addresses.iter().map(move |&address| (address, port))).collect()
    }

    pub(crate) fn render(&self, around: &Around) -> Value {
        let dual = self.families == Families::Dual;
        let mut sockets = self
            .sockets(around.ipv6)
            .into_iter()
            .map(|(address, port)| render_address(address, port, dual, around.marks.then_some(self.mark)));
        let first = sockets.next().unwrap_or_default();
        let mut listener = json!({
            "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
            "name": self.name,
            "address": first["address"],
            "socket_options": first["socket_options"]["socket_options"],
            "additional_addresses": sockets.collect::<Vec<_>>(),
            "enable_reuse_port": self.reuse_port,
            "listener_filters": self.render_filters(),
            "filter_chains": self.render_chains(around),
        });
        if let Some(backlog) = self.backlog {
            listener["tcp_backlog_size"] = json!(backlog);
        }
        listener
    }

    fn render_filters(&self) -> Vec<Value> {
        let mut filters = Vec::new();
        if self.proxy_protocol {
            filters.push(json!({
                "name": "envoy.filters.listener.proxy_protocol",
                "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"},
            }));
        }
        filters.push(json!({
            "name": "envoy.filters.listener.tls_inspector",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"},
        }));
        filters
    }

    fn render_chains(&self, around: &Around) -> Vec<Value> {
        let clear = json!({
            "filter_chain_match": {"transport_protocol": "raw_buffer"},
            "filters": [if self.broken { json!({"name": "no.such.filter"}) } else { render_http("listener-insecure") }],
        });
        let mut chains = if self.plain { vec![clear] } else { Vec::new() };
        let (names, filter, secret) = match &self.tls {
            Tls::Off => return chains,
            Tls::Terminate(names) => (names, render_http("listener-secure"), around.secret()),
            Tls::MissingSecret(names) => (names, render_http("listener-secure"), around.no_secret()),
            Tls::Passthrough(names) => (names, render_tcp(), None),
        };
        let mut chain = json!({
            "filter_chain_match": {"transport_protocol": "tls", "server_names": names},
            "filters": [filter],
        });
        if let Some(secret) = secret {
            chain["transport_socket"] = json!({
                "name": "envoy.transport_sockets.tls",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                    "common_tls_context": secret,
                },
            });
        }
        chains.push(chain);
        chains
    }
}

/// What a listener needs to know of its box.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub(crate) ipv6: bool,
    /// Cilium's mark and the transparent bit on every listen socket; needs full root.
    pub(crate) marks: bool,
    pub(crate) certificate: Certificate,
    /// An SDS file without secrets.
    pub(crate) empty_sds: std::path::PathBuf,
}

impl Around {
    fn secret(&self) -> Option<Value> {
        Some(json!({"tls_certificates": [{
            "certificate_chain": {"filename": self.certificate.cert},
            "private_key": {"filename": self.certificate.key},
        }]}))
    }

    fn no_secret(&self) -> Option<Value> {
        Some(json!({"tls_certificate_sds_secret_configs": [{
            "name": "default/missing",
            "sds_config": {
                "resource_api_version": "V3",
                "initial_fetch_timeout": "0.2s",
                "path_config_source": {"path": self.empty_sds},
            },
        }]}))
    }
}

fn render_address(address: IpAddr, port: u16, dual: bool, mark: Option<i32>) -> Value {
    let mut rendered = json!({
        "address": {"socket_address": {"address": address.to_string(), "port_value": port, "ipv4_compat": dual}},
    });
    if let Some(mark) = mark {
        let option = |level, name, value| json!({"level": level, "name": name, "int_value": value, "state": "STATE_PREBIND"});
        let transparent = match address {
            IpAddr::V4(_) => option(SOL_IP, IP_TRANSPARENT, 1),
            IpAddr::V6(_) => option(SOL_IPV6, IPV6_TRANSPARENT, 1),
        };
        rendered["socket_options"] = json!({"socket_options": [option(SOL_SOCKET, SO_MARK, mark), transparent]});
    }
    rendered
}

fn render_http(route: &str) -> Value {
    let host = |name: &str| json!([name, format!("{name}:*")]);
    json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": route,
            "route_config": {"name": route, "virtual_hosts": [
                {"name": "ok", "domains": host(HOST_OK), "routes": [
                    {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "ok\n"}}}]},
                {"name": "silent", "domains": host(HOST_SILENT), "routes": [
                    {"match": {"prefix": "/"}, "route": {"cluster": crate::bootstrap::SILENT_CLUSTER}}]},
                {"name": "dead", "domains": host(HOST_DEAD), "routes": [
                    {"match": {"prefix": "/"}, "route": {"cluster": crate::bootstrap::DEAD_CLUSTER}}]},
            ]},
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
            }],
        },
    })
}

fn render_tcp() -> Value {
    json!({
        "name": "envoy.filters.network.tcp_proxy",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": "passthrough",
            "cluster": crate::bootstrap::SILENT_CLUSTER,
        },
    })
}
