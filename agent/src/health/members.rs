//! Who listens on a port of ours in this network namespace, and which process that is.
//!
//! Used when a port is contended, at bind and at retirement; never while serving. Names found here go into messages and
//! decide only who is certainly a stranger: who can't be identified is treated as an agent of ours.

use std::fmt;

use gwready_core::facts::sockets::Listener;
use procfs::process::{FDTarget, Process, all_processes};

use crate::observe::netlink::NetlinkError;
use crate::observe::sockets::SocketReader;

/// The listeners on `port`, of both families. Complete or an error.
pub(super) fn read_members(port: u16) -> Result<Vec<Listener>, NetlinkError> {
    SocketReader::new().read_listeners(&[port])
}

/// A process that holds a socket; shown as `nginx[412]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: i32,
    pub(super) comm: String,
    /// Base name of the executable, where it can be read.
    exe: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.comm, self.pid)
    }
}

/// Looks through `/proc` for a process that holds the socket. Only what we may read can be found.
fn find_holder(inode: u64) -> Option<Holder> {
    all_processes().ok()?.filter_map(Result::ok).find(|process| holds(process, inode)).map(|process| Holder {
        pid: process.pid,
        comm: process.stat().map_or_else(|_| "?".to_owned(), |stat| stat.comm),
        exe: exe_name(&process),
    })
}

/// Whose a listener on a port of ours is, as far as can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of a process with our own executable: an agent.
    Agent,
    /// Of a process with another executable: certainly no agent.
    Stranger(Holder),
    /// The holder was not found, or its executable can't be read.
    Unknown,
}

/// Tells agents from strangers by the executable of who holds the socket.
pub(super) fn identify(inode: u64) -> Whose {
    let ours = Process::myself().ok().and_then(|own| exe_name(&own));
    match find_holder(inode) {
        Some(holder) if holder.exe.is_none() => Whose::Unknown,
        Some(holder) if holder.exe == ours => Whose::Agent,
        Some(holder) => Whose::Stranger(holder),
        None => Whose::Unknown,
    }
}

fn holds(process: &Process, inode: u64) -> bool {
    process.fd().is_ok_and(|mut all| all.any(|fd| fd.is_ok_and(|fd| matches!(fd.target, FDTarget::Socket(socket) if socket == inode))))
}

/// Base name of a process's executable; the mark of a replaced file is cut off.
fn exe_name(process: &Process) -> Option<String> {
    let path = process.exe().ok()?;
    let name = path.file_name()?.to_string_lossy();
    Some(name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned())
}

/// For the message of a port that is taken: who listens on it.
pub(super) fn describe_listeners(port: u16) -> String {
    let members = match read_members(port) {
        Ok(members) => members,
        Err(error) => return format!("a process that could not be found out ({error})"),
    };
    let described: Vec<String> = members
        .iter()
        .map(|member| match find_holder(member.id.inode) {
            Some(holder) => format!("{holder} on {}", member.address),
            None => format!("an unknown process of uid {} on {}", member.uid, member.address),
        })
        .collect();
    if described.is_empty() { "a process that does not listen on it, or is gone".to_owned() } else { described.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn our_own_listeners_are_found_with_their_holder() {
        let v4 = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = v4.local_addr().expect("address").port();
        let members = read_members(port).expect("members");
        let mine = members.iter().find(|member| member.address == IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("found");
        assert_eq!(mine.uid, rustix::process::getuid().as_raw());
        let holder = find_holder(mine.id.inode).expect("holder");
        assert_eq!(holder.pid, std::process::id().cast_signed());
        assert!(describe_listeners(port).contains(&format!("[{}] on 127.0.0.1", std::process::id())));
        drop(v4);
        assert!(read_members(port).expect("members").iter().all(|member| member.id != mine.id));
    }
}
