//! nf_tables over nfnetlink: messages to the rule set model. Expressions that are not known keep their name; a message that is
//! broken is an error, never a rule that is missing.

mod attributes;
mod data;
mod expressions;
mod objects;
mod rules;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod wire;

pub use objects::{decode_chain, decode_elements, decode_set, decode_table};
pub use rules::{PlacedRule, decode_rule, sets_of};
