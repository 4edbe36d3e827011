//! Measurements of cost and speed, each beside its peer in the same run: what `gwready-bench` prints.
//!
//! Figures are medians of what the real agent, the kernel and the peers did. Nothing here judges a figure: targets stand
//! beside it for a person. Use a release build and a quiet machine.

pub mod cost;
pub mod health;
pub mod latency;
pub mod lb;
pub mod listener;
pub mod netfilter;
pub mod overhead;
pub mod pass;
pub mod passes;
pub mod samples;
pub mod soak;
pub mod table;
pub mod wrk;
