//! The effective configuration: complete, valid, in the shape of the file, so that what is shown can be fed back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gwready_core::condition::ConditionType;
use gwready_core::net::Family;
use gwready_core::policy::{AddressMatch, Choice, Fallback, Mode, Policy, Requirement};
use ipnet::IpNet;
use serde::Serialize;

use super::yaml::render_yaml;

mod shape {
    //! How values that have another shape in memory are written.

    use std::time::Duration;

    use gwready_core::policy::{AddressMatch, Choice};
    use gwready_core::render::duration::render_exact;
    use serde::{Serialize, Serializer};

    pub(super) fn duration<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&render_exact(*value))
    }

    pub(super) fn choice<T: Serialize, S: Serializer>(value: &Choice<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Choice::Auto => serializer.serialize_str("auto"),
            Choice::Only(list) => list.serialize(serializer),
        }
    }

    pub(super) fn matches<S: Serializer>(value: &[AddressMatch], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(value.iter().map(|entry| match entry {
            AddressMatch::Net(net) => net.to_string(),
            AddressMatch::Interface(name) => name.clone(),
        }))
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            pub(super) const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }
    };
}

words! {
    /// `health.unready`.
    Unready {
        /// Answer 503.
        Status = "status",
        /// Close without a byte.
        Close = "close",
    }
}

words! {
    /// `health.scope`.
    Scope {
        /// The address on which the connection came in.
        Address = "address",
        /// The node.
        Node = "node",
    }
}

words! {
    /// `log.format`.
    LogFormat {
        /// One line of text.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

words! {
    /// `log.level`, most important first.
    LogLevel {
        /// Errors only.
        Error = "error",
        /// And warnings.
        Warn = "warn",
        /// And notices.
        Info = "info",
        /// And details.
        Debug = "debug",
        /// And everything.
        Trace = "trace",
    }
}

/// `addresses`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// Judged besides the automatic ones.
    #[serde(serialize_with = "shape::matches")]
    pub include: Vec<AddressMatch>,
    /// Never judged.
    #[serde(serialize_with = "shape::matches")]
    pub exclude: Vec<AddressMatch>,
}

/// `health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Where balancers ask.
    pub listen: SocketAddr,
    /// How drain and down are answered.
    pub unready: Unready,
    /// What is answered for.
    pub scope: Scope,
    /// Lines below the state line.
    pub detail: bool,
}

/// `admin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Admin {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Clients besides loopback that may read the status.
    pub allow: Vec<IpNet>,
}

/// `agent_check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentCheck {
    /// Where it listens; none = off.
    pub listen: Option<SocketAddr>,
}

/// `host`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    /// proc.
    pub proc: PathBuf,
    /// cgroup.
    pub cgroup: PathBuf,
    /// tracefs.
    pub tracefs: PathBuf,
    /// The kubelet's pod log folders.
    pub pod_logs: PathBuf,
}

/// `cilium`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cilium {
    /// Where the maps are pinned.
    pub bpffs: PathBuf,
    /// Run folder.
    pub run_dir: PathBuf,
}

/// `envoy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Envoy {
    /// Base name of the executable.
    pub exe: String,
    /// Admin socket.
    pub admin_socket: PathBuf,
}

/// `timing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Between two full reads.
    #[serde(serialize_with = "shape::duration")]
    pub resync: Duration,
    /// Between two looks at the LB maps.
    #[serde(serialize_with = "shape::duration")]
    pub lb_poll: Duration,
    /// Before a recovery counts.
    #[serde(serialize_with = "shape::duration")]
    pub min_up: Duration,
    /// How long Unknown keeps the last known status.
    #[serde(serialize_with = "shape::duration")]
    pub hold: Duration,
    /// Age at which the answer is stale.
    #[serde(serialize_with = "shape::duration")]
    pub stale_after: Duration,
    /// How long a queue may stand still.
    #[serde(serialize_with = "shape::duration")]
    pub queue_grace: Duration,
}

/// `probe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Built-in probes run.
    pub enabled: bool,
    /// Between two probes of a front.
    #[serde(serialize_with = "shape::duration")]
    pub interval: Duration,
    /// Deadline of one.
    #[serde(serialize_with = "shape::duration")]
    pub timeout: Duration,
    /// Consecutive failures that count.
    pub fall: u32,
    /// Server name for TLS; none = learnt.
    pub sni: Option<String>,
}

/// One entry of `probes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExtraProbe {
    /// TCP port.
    pub port: u16,
    /// `Host` header.
    pub host: String,
    /// Request path.
    pub path: String,
    /// TLS with this server name; none = plain HTTP.
    pub sni: Option<String>,
    /// Statuses that count as good.
    pub expect_status: Vec<u16>,
}

/// `policy`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Overrides {
    /// Requirements that differ from the default.
    pub require: BTreeMap<ConditionType, Requirement>,
    /// Fallbacks that differ from the default.
    pub unknown: BTreeMap<ConditionType, Fallback>,
}

/// `log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Log {
    /// Text or JSON.
    pub format: LogFormat,
    /// Least important level.
    pub level: LogLevel,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// DNS-1123 name of this node.
    pub node_name: String,
    /// How the gateway gets its traffic.
    pub mode: Mode,
    /// Expected ports.
    #[serde(serialize_with = "shape::choice")]
    pub ports: Choice<u16>,
    /// Judged families.
    #[serde(serialize_with = "shape::choice")]
    pub families: Choice<Family>,
    /// Judged addresses.
    pub addresses: Addresses,
    /// The health port.
    pub health: Health,
    /// The admin port.
    pub admin: Admin,
    /// The agent-check listener.
    pub agent_check: AgentCheck,
    /// The control socket.
    pub control_socket: PathBuf,
    /// What survives a restart.
    pub state_dir: PathBuf,
    /// Host paths.
    pub host: Host,
    /// Cilium's paths.
    pub cilium: Cilium,
    /// Envoy's names.
    pub envoy: Envoy,
    /// Load eBPF programs.
    pub ebpf: bool,
    /// Intervals and limits.
    pub timing: Timing,
    /// Built-in probes.
    pub probe: Probe,
    /// Extra probes.
    pub probes: Vec<ExtraProbe>,
    /// Overrides of the judgement.
    pub policy: Overrides,
    /// The log.
    pub log: Log,
}

impl Config {
    /// The part that the judge needs.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            mode: self.mode,
            ports: self.ports.clone(),
            families: self.families.clone(),
            include: self.addresses.include.clone(),
            exclude: self.addresses.exclude.clone(),
            envoy_exe: self.envoy.exe.clone(),
            min_up: self.timing.min_up,
            hold: self.timing.hold,
            stale_after: self.timing.stale_after,
            queue_grace: self.timing.queue_grace,
            probe_enabled: self.probe.enabled,
            probe_fall: self.probe.fall,
            require: self.policy.require.clone(),
            unknown: self.policy.unknown.clone(),
        }
    }

    /// As YAML, in the shape of the file; reading it back gives the same value.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        render_yaml(self).unwrap_or_else(|sentence| format!("# can't be written as YAML: {sentence}\n"))
    }

    /// As JSON, for `/status` and the log at start.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
