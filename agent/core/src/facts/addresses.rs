//! Local addresses, their links, and which links carry a default route. Source: rtnetlink (`RTM_GETADDR`, `RTM_GETLINK`, `RTM_GETROUTE`).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::net::Family;

/// `rt_scope_t` as far as it matters here (rtnetlink.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// `RT_SCOPE_UNIVERSE`.
    Global,
    /// `RT_SCOPE_SITE`.
    Site,
    /// `RT_SCOPE_LINK`.
    Link,
    /// `RT_SCOPE_HOST`.
    Host,
    /// Any other value.
    Other,
}

/// One address of this network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalAddress {
    /// The address (`IFA_LOCAL`, else `IFA_ADDRESS`).
    pub ip: IpAddr,
    /// Its link.
    pub ifindex: u32,
    /// Scope as the kernel reports it.
    pub scope: Scope,
    /// `IFA_F_TENTATIVE` or `IFA_F_DADFAILED`: not usable (yet).
    pub tentative: bool,
    /// `IFA_F_DEPRECATED`: on its way out.
    pub deprecated: bool,
}

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Interface index.
    pub ifindex: u32,
    /// Name, raw text.
    pub name: String,
    /// `IFF_LOOPBACK`.
    pub loopback: bool,
    /// `IFF_UP`.
    pub up: bool,
    /// Master device (bridge, bond, VRF), if any.
    pub master: Option<u32>,
}

/// A link that carries a default route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DefaultRoute {
    /// Family of the route.
    pub family: Family,
    /// Output interface.
    pub ifindex: u32,
}

/// All of it, read in one go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AddressTable {
    /// Every address.
    pub addresses: Vec<LocalAddress>,
    /// Every link.
    pub links: Vec<Link>,
    /// Links with a default route in any table but `local`.
    pub default_routes: Vec<DefaultRoute>,
}

impl AddressTable {
    /// The link with this index.
    #[must_use]
    pub fn link(&self, ifindex: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.ifindex == ifindex)
    }
}
