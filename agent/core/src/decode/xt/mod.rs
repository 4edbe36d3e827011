//! Matches and targets of iptables: the info structures of `include/uapi/linux/netfilter/xt_*.h` to the rule set model, as they come
//! in legacy tables and in the compat expressions of iptables-nft. Total: what is not known keeps its name.

mod bytes;
mod matches;
mod targets;

pub use matches::decode_match;
pub use targets::decode_target;

#[cfg(test)]
mod tests;
