//! How a BIG-IP LTM `http` monitor reads a pool member, rebuilt from F5's public schemas, code and bug pages
//! (docs/load-balancers.md names them): what is sent, what is searched in the reply, and when the member changes.
//!
//! Not a BIG-IP: only what those sources state is here. The clock is an argument, so that minutes pass in no time.

mod escape;
pub mod member;
pub mod monitor;
pub mod prober;

pub use member::{Availability, Member};
pub use monitor::{Finding, Monitor};
pub use prober::{Prober, probe};
