//! Envoy's bootstrap as Cilium writes it: admin on a Unix socket, the health listener on loopback,
//! listeners from LDS (here a file). Source: cilium `files/cilium-envoy/configmap/bootstrap-config.yaml`.
//! Pure values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde_json::{Value, json};

/// A cluster whose only backend accepts and never answers.
pub(crate) const SILENT_CLUSTER: &str = "silent";
/// A cluster without any backend.
pub(crate) const DEAD_CLUSTER: &str = "dead";
/// Port of Cilium's health listener on loopback.
pub(crate) const HEALTH_PORT: u16 = 9878;

pub(crate) struct Paths<'a> {
    pub(crate) admin: &'a Path,
    /// Folder of `lds.json`, watched by Envoy.
    pub(crate) lds_dir: &'a Path,
}

/// Adds a control plane for aggregated discovery at this address: a stream is opened, nothing is asked for by it.
pub(crate) fn add_control_plane(bootstrap: &mut Value, at: SocketAddr) {
    let name = "xds-grpc-cilium";
    bootstrap["dynamic_resources"]["ads_config"] = json!({
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": name}}],
    });
    let mut cluster = render_cluster(name, &json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}}));
    cluster["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }});
    if let Some(clusters) = bootstrap["static_resources"]["clusters"].as_array_mut() {
        clusters.push(cluster);
    }
}

/// Adds an overload manager that closes every new connection while the pressure written in `file` is above 0.9.
pub(crate) fn add_overload(bootstrap: &mut Value, file: &Path) {
    let name = "envoy.resource_monitors.injected_resource";
    bootstrap["overload_manager"] = json!({
        "refresh_interval": "0.05s",
        "resource_monitors": [{
            "name": name,
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig",
                "filename": file,
            },
        }],
        "actions": [{
            "name": "envoy.overload_actions.reject_incoming_connections",
            "triggers": [{"name": name, "threshold": {"value": 0.9}}],
        }],
    });
}

pub(crate) fn render(paths: &Paths, silent: SocketAddr, ipv6: bool, health: bool) -> Value {
    let mut health_addresses: Vec<IpAddr> = Vec::new();
    if health {
        health_addresses.push(Ipv4Addr::LOCALHOST.into());
        health_addresses.extend(ipv6.then_some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    }
    json!({
        "node": {"id": "host~127.0.0.1~no-id~localdomain", "cluster": "ingress-cluster"},
        "admin": {"address": {"pipe": {"path": paths.admin, "mode": 0o660}}},
        "dynamic_resources": {"lds_config": {
            "resource_api_version": "V3",
            "path_config_source": {
                "path": paths.lds_dir.join("lds.json"),
                "watched_directory": {"path": paths.lds_dir},
            },
        }},
        "static_resources": {
            "listeners": health_addresses.into_iter().map(render_health).collect::<Vec<_>>(),
            "clusters": [
                render_cluster("/envoy-admin", &json!({"pipe": {"path": paths.admin}})),
                render_cluster(SILENT_CLUSTER, &json!({"socket_address": {
                    "address": silent.ip().to_string(), "port_value": silent.port()}})),
                json!({"name": DEAD_CLUSTER, "type": "STATIC", "connect_timeout": "2s"}),
            ],
        },
    })
}

fn render_cluster(name: &str, address: &Value) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
            {"endpoint": {"address": address}}]}]},
    })
}

fn render_health(address: IpAddr) -> Value {
    json!({
        "name": format!("envoy-health-listener-{address}"),
        "address": {"socket_address": {"address": address.to_string(), "port_value": HEALTH_PORT}},
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": "envoy-health-listener",
                "route_config": {"virtual_hosts": [{
                    "name": "health", "domains": ["*"], "routes": [{
                        "match": {"prefix": "/healthz"},
                        "route": {"cluster": "/envoy-admin", "prefix_rewrite": "/ready"},
                    }]}]},
                "http_filters": [{
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
                }],
            },
        }]}],
    })
}
