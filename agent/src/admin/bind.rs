//! Taking the port: dual-stack where asked for, never shared.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind as bind_socket, listen, socket_with, sockopt};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Binds without SO_REUSEPORT, so that a port that another process has is an error. On an IPv6 address IPV6_V6ONLY is cleared
/// explicitly (`net.ipv6.bindv6only` may set it); where there is no IPv6, `[::]` means 0.0.0.0.
///
/// # Errors
/// As socket(2), bind(2) and listen(2), in particular [`io::ErrorKind::AddrInUse`].
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match bind_exact(address) {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if address.is_ipv6() && address.ip().is_unspecified() => {
            Ok(bind_exact(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()))?)
        }
        bound => Ok(bound?),
    }
}

fn bind_exact(address: SocketAddr) -> rustix::io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind_socket(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}
