//! Observation: all IO of a pass, on the observer thread. Readers yield facts; nothing here judges.

pub mod addresses;
pub mod cilium;
pub mod envoy;
mod failure;
pub mod netfilter;
pub mod netlink;
pub mod owners;
pub mod queue_sampler;
pub mod sockets;
