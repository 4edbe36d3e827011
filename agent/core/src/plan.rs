//! What a pass has to look at: chosen by policy from facts, before the expensive sources are read.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::net::{Endpoint, Family};

/// A judged address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JudgedAddress {
    /// The address.
    pub ip: IpAddr,
    /// Interface on which a client's SYN for it is expected: its own link, or a default-route link for addresses on lo.
    pub ingress_if: u32,
}

/// The plan of one pass.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReadPlan {
    /// Judged addresses of the families in use, ascending.
    pub addresses: Vec<JudgedAddress>,
    /// Expected ports, ascending.
    pub ports: Vec<u16>,
    /// Families in use.
    pub families: Vec<Family>,
}

impl ReadPlan {
    /// Every judged address × expected port, with the ingress interface.
    pub fn endpoints(&self) -> impl Iterator<Item = (Endpoint, u32)> + '_ {
        self.addresses
            .iter()
            .flat_map(move |judged| self.ports.iter().map(move |&port| (Endpoint { address: judged.ip, port }, judged.ingress_if)))
    }
}
