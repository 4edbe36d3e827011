//! Replies as Envoy 1.38.3 really sent them (shortened), and what is made of them.

use proptest::prelude::*;

use super::*;
use crate::facts::envoy::ChainKind::{Http, Opaque, Passthrough, Tls};

const HCM: &str = r#"{"name": "envoy.filters.network.http_connection_manager", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "x"}}"#;
const TCP: &str = r#"{"name": "envoy.filters.network.tcp_proxy", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "cluster": "c"}}"#;
const TLS: &str = r#""transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"}}"#;

fn dump() -> String {
    format!(
        r#"{{
 "configs": [
  {{
   "@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump.DynamicListener",
   "name": "default/cilium-gateway-gw/listener",
   "active_state": {{
    "version_info": "7",
    "listener": {{
     "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
     "name": "default/cilium-gateway-gw/listener",
     "address": {{"socket_address": {{"address": "0.0.0.0", "port_value": 80}}}},
     "filter_chains": [
      {{"filter_chain_match": {{"transport_protocol": "raw_buffer"}}, "filters": [{HCM}]}},
      {{"filter_chain_match": {{"transport_protocol": "tls", "server_names": ["a.example", "*.b.example"]}}, "filters": [{HCM}], {TLS}}},
      {{"filter_chain_match": {{"transport_protocol": "tls", "server_names": ["pass.example"]}}, "filters": [{TCP}]}},
      {{"filter_chain_match": {{"transport_protocol": "tls", "server_names": ["t.example"]}}, "filters": [{TCP}], {TLS}}},
      {{"filters": [{TCP}]}}
     ],
     "listener_filters": [
      {{"name": "envoy.filters.listener.tls_inspector", "typed_config": {{"@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"}}}},
      {{"name": "envoy.filters.listener.proxy_protocol", "typed_config": {{"@type": "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"}}}}
     ],
     "additional_addresses": [
      {{"address": {{"socket_address": {{"address": "::", "port_value": 80}}}}}},
      {{"address": {{"socket_address": {{"address": "0.0.0.0", "port_value": 443}}}}}},
      {{"address": {{"socket_address": {{"address": "127.0.0.1", "port_value": 11000}}}}}}
     ]
    }},
    "last_updated": "2026-11-30T16:20:44.306Z"
   }}
  }},
  {{
   "@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump.DynamicListener",
   "name": "team/cilium-gateway-other/listener",
   "error_state": {{
    "failed_configuration": {{
     "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
     "name": "team/cilium-gateway-other/listener",
     "address": {{"socket_address": {{"address": "0.0.0.0", "port_value": 80}}}}
    }},
    "last_update_attempt": "2026-11-30T16:20:44.310Z",
    "details": "error adding listener: 'team/cilium-gateway-other/listener' has duplicate address '0.0.0.0:80' as existing listener"
   }}
  }},
  {{
   "@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump.DynamicListener",
   "error_state": {{
    "failed_configuration": {{
     "name": "team/cilium-gateway-other/listener",
     "address": {{"socket_address": {{"address": "0.0.0.0", "port_value": 80}}}}
    }},
    "details": "error adding listener: 'team/cilium-gateway-other/listener' has duplicate address '0.0.0.0:80' as existing listener"
   }}
  }}
 ]
}}"#
    )
}

const STATS: &str = r#"{"stats":[{"name":"control_plane.connected_state","value":1},{"name":"listener.0.0.0.0_80.server_ssl_socket_factory.downstream_context_secrets_not_ready","value":4},{"name":"listener_manager.lds.update_attempt","value":3},{"name":"listener_manager.lds.update_rejected","value":1},{"name":"listener_manager.total_listeners_active","value":2},{"name":"server.uptime","value":77},{"histograms":{"supported_quantiles":[0,25]}}]}"#;

fn decoded() -> Vec<DecodedListener> {
    parse_listeners(dump().as_bytes()).unwrap()
}

