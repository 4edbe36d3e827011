//! Who holds a socket: /proc, cgroups, pod log folders.
//!
//! [`OwnerReader`] answers a pass from memory: remembered owners are verified through descriptors of their `/proc/PID` folders
//! (a reused pid can't be mistaken), likely candidates are searched with a budget, and whatever that leaves open is searched
//! for by a thread of its own, whose result a later pass picks up. Must not judge: identity is `gwready_core::judge::identity`.

mod ancestors;
mod candidates;
mod cgroups;
mod descriptors;
mod known;
mod pods;
mod process;
mod procfs_root;
mod reader;
mod settings;
mod sockets;
mod starts;
mod walk;
mod walker;

pub use reader::OwnerReader;
pub use settings::Settings;
pub use walker::Wake;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod reader_tests;
