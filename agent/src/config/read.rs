//! From the configuration as given to the effective one: every key is read, every fault is noted. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use gwready_core::condition::ConditionType;
use gwready_core::policy::{Choice, Fallback, Mode, Requirement};
use serde_json::Value;

use super::checks::check_relations;
use super::effective::{
    Addresses, Admin, AgentCheck, Cilium, Config, Envoy, Health, Host, Log, LogFormat, LogLevel, Overrides, Probe, Scope, Timing, Unready,
};
use super::faults::{Faults, Origin};
use super::given::Given;
use super::keys;
use super::parse::{self, Parsed, shown};
use super::probes::parse_probes;
use super::sources::Host as Names;
use super::yaml::parse_yaml;

/// Reads every key. With faults, the result holds placeholders and must not be used.
pub(super) fn parse_config(given: &Given, names: &Names, faults: &mut Faults) -> Config {
    let mut r = Reader { given, faults };
    let config = Config {
        node_name: r.node_name(names),
        mode: r.get("mode", Mode::HostNetwork, |v| {
            parse::word(v, &[("host-network", Mode::HostNetwork), ("load-balancer", Mode::LoadBalancer)])
        }),
        ports: r.get("ports", Choice::Auto, |v| parse::choice(v, parse::port)),
        families: r.get("families", Choice::Auto, |v| parse::choice(v, parse::family)),
        addresses: Addresses {
            include: r.get("addresses.include", Vec::new(), |v| parse::list(v, parse::address_match)),
            exclude: r.get("addresses.exclude", Vec::new(), |v| parse::list(v, parse::address_match)),
        },
        health: Health {
            listen: r.listen("health.listen"),
            unready: r.get("health.unready", Unready::Status, |v| parse::word(v, Unready::WORDS)),
            scope: r.get("health.scope", Scope::Address, |v| parse::word(v, Scope::WORDS)),
            detail: r.get("health.detail", true, parse::boolean),
        },
        admin: Admin { listen: r.listen("admin.listen"), allow: r.get("admin.allow", Vec::new(), |v| parse::list(v, parse::network)) },
        agent_check: AgentCheck { listen: r.get("agent_check.listen", None, |v| optional(v, parse::listen)) },
        control_socket: r.get("control_socket", PathBuf::new(), socket_path),
        state_dir: r.path("state_dir"),
        host: Host {
            proc: r.path("host.proc"),
            cgroup: r.path("host.cgroup"),
            tracefs: r.path("host.tracefs"),
            pod_logs: r.path("host.pod_logs"),
        },
        cilium: Cilium { bpffs: r.path("cilium.bpffs"), run_dir: r.path("cilium.run_dir") },
        envoy: Envoy { exe: r.get("envoy.exe", String::new(), file_name), admin_socket: r.path("envoy.admin_socket") },
        ebpf: r.get("ebpf", true, parse::boolean),
        timing: r.timing(),
        probe: Probe {
            enabled: r.get("probe.enabled", true, parse::boolean),
            interval: r.duration("probe.interval", 100, 300_000),
            timeout: r.duration("probe.timeout", 10, 60_000),
            fall: r.get("probe.fall", 0, |v| parse::number(v, 1, 100)),
            sni: r.get("probe.sni", None, |v| optional(v, |v| parse::dns_name(&parse::text(v)?))),
        },
        probes: r.given.get("probes").map(|(value, origin)| parse_probes(value, origin, r.faults)).unwrap_or_default(),
        policy: r.overrides(),
        log: Log {
            format: r.get("log.format", LogFormat::Text, |v| parse::word(v, LogFormat::WORDS)),
            level: r.get("log.level", LogLevel::Info, |v| parse::word(v, LogLevel::WORDS)),
        },
    };
    check_relations(&config, given, faults);
    config
}

fn optional<T>(value: &Value, parse: impl Fn(&Value) -> Parsed<T>) -> Parsed<Option<T>> {
    if value.is_null() { Ok(None) } else { parse(value).map(Some) }
}

/// `sun_path` holds 108 bytes with its NUL (unix(7)); the socket is first bound under a longer name beside it.
fn socket_path(value: &Value) -> Parsed<PathBuf> {
    let path = parse::path(value)?;
    if path.as_os_str().len() <= 90 { Ok(path) } else { Err("must be at most 90 bytes long, as the kernel limits socket paths".to_owned()) }
}

