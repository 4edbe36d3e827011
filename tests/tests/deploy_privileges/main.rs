//! The tables of privileges in `deploy/README.md`: with the chart's set nothing is hidden from the agent, and what is lost
//! without each capability, mount and host namespace is what the tables say.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod capabilities;
mod mounts;
mod stand;
