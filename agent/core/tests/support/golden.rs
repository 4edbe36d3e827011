//! Reads cases of `datapath-outcomes*.jsonl` and answers them with the rule of `gwready_core::lb::datapath`.
//!
//! Shared by the test and by `examples/datapath.rs`. A map name, version or form that it does not know is an error, never skipped.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use gwready_core::lb::backend::Backend;
use gwready_core::lb::datapath::{Decision, Flow, Outcome, Packet, Passage, decide};
use gwready_core::lb::facts::LbTable;
use gwready_core::lb::local::LocalEndpoint;
use gwready_core::lb::service::{Service, ServiceKey};
use gwready_core::lb::settings::{Generation, Settings};
use gwready_core::lb::source_range::SourceRange;
use gwready_core::net::Endpoint;
use serde_json::{Value, json};

type Rows = BTreeMap<String, Vec<(String, String)>>;

/// One line.
pub(crate) struct Case {
    pub(crate) name: String,
    maps: Rows,
    packet: Value,
    before: Option<(Rows, Vec<Value>)>,
    pub(crate) json: Value,
}

/// The node of the golden cases: its own addresses and the pods in its `cilium_lxc`.
const NODE: [&str; 4] = ["10.0.0.1", "10.0.0.9", "fd00::1", "fd00::9"];
const PODS: [&str; 4] = ["10.244.1.113", "10.244.1.114", "fd00:10:244::113", "fd00:10:244::114"];

impl Case {
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let maps =
            |name: &str| json.get(name).map_or(Ok(Rows::new()), |value| serde_json::from_value(value.clone()).map_err(|e| e.to_string()));
        let before = match json.get("pre_packets").and_then(Value::as_array) {
            Some(packets) => Some((maps("premaps")?, packets.clone())),
            None => None,
        };
        let name = json["name"].as_str().unwrap_or("?").to_owned();
        Ok(Self { name, maps: maps("maps")?, packet: json["packet"].clone(), before, json })
    }

    /// The rule's answer in this version; `proto0` first writes protocol 0 into every service key, as 1.16 does.
    pub(crate) fn decide(&self, settings: &Settings, proto0: bool) -> Result<Decision, String> {
        let mut flow = None;
        if let Some((maps, packets)) = &self.before {
            let table = table(maps, proto0)?;
            for packet in packets {
                flow = self.remember(packet, decide(&table, settings, &parse_packet(packet)?, flow));
            }
        }
        Ok(decide(&table(&self.maps, proto0)?, settings, &parse_packet(&self.packet)?, flow))
    }

    /// The datapath remembers a connection by its five-tuple; packets of another one leave no trace for the judged packet.
    fn remember(&self, packet: &Value, decision: Decision) -> Option<Flow> {
        let same = ["src", "sport", "dst", "dport", "proto"].iter().all(|field| packet[field] == self.packet[field]);
        decision.flow.filter(|_| same)
    }

    /// Every answer that the line can be asked for, in the line's own form.
    pub(crate) fn answers(&self) -> Result<Value, String> {
        let answer = |label: &str, proto0| Ok::<_, String>(render(&self.packet, &self.decide(&settings(label)?, proto0)?.outcome));
        let labels = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let mut other = serde_json::Map::new();
        for label in labels(&self.json["other_versions"]) {
            other.insert(label.clone(), answer(&label, false)?);
        }
        let mut proto0 = serde_json::Map::new();
        for label in labels(&self.json["proto0_form"]["outcomes"]) {
            proto0.insert(label.clone(), answer(&label, true)?);
        }
        Ok(json!({"name": self.name, "outcome": answer("1.19dev", false)?, "other_versions": other, "proto0_form": {"outcomes": proto0}}))
    }
}

/// Settings of a version as the golden data names it, e.g. `1.17.1-nodiff` or `1.19dev noep-routable=false`.
pub(crate) fn settings(label: &str) -> Result<Settings, String> {
    let (version, options) = label.split_once(' ').unwrap_or((label, ""));
    let (version, nodiff) = version.strip_suffix("-nodiff").map_or((version, false), |version| (version, true));
    let generation = match version.trim_start_matches('v') {
        v if v.starts_with("1.16") => Generation::V1_16,
        v if v.starts_with("1.17") => Generation::V1_17,
        v if v.starts_with("1.18") => Generation::V1_18,
        v if v.starts_with("1.19") || v.starts_with("1.20") || v == "main" => Generation::V1_19,
        _ => return Err(format!("unknown version {label}")),
    };
    let mut settings = Settings { protocol_differentiation: !nodiff, ..Settings::of(generation) };
    for option in options.split_whitespace().filter(|option| !matches!(*option, "(rows" | "as" | "given)")) {
        match option {
            "nodiff" => settings.protocol_differentiation = false,
            "noep-routable=false" => settings.no_endpoints_routable = false,
            "no-backend-response=drop" => settings.reject_without_backend = false,
            _ => return Err(format!("unknown option {option} in {label}")),
        }
    }
    Ok(settings)
}

