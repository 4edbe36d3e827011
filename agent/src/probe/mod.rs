//! The local probes: does Envoy answer? Runs on the capability-free tokio threads, off the pass: a slow probe delays nothing.
//!
//! Rules that everything here keeps: no probe of the built-in kind reaches a backend (what may be sent is chosen by
//! [`gwready_core::judge::probe_method`]); never more than one probe per front and interval, except the first of each front,
//! which runs at once; who answered is read from the kernel while the connection is open. Nothing here judges.

mod acceptor;
mod attempt;
mod connection;
mod lane;
mod plain;
mod prober;
mod settings;
mod table;
mod tls;

pub use acceptor::AcceptorReader;
pub use prober::{ProbeHandle, Prober, probe_all};
pub use settings::{ExplicitProbe, ProbeSettings};
