//! The daemon: ties observation, judgement and publication together, and lives and dies as one.
//!
//! [`lifecycle::run`] is `gwready run`; `once` is one pass without a daemon. The observer thread keeps the
//! capabilities; everything else drops them before it reads a byte.

pub mod board;
pub mod calls;
mod engine;
pub mod journal;
pub mod kernel_events;
pub mod lifecycle;
pub mod observer;
mod once;
pub mod schedule;
pub mod settings;
pub mod sources;
pub mod start_notice;
pub mod wake;

pub use engine::Daemon;
