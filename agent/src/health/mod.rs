//! The health port: what load balancers read. Never touches the kernel beyond its own sockets, never waits for a read.
//!
//! [`bind()`] takes the ports, [`Bound::serve`] answers from one thread of its own, [`Serving::retire`] hands over to a
//! successor. Why the bytes are parsed here and not by hyper: `docs/decisions/health-port.md`.

mod accept;
mod bind;
mod connection;
mod connections;
mod control;
mod event_loop;
mod guard;
mod lifecycle;
mod members;
mod notice;
pub mod parse;
pub mod proxy_protocol;
pub mod respond;
mod settings;
pub mod stats;
mod steer;
mod takeover;

pub use bind::BindError;
pub use guard::PortGuard;
pub use lifecycle::{Bound, Serving, bind};
pub use settings::{HealthSettings, Limits, Unready};
