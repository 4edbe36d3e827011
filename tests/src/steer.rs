//! A real sk_lookup program that steers one port to one socket, loaded by bpf(2) as a stranger on the node would.
//!
//! Unsafe because nothing in aya loads a program from instructions. Must not know the agent.
#![expect(unsafe_code, reason = "bpf(2): loading instructions, making a sockmap and a link")]

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_SOCKMAP: u32 = 15;
const PROG_TYPE_SK_LOOKUP: u32 = 30;
const ATTACH_SK_LOOKUP: u32 = 36;
/// Offset of `local_port` in `struct bpf_sk_lookup` (linux/bpf.h).
const LOCAL_PORT: i16 = 60;

/// The program at work. Dropping it detaches it.
#[derive(Debug)]
pub struct Steering {
    _link: OwnedFd,
    _program: OwnedFd,
    _map: OwnedFd,
    /// Kernel id of the program.
    pub id: u32,
}

/// Steers TCP and UDP connections for `port` in the calling thread's network namespace to a socket. Needs root.
pub fn steer(port: u16, to: BorrowedFd<'_>) -> Result<Steering> {
    let map = made(bpf(BPF_MAP_CREATE, &mut [MAP_TYPE_SOCKMAP, 4, 8, 1, 0])).context("making a sockmap")?;
    let (key, value) = (0_u32, u64::try_from(to.as_raw_fd())?);
    let pointers = [u64::from(map.as_raw_fd().unsigned_abs()), address(&key), address(&value), 0];
    bpf(BPF_MAP_UPDATE_ELEM, &mut { pointers }).context("putting the socket into the sockmap")?;
    let program = load(port, map.as_raw_fd())?;
    let netns = File::open("/proc/thread-self/ns/net")?;
    let mut attach = [program.as_raw_fd().unsigned_abs(), netns.as_raw_fd().unsigned_abs(), ATTACH_SK_LOOKUP, 0];
    let link = made(bpf(BPF_LINK_CREATE, &mut attach)).context("attaching to the namespace")?;
    // struct bpf_prog_info begins with type and id.
    let mut info = [0_u32; 2];
    let mut ask = [u64::from(program.as_raw_fd().unsigned_abs()) | 8 << 32, std::ptr::from_mut(&mut info).addr() as u64];
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut ask).context("asking for the program's id")?;
    Ok(Steering { _link: link, _program: program, _map: map, id: info[1] })
}

fn load(port: u16, map: i32) -> Result<OwnedFd> {
    /// `struct bpf_insn`: registers are destination | source << 4.
    fn insn(op: u8, registers: u8, offset: i16, value: i32) -> [u8; 8] {
        let ([o0, o1], [v0, v1, v2, v3]) = (offset.to_ne_bytes(), value.to_ne_bytes());
        [op, registers, o0, o1, v0, v1, v2, v3]
    }
    let program = [
        insn(0xbf, 0x16, 0, 0),                // r6 = r1: the context
        insn(0x61, 0x62, LOCAL_PORT, 0),       // r2 = context.local_port
        insn(0x55, 0x02, 14, i32::from(port)), // another port: pass
        insn(0x62, 0x0a, -4, 0),               // key 0 on the stack
        insn(0x18, 0x11, 0, map),              // r1 = the sockmap
        insn(0x00, 0x00, 0, 0),
        insn(0xbf, 0xa2, 0, 0), // r2 = &key
        insn(0x07, 0x02, 0, -4),
        insn(0x85, 0x00, 0, 1), // bpf_map_lookup_elem
        insn(0x15, 0x00, 7, 0), // empty: pass
        insn(0xbf, 0x07, 0, 0), // r7 = the socket
        insn(0xbf, 0x61, 0, 0), // bpf_sk_assign(context, socket, 0)
        insn(0xbf, 0x72, 0, 0),
        insn(0xb7, 0x03, 0, 0),
        insn(0x85, 0x00, 0, 124),
        insn(0xbf, 0x71, 0, 0), // bpf_sk_release(socket)
        insn(0x85, 0x00, 0, 86),
        insn(0xb7, 0x00, 0, 1), // SK_PASS
        insn(0x95, 0x00, 0, 0),
    ];
    let license = *b"GPL\0";
    let count = u64::try_from(program.len())?;
    // union bpf_attr of BPF_PROG_LOAD up to expected_attach_type (offset 68).
    let mut attribute = [0_u64; 9];
    attribute[0] = u64::from(PROG_TYPE_SK_LOOKUP) | count << 32;
    attribute[1] = address(&program);
    attribute[2] = address(&license);
    attribute[8] = u64::from(ATTACH_SK_LOOKUP) << 32;
    made(bpf(BPF_PROG_LOAD, &mut attribute)).context("loading the program")
}

fn address<T>(value: &T) -> u64 {
    std::ptr::from_ref(value).addr() as u64
}

fn bpf<T>(command: libc::c_long, attribute: &mut T) -> std::io::Result<i32> {
    // SAFETY: `attribute` is an exclusively borrowed array of integers whose size is passed; the pointers in it are of values that the
    // callers keep alive over the call, of the sizes that the command reads.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attribute), size_of::<T>()) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { i32::try_from(result).map_err(std::io::Error::other) }
}

fn made(result: std::io::Result<i32>) -> std::io::Result<OwnedFd> {
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}
