//! Scenarios: the ways in which a gateway node lies, each as facts over time and what people and balancers are told about it.
//!
//! A test is named after its fault; every judgement in it goes by way of a snapshot file's text, as `gwready explain` reads it.
//! The moment that it decides is a committed file below `files`: see `kept`.
#![allow(missing_docs, unreachable_pub, reason = "a test crate has no users")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "a broken scenario must end its test")]

#[path = "../support/rules.rs"]
#[allow(dead_code, reason = "the programs of tests/netfilter use all of it")]
mod rules;

mod kept;
mod node;
mod watch;

pub(crate) use kept::kept;

mod faults;

mod alive_but_not_taking;
mod answers;
mod coming_and_going;
mod envoys_control_path;
mod every_reason;
mod explained;
mod files;
mod monitor_itself;
mod over_time;
mod partial_service;
mod precedence;
mod request_fails;
mod somebody_else;
