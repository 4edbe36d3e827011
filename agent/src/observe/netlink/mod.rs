//! One reader of netlink answers: complete, or an error. Knows sequence numbers, `NLMSG_DONE`, `NLMSG_ERROR`, `NLM_F_DUMP_INTR`,
//! lost and cut messages and the deadline; knows nothing of what the messages mean (that is the caller's decoder).
//!
//! Blocking, for the observer and probe threads. See `docs/decisions/sock-diag.md` for why this is written here.

mod collect;
mod error;
mod exchange;
mod frame;
mod socket;

pub use error::NetlinkError;
pub use exchange::{Dumped, Exchange, TRIES};
pub use socket::{Protocol, Subscription};
