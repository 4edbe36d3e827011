//! The admin port: metrics, liveness, status. Served by hyper, without capabilities.
//!
//! `/metrics`, `/livez` and `/readyz` are open. `/status` and `/` name processes and paths, so they are for loopback and
//! for clients that `admin.allow` lists. Nothing here waits for a read of the kernel or changes anything.

mod access;
mod answer;
mod bind;
mod route;
mod serve;

pub use answer::Pages;
pub use bind::bind;
pub use serve::{serve, serve_on};

#[cfg(test)]
mod tests;
