//! Takes the ports: dual stack, shared with a predecessor or successor of ours, refused to strangers.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, ipproto, socket_with, sockopt};

use super::members::describe_listeners;

/// Why a port could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A process that does not share it has it. Exit code 69.
    #[error("{name} {address} is in use by {owner}")]
    InUse {
        /// Configuration key of the port.
        name: &'static str,
        /// What was asked for.
        address: SocketAddr,
        /// Who has it, as far as can be found out.
        owner: String,
    },
    /// Anything else.
    #[error("cannot listen on {name} {address}")]
    Failed {
        /// Configuration key of the port.
        name: &'static str,
        /// What was asked for.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// A bound socket that does not listen yet: it holds the port against strangers and gets no connection.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) name: &'static str,
    pub(super) socket: OwnedFd,
    pub(super) address: SocketAddr,
    /// Somebody listened on it when it was bound.
    pub(super) contended: bool,
}

/// Binds `address`; for `[::]` on a machine without IPv6, 0.0.0.0.
pub(super) fn bind_port(name: &'static str, address: SocketAddr) -> Result<Port, BindError> {
    match try_bind(name, address) {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            try_bind(name, address).map_err(|errno| explain(name, address, errno))
        }
        result => result.map_err(|errno| explain(name, address, errno)),
    }
}

fn explain(name: &'static str, address: SocketAddr, errno: Errno) -> BindError {
    if errno == Errno::ADDRINUSE {
        BindError::InUse { name, address, owner: describe_listeners(address.port()) }
    } else {
        BindError::Failed { name, address, source: errno.into() }
    }
}

fn try_bind(name: &'static str, address: SocketAddr) -> Result<Port, Errno> {
    let contended = address.port() != 0 && is_listened_to(address)?;
    let socket = open(address)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    let address = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok(Port { name, socket, address, contended })
}

/// Whether somebody listens on the address. A bind that does not share fails exactly then: with SO_REUSEADDR only a
/// listener conflicts (`inet_csk_bind_conflict`). Cheaper than reading the socket table, and the answer of the kernel itself.
fn is_listened_to(address: SocketAddr) -> Result<bool, Errno> {
    match bind(open(address)?, &address) {
        Ok(()) => Ok(false),
        Err(Errno::ADDRINUSE) => Ok(true),
        Err(errno) => Err(errno),
    }
}

fn open(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // net.ipv6.bindv6only=1 would refuse every IPv4 client.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    Ok(socket)
}
