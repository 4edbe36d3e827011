//! nf_tables over nfnetlink: messages to the rule set model. Expressions that are not known keep their name; a message that is
//! broken is an error, never a rule that is missing.

pub mod wire;
