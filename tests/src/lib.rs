//! The gateway node in a box: a node and a client as network namespaces, real Envoy, the agent,
//! and the thieves that take its ports. Used by every root test and by `gwready-box`.
//!
//! Nothing here may leave a process, mount or namespace behind, touch the host's own network, or
//! stand in for a part that exists: what a test sees is decided by the kernel and by real programs.

pub mod agent;
pub mod bench;
pub mod bigip;
mod bootstrap;
pub mod browser;
pub mod certificate;
pub mod cilium_agent;
pub mod client;
pub mod crowd;
pub mod desk;
pub mod envoy;
pub mod exposition;
pub mod faults;
pub mod freezer;
pub mod halt;
pub mod health;
pub mod lbmaps;
mod links;
pub mod listener;
pub mod netfilter;
pub mod node;
mod ns;
pub mod paths;
pub mod pod;
pub mod process;
pub mod prometheus;
pub mod scene;
pub mod space;
pub mod steer;
pub mod sweep;
pub mod theft;
pub mod thief;
pub mod unix_http;
pub mod wait;

pub use agent::{Agent, AgentBuilder};
pub use client::{Answer, Counts};
pub use crowd::Crowd;
pub use desk::Desk;
pub use envoy::{Caps, Envoy, EnvoyBuilder};
pub use listener::{Families, Listener, Tls};
pub use node::{Node, NodeBuilder};
pub use process::Process;
pub use scene::Scene;
pub use space::Space;
pub use thief::{Nginx, Thief, ThiefBuilder};
pub use wait::eventually;
