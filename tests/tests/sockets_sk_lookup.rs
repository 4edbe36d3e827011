//! An sk_lookup program gives port 80 to a socket of another port: the LISTEN table looks perfect, only the lookup tells.
//! Loads its small program by bpf(2) itself; must not be used for anything but this.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "bpf(2) has no safe wrapper for a program without an object file")]

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use gwready::observe::sockets::SocketReader;
use gwready_core::facts::Reading;
use gwready_core::facts::sockets::SocketTable;
use gwready_core::net::Family;
use gwready_core::plan::{JudgedAddress, ReadPlan};
use gwready_tests::node::node_v4;
use gwready_tests::{Node, eventually};

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_MAP_TYPE_SOCKMAP: u32 = 15;
const BPF_PROG_TYPE_SK_LOOKUP: u32 = 30;
const BPF_SK_LOOKUP: u32 = 36;

/// `union bpf_attr` with these 32-bit words at these offsets.
fn attr(words: &[(usize, u32)], pointers: &[(usize, u64)]) -> [u8; 128] {
    let mut bytes = [0; 128];
    for (at, word) in words {
        bytes[*at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    for (at, pointer) in pointers {
        bytes[*at..at + 8].copy_from_slice(&pointer.to_ne_bytes());
    }
    bytes
}

fn bpf(command: i32, mut attr: [u8; 128]) -> io::Result<i32> {
    // SAFETY: attr is a valid buffer of the given size; the pointers inside are to live buffers of the callers below.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), attr.len()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(result).unwrap()) }
}

fn bpf_fd(command: i32, attr: [u8; 128]) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: these commands return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn raw(fd: &impl AsFd) -> u32 {
    u32::try_from(fd.as_fd().as_raw_fd()).unwrap()
}

fn address_of<T>(value: &[T]) -> u64 {
    u64::try_from(value.as_ptr().addr()).unwrap()
}

/// `struct bpf_insn`.
fn insn(op: u8, dst: u8, src: u8, off: i16, imm: i32) -> [u8; 8] {
    let (off, imm) = (off.to_ne_bytes(), imm.to_ne_bytes());
    [op, dst | src << 4, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
}

/// Steers every connection to port 80 of the calling thread's network namespace to `thief`, until the link is dropped.
fn steer(thief: &TcpListener) -> Result<OwnedFd> {
    let map = bpf_fd(BPF_MAP_CREATE, attr(&[(0, BPF_MAP_TYPE_SOCKMAP), (4, 4), (8, 8), (12, 1)], &[])).context("map")?;
    let (key, value) = ([0u32], [u64::from(raw(thief))]);
    bpf(BPF_MAP_UPDATE_ELEM, attr(&[(0, raw(&map))], &[(8, address_of(&key)), (16, address_of(&value))])).context("update")?;
    let program = [
        insn(0xbf, 6, 1, 0, 0),                         // r6 = ctx
        insn(0x61, 2, 1, 60, 0),                        // r2 = ctx->local_port
        insn(0x55, 2, 0, 14, 80),                       // if r2 != 80 goto pass
        insn(0x62, 10, 0, -4, 0),                       // key = 0
        insn(0xbf, 2, 10, 0, 0),                        // r2 = fp
        insn(0x07, 2, 0, 0, -4),                        // r2 -= 4
        insn(0x18, 1, 1, 0, i32::try_from(raw(&map))?), // r1 = map
        insn(0, 0, 0, 0, 0),                            // second half
        insn(0x85, 0, 0, 0, 1),                         // r0 = bpf_map_lookup_elem
        insn(0x15, 0, 0, 7, 0),                         // if r0 == 0 goto pass
        insn(0xbf, 7, 0, 0, 0),                         // r7 = socket
        insn(0xbf, 1, 6, 0, 0),                         // r1 = ctx
        insn(0xbf, 2, 0, 0, 0),                         // r2 = socket
        insn(0xb7, 3, 0, 0, 0),                         // r3 = 0
        insn(0x85, 0, 0, 0, 124),                       // bpf_sk_assign
        insn(0xbf, 1, 7, 0, 0),                         // r1 = socket
        insn(0x85, 0, 0, 0, 86),                        // bpf_sk_release
        insn(0xb7, 0, 0, 0, 1),                         // pass: r0 = SK_PASS
        insn(0x95, 0, 0, 0, 0),                         // exit
    ];
    let (license, mut log) = (*b"GPL\0", vec![0u8; 65_536]);
    let words =
        [(0, BPF_PROG_TYPE_SK_LOOKUP), (4, u32::try_from(program.len())?), (24, 1), (28, u32::try_from(log.len())?), (68, BPF_SK_LOOKUP)];
    let log_at = u64::try_from(log.as_mut_ptr().addr())?;
    let pointers = [(8, address_of(&program)), (16, address_of(&license)), (32, log_at)];
    let loaded = bpf_fd(BPF_PROG_LOAD, attr(&words, &pointers));
    let loaded = loaded.with_context(|| String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())?;
    let namespace = File::open("/proc/thread-self/ns/net")?;
    bpf_fd(BPF_LINK_CREATE, attr(&[(0, raw(&loaded)), (4, raw(&namespace)), (8, BPF_SK_LOOKUP)], &[])).context("link")
}

fn read(node: &Node) -> SocketTable {
    let addresses = vec![JudgedAddress { ip: node_v4(1).into(), ingress_if: 2 }];
    let plan = ReadPlan { addresses, ports: vec![80], families: Family::ALL.to_vec() };
    match node.enter(|| Ok(SocketReader::new().read(&plan))).unwrap() {
        Reading::Observed { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

fn accepts(listener: &TcpListener, node: &Node) -> bool {
    let to = SocketAddr::new(IpAddr::from(node_v4(1)), 80);
    let client = node.outside().enter(|| Ok(TcpStream::connect_timeout(&to, Duration::from_secs(5))?)).unwrap();
    let taken = eventually(Duration::from_secs(1), || Ok(listener.accept()?));
    taken.is_ok_and(|(_, peer)| peer == client.local_addr().unwrap())
}

#[test]
fn a_program_that_steers_the_port_is_seen_by_the_lookup_alone() {
    let node = Node::new().unwrap();
    let listen = |port: u16| {
        let listener = node.enter(|| Ok(TcpListener::bind(("0.0.0.0", port))?)).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    };
    let (envoy, thief) = (listen(80), listen(8080));
    let inode = |listener: &TcpListener| rustix::fs::fstat(listener).unwrap().st_ino;
    let before = read(&node);
    assert_eq!(before.lookups[0].picked.as_ref().unwrap().id.inode, inode(&envoy));
    assert!(accepts(&envoy, &node));

    let link = node.enter(|| steer(&thief)).unwrap();
    let steered = read(&node);
    assert_eq!(steered.listeners, before.listeners, "the table looks perfect");
    assert_eq!(steered.lookups.len(), 64, "one made-up client says little about a program");
    for lookup in &steered.lookups {
        let picked = lookup.picked.as_ref().unwrap();
        assert_eq!((picked.id.inode, picked.port), (inode(&thief), 8080));
    }
    assert!(accepts(&thief, &node));

    drop(link);
    assert_eq!(read(&node), before);
    assert!(accepts(&envoy, &node));
}
