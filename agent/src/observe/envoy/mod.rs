//! Envoy's admin interface over its Unix socket: one GET per question, on a thread of its own, so that a slow admin never
//! delays a pass.
//!
//! Only ever reads. `/quitquitquit`, `/drain_listeners` and `/healthcheck/fail` are POSTs on the same socket: nothing here can
//! send another method than GET.

mod client;
mod error;
mod reader;
mod session;

pub use client::read_path;
pub use error::AdminReadError;
pub use reader::{AdminSettings, EnvoyAdminReader, LatestAdmin, read_admin};
pub use session::AdminSession;
