//! Rendering: values to the exact text that goes out.

pub mod duration;
pub mod text;
