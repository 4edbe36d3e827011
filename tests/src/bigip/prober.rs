//! The two probers, and one probe over a real connection.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use super::monitor::{Finding, Monitor};
use crate::health::exchange::{Act, exchange};

/// Which process sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prober {
    /// The default daemon.
    Bigd,
    /// In-TMM monitoring (13.1 and later, off by default).
    InTmm,
}

impl Prober {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Bigd, Self::InTmm];

    /// What it appends to every send string.
    #[must_use]
    pub const fn appends(self) -> &'static [u8] {
        match self {
            Self::Bigd => b"\r\n\r\n",
            Self::InTmm => b"\r\n",
        }
    }
}

/// Probes once. A connection that fails or a reply that does not come is a bad finding, as on the device.
pub fn probe(monitor: &Monitor, prober: Prober, member: SocketAddr, patience: Duration) -> Result<Finding> {
    match exchange(member, &[Act::Send(monitor.bytes(prober))], patience) {
        Ok(seen) => monitor.find(seen.reply.as_bytes()),
        Err(_) => Ok(Finding::Bad),
    }
}
