//! The gwready agent: observe → snapshot → judge → publish.
//!
//! The library exists so that the tests can use its parts; `main.rs` only calls [`cli`].

pub mod admin;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod daemon;
pub mod events;
pub mod health;
pub mod logging;
mod memory;
pub mod metrics;
pub mod observe;
pub mod privileges;
pub mod probe;
pub mod publish;
pub mod state;
