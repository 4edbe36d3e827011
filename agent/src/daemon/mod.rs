//! The daemon: ties observation, judgement and publication together, and lives and dies as one.
//!
//! [`lifecycle::run`] is `gwready run`; [`once::observe`] is one pass without a daemon. The observer thread keeps the
//! capabilities; everything else drops them before it reads a byte.

pub mod board;
mod calls;
mod engine;
mod journal;
mod kernel_events;
mod lifecycle;
mod observer;
mod once;
pub mod schedule;
mod settings;
mod sources;
mod start_notice;
pub mod wake;

pub use engine::Daemon;
