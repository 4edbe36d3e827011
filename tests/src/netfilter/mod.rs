//! Rule sets in a node, and what real connections make of them.

pub mod answering;
pub mod compare;
pub mod fate;
pub mod random;
mod rules;
pub mod stage;

pub use compare::{Seen, compare, tally};
pub use rules::{Tool, flush};
pub use stage::Stage;
