//! Netfilter's rules: nf_tables over nfnetlink, legacy iptables by its getsockopt interface, without running a program. One
//! generation of the rules or an error; followed for the wanted endpoints and then dropped. Must not judge, and must not load a
//! legacy table by asking for it. See `docs/decisions/netfilter.md`.

mod error;
mod follow;
mod legacy;
mod nft;
mod reader;
mod sockopt;
mod transparent;
mod watch;
mod worker;

pub use error::NetfilterError;
pub use follow::{Wanted, wanted_connections};
pub use reader::{read_paths, read_ruleset};
pub use worker::{NetfilterReader, Wake};
