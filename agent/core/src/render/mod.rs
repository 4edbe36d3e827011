//! Rendering: values to the exact text that goes out.

pub mod duration;
pub mod explain;
mod explain_sources;
pub mod failing;
pub mod fix;
pub mod flapping;
pub mod health;
pub mod joining;
pub mod log_line;
pub mod page;
pub mod sources;
pub mod status;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod transition;
pub mod wall;

#[cfg(test)]
mod any_tests;
