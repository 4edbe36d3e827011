//! The configuration in the words of the parts that use it.

use gwready_core::judge::ports::DEFAULT_PORTS;
use gwready_core::policy::Choice;
use gwready_core::render::health::{AnswerSettings, Scope as AnswerScope};
use rustix::process::{Resource, getrlimit};

use crate::config::{Config, Scope, Unready as ConfigUnready};
use crate::health::{HealthSettings, Limits, Unready};
use crate::privileges;
use crate::probe::{ExplicitProbe, ProbeSettings};

/// For the prober.
#[must_use]
pub fn probe_settings(config: &Config) -> ProbeSettings {
    let explicit = config.probes.iter().map(|probe| ExplicitProbe {
        port: probe.port,
        host: probe.host.clone(),
        path: probe.path.clone(),
        sni: probe.sni.clone(),
        expect_status: probe.expect_status.clone(),
    });
    ProbeSettings {
        enabled: config.probe.enabled,
        interval: config.probe.interval,
        timeout: config.probe.timeout,
        fall: config.probe.fall,
        sni: config.probe.sni.clone(),
        explicit: explicit.collect(),
    }
}

/// For the health port.
#[must_use]
pub fn health_settings(config: &Config) -> HealthSettings {
    HealthSettings {
        listen: config.health.listen,
        agent_check: config.agent_check.listen,
        unready: match config.health.unready {
            ConfigUnready::Status => Unready::Status,
            ConfigUnready::Close => Unready::Close,
        },
        limits: Limits::default().within_descriptors(soft_descriptor_limit()),
        on_thread_start: Some(|| {
            // A kernel that refuses to take capabilities away does not exist; were there one, the thread must not serve.
            if let Err(error) = privileges::drop_all() {
                tracing::error!("the health port's thread can't drop its capabilities: {error}");
                std::process::abort();
            }
        }),
    }
}

/// Soft `RLIMIT_NOFILE`; no limit is the largest number.
fn soft_descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// For what the health port says.
#[must_use]
pub fn answer_settings(config: &Config) -> AnswerSettings {
    AnswerSettings {
        node_name: config.node_name.clone(),
        stale_after: config.timing.stale_after,
        scope: match config.health.scope {
            Scope::Address => AnswerScope::Address,
            Scope::Node => AnswerScope::Node,
        },
        detail: config.health.detail,
        starting_ports: match &config.ports {
            Choice::Only(ports) => ports.clone(),
            Choice::Auto => DEFAULT_PORTS.to_vec(),
        },
    }
}
