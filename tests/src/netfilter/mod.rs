//! Rule sets in a node, and what real connections make of them.

mod rules;

pub use rules::{Tool, flush};
