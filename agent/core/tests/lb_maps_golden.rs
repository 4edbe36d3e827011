//! Rows that Cilium's own writer wrote, against their meaning as bpftool and the writer's source give it.

#[path = "support/golden.rs"]
#[expect(dead_code, reason = "only the hex reader is needed here")]
mod golden;

use golden::bytes;
use gwready_core::lb::backend::Backend;
use gwready_core::lb::service::{Service, ServiceKey, flag, flag2};

/// The row in the words of the golden file.
fn meaning(key: &ServiceKey, row: &Service) -> String {
    let mut text = format!(
        "[{}]:{}/{} scope={} slot={} count={} revnat={} q={} flags=",
        key.address, key.port, key.protocol, key.scope, key.slot, row.count, row.rev_nat, row.quarantined
    );
    let names = [
        (row.has(flag::HOSTPORT), "HostPort"),
        (row.has(flag::NODEPORT), "NodePort"),
        (row.has(flag::LOADBALANCER), "LoadBalancer"),
        (row.has(flag::EXT_LOCAL_SCOPE), "ExtLocalScope"),
        (row.has(flag::ROUTABLE), "Routable"),
        (row.has2(flag2::L7_LOADBALANCER), "L7LoadBalancer"),
        (row.has2(flag2::TWO_SCOPES), "TwoScopes"),
    ];
    let set: Vec<&str> = names.into_iter().filter_map(|(set, name)| set.then_some(name)).collect();
    text += if set.is_empty() { "0".to_owned() } else { set.join("|") }.as_str();
    if let Some(port) = row.proxy_port() {
        text.push_str(&format!(" l7_proxy_port={port}"));
    }
    if key.slot > 0 {
        text.push_str(&format!(" backend_id={}", row.backend_id()));
    }
    text
}

#[test]
fn every_row_of_the_real_writer_decodes_to_its_meaning() {
    let (mut services, mut backends, mut reverse) = (0, 0, 0);
    for line in include_str!("golden/cilium-lb-maps.txt").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        let [map, key, value, rest @ ..] = &fields[..] else { panic!("{line}") };
        match *map {
            "lb4_services_v2" | "lb6_services_v2" => {
                let (key, again) = if map.starts_with("lb4") {
                    let raw = bytes(key).unwrap();
                    let key = ServiceKey::decode_v4(&raw);
                    (key, key.encode_v4() == Some(raw))
                } else {
                    let raw = bytes(key).unwrap();
                    let key = ServiceKey::decode_v6(&raw);
                    (key, key.encode_v6() == Some(raw))
                };
                assert!(again, "{line}");
                let raw = bytes(value).unwrap();
                let row = Service::decode(&raw);
                assert_eq!(row.encode(), raw);
                assert_eq!(Some(&meaning(&key, &row).as_str()), rest.first(), "{line}");
                services += 1;
            }
            "lb4_backends_v3" | "lb6_backends_v3" => {
                let backend = if map.starts_with("lb4") {
                    Backend::decode_v4(&bytes(value).unwrap())
                } else {
                    Backend::decode_v6(&bytes(value).unwrap())
                };
                assert_eq!((backend.protocol, backend.state), (6, 0), "{line}");
                assert!(matches!(backend.port, 80 | 8080), "{line}");
                let pods = if map.starts_with("lb4") { "10.244." } else { "fd00:10:244:" };
                assert!(backend.address.to_string().starts_with(pods), "{line}");
                backends += 1;
            }
            // Replies only: the agent never reads it.
            "lb4_reverse_nat" | "lb6_reverse_nat" => reverse += 1,
            _ => panic!("{line}"),
        }
    }
    assert_eq!((services, backends, reverse), (54, 8, 32));
}
