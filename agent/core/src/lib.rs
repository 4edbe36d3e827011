//! The judgement of gwready: facts in, verdict out.
//!
//! Everything here is pure: no IO, no clock (`now` is an argument), no async, no unsafe, no panic. The same input gives
//! the same output, so a snapshot file replays on another machine. The agent crate does all reading and publishing.
#![forbid(unsafe_code)]

pub mod condition;
pub mod decode;
pub mod facts;
pub mod judge;
pub mod lb;
pub mod memory;
pub mod memory_queues;
pub mod net;
pub mod netfilter;
pub mod plan;
pub mod policy;
pub mod reason;
pub mod render;
pub mod replay;
pub mod time;
pub mod verdict;
