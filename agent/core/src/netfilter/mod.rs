//! Netfilter: the rules of one network namespace as plain data, and what they do with a new connection.
//!
//! ```text
//! nfnetlink dump, getsockopt ──► decoder ──► Ruleset ──► follow(…) ──► NetfilterPath, with the rule as `nft list ruleset` shows it
//! ```
//!
//! [`ruleset`], [`expr`], [`set`] and [`xt`] are the model; their headers tell a decoder how to fill it. Nothing here reads anything,
//! and nothing panics on any value: a model that no kernel would load gives *unclear*.
//!
//! Not in the model, because it is on nobody's way into this namespace's sockets: arp, bridge and forward. Not seen at all: BPF programs of
//! type netfilter, and what a bridge does by `br_netfilter`.

pub mod expr;
pub mod follow;
pub mod keys;
pub mod render;
pub mod ruleset;
pub mod set;
pub mod xt;
