//! The judge: one pure function from policy, snapshot, memory and now to a verdict.

pub mod bind_reserved;
pub mod cilium_agent;
pub mod identity;
pub mod intercepted;
pub mod tproxy;
