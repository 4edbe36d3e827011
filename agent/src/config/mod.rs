//! Configuration: one YAML file, overrides, and the effective values. All faults are reported at once.
//!
//! Two types on purpose: [`Given`] is what the operator wrote (file, environment, `--set`), [`Config`] is what the agent
//! uses, complete and valid. One table, [`keys::KEYS`], names every key; reader, overrides and documentation follow it.
//! Nothing here judges or logs.

mod checks;
pub mod docs;
mod duration;
mod effective;
mod faults;
mod given;
pub mod keys;
mod overrides;
mod parse;
mod probes;
mod read;
mod sources;
mod yaml;

pub use duration::parse_duration;
pub use effective::{
    Addresses, Admin, AgentCheck, Cilium, Config, Envoy, ExtraProbe, Health, Host, Log, LogFormat, LogLevel, Overrides, Probe, Scope,
    Timing, Unready,
};
pub use faults::{Fault, Faults, Origin};
pub use given::Given;
pub use overrides::CONFIG_VARIABLE;
pub use sources::{Host as HostNames, Sources};

/// Reads the sources and makes the effective configuration.
///
/// # Errors
/// Every fault of every source, in one value.
pub fn load(sources: &Sources) -> Result<Config, Faults> {
    let mut faults = Faults::default();
    let given = sources.read_given(&mut faults);
    let config = read::parse_config(&given, &sources.names, &mut faults);
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

#[cfg(test)]
mod tests;
