//! Handing the port from one agent to the next without losing a connection.
//!
//! Closing a member of a SO_REUSEPORT group resets what waits in its queue, and members answer each other's clients. So
//! the new one steers the group to itself, and the old one closes only after new connections demonstrably go elsewhere.
//! The program of the group can't be read back and sock_diag does not run it, so the only proof is to connect and see
//! who answers: cheap, and it needs no privilege and no word from the other process, which may be stopped.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, ipproto, socket_with};

use super::control::Control;
use super::members::{Whose, identify, read_members};
use super::steer::steer_to;
use crate::observe::netlink::NetlinkError;

/// How long an answer to our own question may take.
const ANSWER: Duration = Duration::from_millis(200);
/// Connections that must agree: with the kernel's hash instead of the program, one alone could land right by luck.
const AGREE: u32 = 4;

/// Where a new connection ends up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Landing {
    /// In our own accept queue.
    Here,
    /// In another's, which answered.
    Elsewhere,
    /// In another's, which did not answer; or it could not be tried.
    Nowhere,
}

/// The other members of our group, strangers apart.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Members on our very address: they and we share an index space.
    pub(super) group: usize,
    /// Members that may be agents: ours by executable, or not to be told.
    pub(super) agents: usize,
    /// What is surely somebody else's, described.
    pub(super) foreign: Vec<String>,
}

/// Reads who else listens on the port of `listener`.
pub(super) fn read_others(listener: BorrowedFd<'_>, address: SocketAddr) -> Result<Others, NetlinkError> {
    // fstat fails only for a descriptor that is not open; no listener has inode 0, so all would count as others.
    let own = rustix::fs::fstat(listener).map_or(0, |stat| stat.st_ino);
    let mut others = Others::default();
    for member in read_members(address.port())?.iter().filter(|member| member.id.inode != own) {
        let grouped = member.address == address.ip();
        others.group += usize::from(grouped);
        match identify(member.id.inode) {
            Whose::Stranger(holder) => others.foreign.push(format!("{holder} on {}", member.address)),
            Whose::Agent | Whose::Unknown => others.agents += usize::from(grouped),
        }
    }
    Ok(others)
}

/// Steers the group to us and proves it. False: connections still spread, which is safe, as every member is judged ready.
pub(super) fn steer_to_self(name: &str, listener: BorrowedFd<'_>, address: SocketAddr, control: &Control) -> bool {
    let others = match read_others(listener, address) {
        Ok(others) => others,
        Err(error) => {
            tracing::warn!(port = name, %error, "cannot see who shares the port");
            Others::default()
        }
    };
    for stranger in &others.foreign {
        tracing::warn!(port = name, %address, stranger, "a foreign process shares the port of the health agent");
    }
    // We are the newest, so our index is the number of the others, unless one came or went at this moment.
    let last = u32::try_from(others.group).unwrap_or(u32::MAX);
    for index in std::iter::once(last).chain(0..last).chain(std::iter::once(last + 1)) {
        if let Err(error) = steer_to(listener, index) {
            tracing::warn!(port = name, %error, "cannot steer connections to this agent");
            return false;
        }
        if others.group == 0 || lands(address, control, Landing::Here) {
            return true;
        }
    }
    tracing::warn!(port = name, %address, "another agent still gets a part of the connections");
    false
}

/// One look by a retiring agent: whether it may close, because it is alone or new connections are answered by another.
pub(super) fn is_superseded(listener: BorrowedFd<'_>, address: SocketAddr, control: &Control) -> bool {
    match read_others(listener, address) {
        Ok(others) if others.agents == 0 => true,
        _ => lands(address, control, Landing::Elsewhere),
    }
}

/// Steers new connections to another member that answers; for a successor that could not do it itself.
pub(super) fn steer_away(listener: BorrowedFd<'_>, address: SocketAddr, control: &Control) -> bool {
    let group = read_others(listener, address).map_or(1, |others| others.group);
    (0..=u32::try_from(group).unwrap_or(0)).any(|index| steer_to(listener, index).is_ok() && lands(address, control, Landing::Elsewhere))
}

fn lands(address: SocketAddr, control: &Control, wanted: Landing) -> bool {
    (0..AGREE).all(|_| try_landing(address, control).unwrap_or(Landing::Nowhere) == wanted)
}

/// Connects to the port as a client of this machine would, and sees whose accept queue it lands in.
fn try_landing(address: SocketAddr, control: &Control) -> std::io::Result<Landing> {
    let target = reachable(address);
    let family = if target.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    bind(&socket, &SocketAddr::new(target.ip(), 0))?;
    control.expect_own(SocketAddr::try_from(getsockname(socket.as_fd())?)?.port());
    let answered = ask(socket, target);
    Ok(match (control.own_arrived(), answered) {
        (true, _) => Landing::Here,
        (false, Ok(true)) => Landing::Elsewhere,
        (false, _) => Landing::Nowhere,
    })
}

/// Whether anything at all was answered. The agent-check port answers unasked and ignores the question.
fn ask(socket: std::os::fd::OwnedFd, target: SocketAddr) -> std::io::Result<bool> {
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(ANSWER))?;
    connect(&socket, &target)?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
    let mut reply = [0; 2048];
    let mut any = false;
    while stream.read(&mut reply)? > 0 {
        any = true;
    }
    Ok(any)
}

/// An address of this machine at which a client reaches a socket bound to `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip().to_canonical() {
        // Dual stack: IPv4 always works, IPv6 may be switched off.
        ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
