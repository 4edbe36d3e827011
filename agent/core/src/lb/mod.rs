//! Cilium's load-balancer maps: layouts, rows, and the datapath's rule for a packet from the wire.
//!
//! Layouts and the rule follow `docs/decisions/datapath-rule.md`. Nothing here opens a map.

pub mod agent_files;
pub mod backend;
pub mod datapath;
pub mod facts;
pub mod frontends;
pub mod layout;
pub mod local;
pub mod metrics;
pub mod service;
pub mod settings;
pub mod source_range;