fn parse_packet(packet: &Value) -> Result<Packet, String> {
    let address =
        |field: &str| packet[field].as_str().and_then(|text| text.parse::<IpAddr>().ok()).ok_or(format!("packet without {field}"));
    let port = packet["dport"].as_u64().and_then(|port| u16::try_from(port).ok()).ok_or("packet without dport")?;
    let protocol = match packet["proto"].as_str() {
        Some("tcp") => 6,
        Some("udp") => 17,
        Some("sctp") => 132,
        Some("icmp" | "icmp6" | "icmpv6") => 1,
        other => return Err(format!("unknown protocol {other:?}")),
    };
    let syn = packet["flags"].as_str() == Some("S");
    Ok(Packet { source: Some(address("src")?), destination: Endpoint { address: address("dst")?, port }, protocol, syn })
}

fn table(maps: &Rows, proto0: bool) -> Result<LbTable, String> {
    let mut table = LbTable::default();
    for (name, rows) in maps {
        for (key, value) in rows {
            add_row(&mut table, name, key, value, proto0)?;
        }
    }
    for (address, host) in NODE.iter().map(|a| (a, true)).chain(PODS.iter().map(|a| (a, false))) {
        let address: IpAddr = address.parse().map_err(|_| "bad address")?;
        table.endpoints.insert(address, LocalEndpoint { id: 1, host, pod: None });
    }
    Ok(table)
}

fn add_row(table: &mut LbTable, name: &str, key: &str, value: &str, proto0: bool) -> Result<(), String> {
    let mut add_service = |mut key: ServiceKey, value: &str| -> Result<(), String> {
        if proto0 {
            key.protocol = 0;
        }
        table.services.insert(key, Service::decode(&bytes(value)?));
        Ok(())
    };
    match name {
        "cilium_lb4_services_v2" => add_service(ServiceKey::decode_v4(&bytes(key)?), value)?,
        "cilium_lb6_services_v2" => add_service(ServiceKey::decode_v6(&bytes(key)?), value)?,
        "cilium_lb4_backends_v3" => {
            table.backends.insert(u32::from_ne_bytes(bytes(key)?), Backend::decode_v4(&bytes(value)?));
        }
        "cilium_lb6_backends_v3" => {
            table.backends.insert(u32::from_ne_bytes(bytes(key)?), Backend::decode_v6(&bytes(value)?));
        }
        "cilium_lb4_source_range" => table.source_ranges.extend(SourceRange::decode_v4(&bytes(key)?)),
        "cilium_lb6_source_range" => table.source_ranges.extend(SourceRange::decode_v6(&bytes(key)?)),
        // Not consulted on the way in: replies, and affinity of clients that came before.
        "cilium_lb4_reverse_nat" | "cilium_lb6_reverse_nat" | "cilium_lb_affinity_match" => {}
        _ => return Err(format!("unknown map {name}")),
    }
    Ok(())
}

pub(crate) fn bytes<const N: usize>(hex: &str) -> Result<[u8; N], String> {
    let mut out = [0; N];
    if hex.len() != 2 * N || !hex.is_ascii() {
        return Err(format!("{hex} is not {N} bytes"));
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|error| error.to_string())?;
    }
    Ok(out)
}

/// An outcome in the words of the golden data.
pub(crate) fn render(packet: &Value, outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Pass(passage) => {
            let reason = match passage {
                Passage::NoRow => None,
                Passage::BackendIsDestination => Some("row matched, DNAT to the very same address and port"),
                Passage::Delegate => Some("l7-delegate: punted to the stack"),
                Passage::NoEndpoints => Some("no endpoints: configured to pass"),
            };
            json!({"kind": "pass", "to": null, "reason": reason})
        }
        Outcome::Dnat { to } => json!({"kind": "dnat", "to": SocketAddr::new(to.address, to.port).to_string(), "reason": null}),
        Outcome::Reject => {
            let answer = if packet["family"] == 6 { "icmp6 type 1 code 4" } else { "icmp4 type 3 code 3" };
            json!({"kind": "drop", "to": null, "reason": "158 DROP_NO_SERVICE", "answer": answer})
        }
        Outcome::Drop { code } => {
            let name = match code {
                134 => "DROP_INVALID",
                158 => "DROP_NO_SERVICE",
                174 => "DROP_IS_CLUSTER_IP",
                177 => "DROP_NOT_IN_SRC_RANGE",
                _ => "?",
            };
            json!({"kind": "drop", "to": null, "reason": format!("{code} {name}")})
        }
        Outcome::Proxy { port } => {
            let mark = 0x200 | u32::from(port.swap_bytes()) << 16;
            json!({"kind": "proxy", "to": port.to_string(), "reason": null, "mark": format!("{mark:#010x}")})
        }
        Outcome::Share { of } => {
            let any: Vec<Value> = of.iter().map(|(outcome, _)| render(packet, outcome)).collect();
            if any.iter().all(|one| one["kind"] == "dnat") {
                let to: Vec<&str> = any.iter().filter_map(|one| one["to"].as_str()).collect();
                json!({"kind": "dnat", "to": to.join(" or "), "reason": null, "any": any})
            } else {
                json!({"kind": "random", "to": null, "reason": null, "any": any})
            }
        }
    }
}
