//! Legacy iptables: the blob of a table to the rule set model. Total: any bytes give a table or an error.

mod entries;
mod entry;
mod table;
#[cfg(test)]
mod tests;

pub use entries::{EntryError, forget_counters};
pub use table::decode_legacy_table;
