//! The TCP listeners of this network namespace and what the kernel's own lookup picks. Source: `NETLINK_SOCK_DIAG` (inet_diag.c).

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::net::{Endpoint, Family};

/// Identity of a socket while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketId {
    /// Inode of the descriptor; 0 for a connection that is not accepted yet.
    pub inode: u64,
    /// Kernel socket cookie, never reused.
    pub cookie: u64,
}

/// One socket in state LISTEN. Optional fields are attributes that the kernel leaves out without a privilege or on older
/// versions: absent is not zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Who it is.
    #[serde(flatten)]
    pub id: SocketId,
    /// `AF_INET` or `AF_INET6` of the socket itself (a dual-stack `[::]` socket is [`Family::Ipv6`]).
    pub family: Family,
    /// Bound address as the row has it (may be `::ffff:a.b.c.d` on an IPv6 socket).
    pub address: IpAddr,
    /// Bound port.
    pub port: u16,
    /// `SO_BINDTODEVICE` index; 0 = none.
    pub bound_if: u32,
    /// `IPV6_V6ONLY` (IPv6 sockets only).
    pub v6only: Option<bool>,
    /// Owner uid.
    pub uid: u32,
    /// `SO_MARK`; absent without `CAP_NET_ADMIN`.
    pub mark: Option<u32>,
    /// `IP_TRANSPARENT` / `IPV6_TRANSPARENT`; absent before Linux 5.10.
    pub transparent: Option<bool>,
    /// cgroup v2 id; 1 (or absent) is no evidence.
    pub cgroup_id: Option<u64>,
    /// Connections waiting to be accepted.
    pub queue_length: u32,
    /// Backlog limit; the queue is full when `queue_length > queue_limit`.
    pub queue_limit: u32,
    /// Accept-queue overflows of this socket since it began to listen (`SK_MEMINFO_DROPS`).
    pub drops: Option<u32>,
}

/// What the members of one `SO_REUSEPORT` group share: everything they are bound to (net/ipv4/inet_hashtables.c,
/// `inet_reuseport_add_sock`). The uid is left out: another uid can't bind.
pub type Group = (Family, IpAddr, u16, u32, Option<bool>);

impl Listener {
    /// The group that it is in, alone or with others.
    #[must_use]
    pub const fn group(&self) -> Group {
        (self.family, self.address, self.port, self.bound_if, self.v6only)
    }

    /// A listener of which nothing else is known: uid 0, no attribute that the kernel may leave out, a queue without room.
    #[must_use]
    pub const fn bound_to(id: SocketId, at: SocketAddr) -> Self {
        Self {
            id,
            family: if at.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 },
            address: at.ip(),
            port: at.port(),
            bound_if: 0,
            v6only: None,
            uid: 0,
            mark: None,
            transparent: None,
            cgroup_id: None,
            queue_length: 0,
            queue_limit: 0,
            drops: None,
        }
    }
}

/// What the kernel's listener lookup answered for one made-up client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// Where the client would connect.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// Interface on which its SYN would arrive.
    pub ingress_if: u32,
    /// The made-up source port.
    pub source_port: u16,
    /// The socket that would get the SYN, as its own row; none = the kernel would answer RST.
    pub picked: Option<Listener>,
}

/// One read of the socket source. Lookups and queue figures are of the read's own window; which rows there are may be known
/// from a read some seconds earlier, as long as every lookup answers as it did then (`docs/decisions/steady-reads.md`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SocketTable {
    /// Exact lookups: they decide. One per judged endpoint, several (other source ports) where a `SO_REUSEPORT` group exists.
    pub lookups: Vec<Lookup>,
    /// LISTEN rows of the expected ports, both families: they explain.
    pub listeners: Vec<Listener>,
}