fn file_name(value: &Value) -> Parsed<String> {
    let name = parse::text(value)?;
    if !name.is_empty() && name.len() <= 255 && !name.contains(['/', '\0']) {
        Ok(name)
    } else {
        Err(format!("must be a file name without /, not {}", shown(value)))
    }
}

struct Reader<'a> {
    given: &'a Given,
    faults: &'a mut Faults,
}

impl Reader<'_> {
    /// The given value of a key, else its default; a fault is noted and the placeholder stands in.
    fn get<T>(&mut self, path: &str, placeholder: T, parse: impl Fn(&Value) -> Parsed<T>) -> T {
        let parsed = match self.given.get(path) {
            Some((value, _)) => parse(value),
            None => keys::find(path)
                .ok_or_else(|| "is not in the table of keys".to_owned())
                .and_then(|key| parse_yaml(key.default))
                .and_then(|value| parse(&value)),
        };
        parsed.unwrap_or_else(|sentence| {
            self.faults.add(self.given.origin(path), path, sentence);
            placeholder
        })
    }

    fn path(&mut self, path: &str) -> PathBuf {
        self.get(path, PathBuf::new(), parse::path)
    }

    fn listen(&mut self, path: &str) -> SocketAddr {
        self.get(path, SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), parse::listen)
    }

    fn duration(&mut self, path: &str, low_ms: u64, high_ms: u64) -> Duration {
        self.get(path, Duration::ZERO, |v| parse::duration(v, Duration::from_millis(low_ms), Duration::from_millis(high_ms)))
    }

    fn timing(&mut self) -> Timing {
        Timing {
            resync: self.duration("timing.resync", 50, 60_000),
            lb_poll: self.duration("timing.lb_poll", 50, 60_000),
            min_up: self.duration("timing.min_up", 0, 600_000),
            hold: self.duration("timing.hold", 0, 3_600_000),
            stale_after: self.duration("timing.stale_after", 500, 600_000),
            queue_grace: self.duration("timing.queue_grace", 100, 300_000),
        }
    }

    fn node_name(&mut self, names: &Names) -> String {
        let given = self.get("node_name", String::new(), parse::text);
        let (name, origin) = match (&names.node_name_variable, given.is_empty()) {
            (_, false) => (given, self.given.origin("node_name")),
            (Some(name), true) => (name.clone(), Origin::Variable("NODE_NAME".to_owned())),
            (None, true) => (names.host_name.to_ascii_lowercase(), Origin::Default),
        };
        if self.faults.has("node_name") {
            return name;
        }
        let hint = if origin == Origin::Default { " (it was taken from the host name; set node_name)" } else { "" };
        parse::dns_name(&name).unwrap_or_else(|sentence| {
            self.faults.add(origin, "node_name", format!("{sentence}{hint}"));
            name
        })
    }

    fn overrides(&mut self) -> Overrides {
        let required = [("required", Requirement::Required), ("advisory", Requirement::Advisory)];
        let fallback = [("open", Fallback::Open), ("closed", Fallback::Closed)];
        Overrides {
            require: self.by_condition("policy.require", "it always counts", |v| parse::word(v, &required)),
            unknown: self.by_condition("policy.unknown", "it is never Unknown", |v| parse::word(v, &fallback)),
        }
    }

    fn by_condition<T>(&mut self, path: &str, fixed: &str, parse: impl Fn(&Value) -> Parsed<T>) -> BTreeMap<ConditionType, T> {
        let mut out = BTreeMap::new();
        let Some((value, origin)) = self.given.get(path) else { return out };
        let Value::Object(entries) = value else {
            self.faults.add(origin.clone(), path, format!("must be a mapping of condition types, not {}", shown(value)));
            return out;
        };
        for (name, value) in entries {
            let parsed = match ConditionType::from_word(name) {
                None => {
                    let hint = keys::nearest(name, ConditionType::ALL.iter().map(|kind| kind.as_str()));
                    Err(format!(
                        "there is no such condition; {}",
                        hint.map_or_else(known_conditions, |near| format!("did you mean {near}?"))
                    ))
                }
                Some(ConditionType::Observed | ConditionType::InService) => Err(format!("can't be changed: {fixed}")),
                Some(kind) => parse(value).map(|value| (kind, value)),
            };
            match parsed {
                Ok((kind, value)) => drop(out.insert(kind, value)),
                Err(sentence) => self.faults.add(origin.clone(), format!("{path}.{name}"), sentence),
            }
        }
        out
    }
}

fn known_conditions() -> String {
    format!("known are {}", ConditionType::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", "))
}
