//! Shows on sockets and a signal of our own that the programs see what they claim to see.
//!
//! Records are in the ring when the system call returns that caused them, so nothing here waits. The
//! listeners live on loopback, for the time of two system calls.

use super::ring::Ring;
use super::watch::Watch;
use super::{KernelEvent, offsets};
use rustix::process::{Signal, getpid, kill_process};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// What was shown to be right. Each `Err` is a sentence for a person.
#[derive(Debug)]
pub(super) struct Proof {
    /// Port, address, family and direction of a listener are reported as they are.
    pub(super) listener: Result<(), String>,
    /// The reported namespace is that of this thread.
    pub(super) namespace: bool,
    /// Process ids in records are those that this process sees.
    pub(super) pids: bool,
    /// A signal for this process is reported.
    pub(super) signal: bool,
}

/// Runs every proof; leaves ring and watch empty.
pub(super) fn prove(ring: &mut Ring, watch: &mut Watch) -> Proof {
    let seen = listen_once(ring, watch, IpAddr::V4(Ipv4Addr::LOCALHOST));
    // Where the kernel has no IPv6 there is nothing to prove about it.
    let seen6 = listen_once(ring, watch, IpAddr::V6(Ipv6Addr::LOCALHOST));
    let listener = match (&seen, &seen6) {
        (Ok(seen), Ok(seen6)) if seen.right && seen6.right => Ok(()),
        (Ok(seen), Err(_)) if seen.right => Ok(()),
        (Err(reason), _) => Err(reason.clone()),
        _ => Err("a listener of our own is not reported as it is: the kernel's layout is not what it says".to_owned()),
    };
    let seen = seen.unwrap_or_default();
    Proof { listener, namespace: seen.namespace, pids: seen.pid, signal: signal_once(ring, watch) }
}

#[derive(Default)]
struct Seen {
    right: bool,
    namespace: bool,
    pid: bool,
}

fn listen_once(ring: &mut Ring, watch: &mut Watch, address: IpAddr) -> Result<Seen, String> {
    let (socket, port) = bound_socket(address).map_err(|error| format!("no socket on {address} to try it with: {error}"))?;
    let watched = watch.set_ports(&BTreeSet::from([port]));
    ring.drain(drop);
    let listened = rustix::net::listen(&socket, 1);
    let mut seen = Seen::default();
    let own = offsets::own_namespace();
    ring.drain(|event| {
        if let KernelEvent::Listener { port: reported, address: at, listening: true, netns, by, .. } = event {
            seen.right |= reported == port && at == address;
            seen.namespace |= netns.is_some() && netns == own;
            seen.pid |= by.pid == own_pid();
        }
    });
    drop(socket);
    ring.drain(drop);
    let unwatched = watch.set_ports(&BTreeSet::new());
    listened.map_err(|error| format!("a socket of our own can't listen: {error}"))?;
    watched.and(unwatched).map_err(|error| error.to_string())?;
    Ok(seen)
}

fn bound_socket(address: IpAddr) -> rustix::io::Result<(OwnedFd, u16)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::new(address, 0))?;
    let local = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, local.port()))
}

/// CONT does nothing to a process that runs, and is reported whether or not anyone handles it.
fn signal_once(ring: &mut Ring, watch: &mut Watch) -> bool {
    let own = own_pid();
    let mut seen = false;
    if watch.set_pids(&BTreeSet::from([own])).is_ok() && kill_process(getpid(), Signal::CONT).is_ok() {
        ring.drain(|event| {
            seen |= matches!(event, KernelEvent::Signal { target, signal, .. } if target == own && signal == libc::SIGCONT);
        });
    }
    seen && watch.set_pids(&BTreeSet::new()).is_ok()
}

fn own_pid() -> u32 {
    std::process::id()
}
