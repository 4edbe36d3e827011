//! The judge: one pure function from policy, snapshot, memory and now to a verdict.

pub mod identity;