#[test]
fn a_listener_with_several_addresses_and_chains() {
    let listeners = decoded();
    let gw = &listeners[0].listener;
    assert_eq!(gw.gateway().as_deref(), Some("default/gw"));
    assert_eq!((gw.active, gw.error.as_deref(), gw.proxy_protocol), (true, None, true));
    assert_eq!((gw.ports.as_slice(), gw.loopback_ports.as_slice()), (&[80, 443][..], &[11_000][..]), "loopback is told apart");
    let chains: Vec<_> = gw.chains.iter().map(|chain| (chain.kind, chain.server_names.join(" "))).collect();
    let expected = [(Http, ""), (Tls, "a.example *.b.example"), (Passthrough, "pass.example"), (Opaque, "t.example"), (Opaque, "")];
    assert_eq!(chains, expected.map(|(kind, names)| (kind, names.to_owned())));
}

#[test]
fn a_rejected_listener_is_one_entry_with_envoys_sentence() {
    let listeners = decoded();
    assert_eq!(listeners.len(), 2, "the same rejection is listed with and without a name");
    let other = &listeners[1].listener;
    assert_eq!((other.active, other.rejected_ports.as_slice()), (false, &[80u16][..]));
    assert!(other.error.as_deref().unwrap().contains("duplicate address '0.0.0.0:80'"));
}

#[test]
fn stats_are_joined_to_their_listener() {
    let stats = parse_stats(STATS.as_bytes()).unwrap();
    assert_eq!((stats.control_plane_connected, stats.updates_rejected, stats.uptime), (Some(true), 1, 77));
    let admin = join(ServerState::Live, &stats, &decoded());
    assert_eq!(admin.listeners.iter().map(|listener| listener.secrets_not_ready).collect::<Vec<_>>(), [Some(4), None]);
}

#[test]
fn counters_of_connections_do_not_look_like_a_new_configuration() {
    let before = parse_stats(STATS.as_bytes()).unwrap();
    let after = parse_stats(STATS.replace("\"value\":4", "\"value\":5").replace("77", "79").as_bytes()).unwrap();
    assert_eq!(before.revision, after.revision);
    let updated = parse_stats(STATS.replace("update_attempt\",\"value\":3", "update_attempt\",\"value\":4").as_bytes()).unwrap();
    assert_ne!(before.revision, updated.revision);
}

#[test]
fn a_file_configured_envoy_has_no_control_plane_to_lose() {
    assert_eq!(parse_stats(br#"{"stats":[]}"#).unwrap(), AdminStats::default());
    assert_eq!(parse_listeners(b"{}").unwrap(), []);
}

#[test]
fn stat_prefixes_are_as_envoy_makes_them() {
    let prefix = |listener: &str| {
        let dump = format!(r#"{{"configs":[{{"name":"l","active_state":{{"listener":{listener}}}}}]}}"#);
        parse_listeners(dump.as_bytes()).unwrap().remove(0).stat_prefix
    };
    assert_eq!(prefix(r#"{"address":{"socket_address":{"address":"::","port_value":80}}}"#), "[__]_80");
    assert_eq!(prefix(r#"{"stat_prefix":"a:b","address":{"socket_address":{"address":"::","port_value":80}}}"#), "a_b");
    assert_eq!(prefix(r#"{"address":{"pipe":{"path":"/x"}}}"#), "");
}

#[test]
fn server_states() {
    assert_eq!(parse_ready(b"LIVE\n").unwrap(), ServerState::Live);
    assert_eq!(parse_ready(b"DRAINING\n").unwrap(), ServerState::Draining);
    for starting in [&b"INITIALIZING\n"[..], b"PRE_INITIALIZING\n"] {
        assert_eq!(parse_ready(starting).unwrap(), ServerState::Initializing);
    }
    assert!(parse_ready(b"<html>").is_err());
}

#[test]
fn what_is_not_that_json_is_an_error_and_never_a_part_of_a_value() {
    for body in [
        "",
        "[",
        "[3]",
        r#"{"configs": 3}"#,
        r#"{"configs":[{"active_state":{"listener":{"address":{"socket_address":{"port_value":70000}}}}}]}"#,
    ] {
        assert!(parse_listeners(body.as_bytes()).is_err(), "{body}");
    }
    let text = dump();
    for cut in (0..text.len()).step_by(97) {
        assert!(parse_listeners(&text.as_bytes()[..cut]).is_err(), "{cut}");
    }
    assert!(parse_stats(b"{\"stats\":1}").is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (parse_ready(&bytes), parse_stats(&bytes), parse_listeners(&bytes));
    }
}
