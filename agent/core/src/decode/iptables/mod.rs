//! Legacy iptables: the blob of a table to the rule set model. Total: any bytes give a table or an error.

mod entries;

pub use entries::{EntryError, forget_counters};
