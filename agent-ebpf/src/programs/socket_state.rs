//! `sock:inet_sock_set_state` (`include/trace/events/sock.h`): listeners that come and go, and
//! connections that are established, on watched ports.
//!
//! Runs at every state change of every TCP socket of the machine, so the common case must leave early:
//! two integer comparisons for a state that does not matter, one read and one inlined lookup for a port
//! that does not.

use crate::{kernel, maps};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use aya_log_ebpf::debug;
use gwready_ebpf::records::{LISTENER, Listener};

// `include/net/tcp_states.h`
const TCP_ESTABLISHED: i32 = 1;
const TCP_SYN_RECV: i32 = 3;
const TCP_LISTEN: i32 = 10;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const IPPROTO_TCP: u16 = 6;

/// Arguments: `const struct sock *sk, const int oldstate, const int newstate`.
#[raw_tracepoint(tracepoint = "inet_sock_set_state")]
pub(crate) fn socket_state(context: RawTracePointContext) -> i32 {
    let (old, new): (i32, i32) = (context.arg(1), context.arg(2));
    let listening = new == TCP_LISTEN;
    // The child of an accepted connection is a copy of its listener and leaves LISTEN for SYN_RECV:
    // that is no listener going away (inet_csk_clone_lock in net/ipv4/inet_connection_sock.c).
    let ceased = old == TCP_LISTEN && new != TCP_SYN_RECV;
    let established = old == TCP_SYN_RECV && new == TCP_ESTABLISHED;
    if listening || ceased || established {
        let sock: *const u8 = context.arg(0);
        if let Some(port) = watched_port(sock) {
            let netns = kernel::netns_of(sock);
            if is_ours(netns) {
                if established {
                    maps::count_connection(port);
                } else if let Some(record) = describe(sock, port, netns, listening) {
                    debug!(&context, "port {} listening {} by {}", port, record.listening, record.tgid);
                    maps::send(record);
                }
            }
        }
    }
    0
}

#[inline(always)]
fn watched_port(sock: *const u8) -> Option<u16> {
    let port: u16 = kernel::read(sock, kernel::SKC_NUM.load())?;
    maps::port_is_watched(port).then_some(port)
}

#[inline(always)]
fn is_ours(netns: u32) -> bool {
    let only = kernel::ONLY_NETNS.load();
    only == 0 || netns == 0 || netns == only
}

/// The record of a TCP listener; `None` for other protocols that share the tracepoint (MPTCP, SCTP).
#[inline(always)]
fn describe(sock: *const u8, port: u16, netns: u32, listening: bool) -> Option<Listener> {
    let protocol = kernel::SK_PROTOCOL.load();
    if protocol != 0 && kernel::read::<u16>(sock, protocol)? != IPPROTO_TCP {
        return None;
    }
    let mut address = [0; 16];
    let family = match kernel::read::<u16>(sock, kernel::SKC_FAMILY.load())? {
        AF_INET => {
            let v4: [u8; 4] = kernel::read(sock, kernel::SKC_RCV_SADDR.load())?;
            address[..4].copy_from_slice(&v4);
            2
        }
        AF_INET6 => {
            address = kernel::read(sock, kernel::SKC_V6_RCV_SADDR.load())?;
            10
        }
        _ => return None,
    };
    Some(Listener {
        kind: LISTENER,
        netns,
        time: kernel::now(),
        cgroup: kernel::current_cgroup(),
        tgid: kernel::current().0,
        port,
        family,
        listening: u8::from(listening),
        address,
        comm: kernel::current_comm(),
    })
}
