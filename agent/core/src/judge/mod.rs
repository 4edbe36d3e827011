//! The judge: one pure function from policy, snapshot, memory and now to a verdict.

pub mod accepting;
pub mod bind_reserved;
pub mod cilium_agent;
pub mod config_current;
pub mod envoy_live;
pub mod identity;
pub mod intercepted;
pub mod ports;
pub mod probe_method;
pub mod queues;
pub mod responding;
#[cfg(test)]
pub(crate) mod serving;
pub mod tproxy;
