//! Cilium's pinned maps, opened read-only, the TPROXY path's rules and routes, and sk_lookup programs.
//!
//! Readers only: a blocking thread of the observer owns them. Nothing here writes a map (the descriptors could not), judges, or keeps
//! an old value in place of a failed read. See `docs/decisions/reading-the-maps.md`.

mod agent;
mod bpf;
mod drops;
mod error;
mod family;
mod lb;
mod pin;
mod pods;
mod routes;
mod sk_lookup;
mod walk;

use std::path::PathBuf;

pub use agent::AgentReader;
pub use drops::DropsReader;
pub use error::PinError;
pub use lb::LbReader;
pub use pin::open_read_only;
pub use routes::TproxyReader;
pub use sk_lookup::read_sk_lookup;

/// Where Cilium keeps its things (`cilium.bpffs` and `cilium.run_dir` of the configuration).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiliumPaths {
    /// Mount point of the bpffs. Where it is no bpffs, `<run_dir>/bpffs` is tried, as Cilium does (`pkg/bpf/bpffs_linux.go`).
    pub bpffs: PathBuf,
    /// `/var/run/cilium`.
    pub run_dir: PathBuf,
}
