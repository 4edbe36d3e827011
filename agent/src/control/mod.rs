//! The control socket: what the command line uses to talk to a running daemon.
//!
//! One JSON object per line in each direction. The socket has mode 0600 and every peer's uid is checked: root, or the
//! agent's own. Two sockets speak this protocol: the control socket (`control_socket`, for people), and one in the pod's
//! own temporary folder (for the kubelet's `live` and `ready`), so that two overlapping agents are never confused.

mod client;
mod own;
mod protocol;
mod server;

pub use client::{CallError, call};
pub use own::{own_socket_path, prepare_own_folder};
pub use protocol::{Readiness, Request, Response};
pub use server::{Bound, Handler, Peer, bind, serve};

#[cfg(test)]
mod tests;
