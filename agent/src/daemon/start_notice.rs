//! What the log says at start: version, kernel, what can and cannot be observed and why.

use std::fs;

use gwready_core::render::log_line::{Level, Line};
use gwready_core::render::sources::NotVisible;
use rustix::thread::CapabilitySet;

use crate::config::Config;
use crate::logging;
use crate::privileges;

/// The capabilities that the agent uses, what for, and what is lost without them.
const USED: [(CapabilitySet, &str, &str); 4] = [
    (CapabilitySet::BPF, "CAP_BPF", "Cilium's maps and kernel events"),
    (CapabilitySet::PERFMON, "CAP_PERFMON", "kernel events"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN", "socket marks, netfilter rules and sk_lookup programs"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE", "the executables of other processes"),
];

/// What this process can't see for want of a capability or of the kernel's type information.
#[must_use]
pub fn not_visible() -> Vec<NotVisible> {
    let has = privileges::effective().unwrap_or(CapabilitySet::empty());
    let mut hidden: Vec<NotVisible> = USED
        .iter()
        .filter(|(capability, ..)| !has.contains(*capability))
        .map(|(_, name, what)| NotVisible { what: (*what).to_owned(), why: format!("{name} is missing"), grant: (*name).to_owned() })
        .collect();
    if fs::metadata("/sys/kernel/btf/vmlinux").is_err() {
        let why = "the kernel has no type information (/sys/kernel/btf/vmlinux)".to_owned();
        hidden.push(NotVisible {
            what: "kernel events of sockets".to_owned(),
            why,
            grant: "a kernel with CONFIG_DEBUG_INFO_BTF".to_owned(),
        });
    }
    hidden
}

/// Writes the notice.
pub fn write(config: &Config, hidden: &[NotVisible]) {
    let kernel = rustix::system::uname();
    let line = Line::new(Level::Info, "gwready starts")
        .field("version", env!("CARGO_PKG_VERSION"))
        .foreign("kernel", &kernel.release().to_string_lossy())
        .field("node", &config.node_name)
        .field("health", config.health.listen)
        .field("admin", config.admin.listen);
    logging::write(&line);
    tracing::info!("effective configuration: {}", config.to_json());
    for missing in hidden {
        let line = Line::new(Level::Warn, "cannot be observed")
            .field("what", &missing.what)
            .field("why", &missing.why)
            .field("grant", &missing.grant);
        logging::write(&line);
    }
}
