//! A probe that a socket load balancer translates, as Cilium's does: a real program on the cgroup's connect hook.
//! One test in a process of its own, because the hook is on the whole process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "bpf(2) has no wrapper here for a program of nine instructions")]

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gwready::observe::envoy::AdminSession;
use gwready::probe::{ProbeSettings, probe_all};
use gwready_core::condition::Status;
use gwready_core::facts::probes::Acceptor;
use gwready_core::facts::{Reading, Snapshot};
use gwready_core::judge::responding::judge_responding;
use gwready_core::memory::Memory;
use gwready_core::net::Endpoint;
use gwready_core::policy::Policy;
use gwready_core::reason::Reason;
use gwready_core::time::{Mono, Window};
use gwready_tests::{Envoy, Listener, Node, Thief};

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const CGROUP_SOCK_ADDR: u32 = 18;
const CGROUP_INET4_CONNECT: u32 = 10;
/// `bpf_sock_addr.user_port`, network order.
const USER_PORT: u16 = 24;

/// What the hook makes of ports: 80 is "Envoy's proxy port", 443 is somebody else's.
const TRANSLATIONS: [(u16, u16); 2] = [(80, 8080), (443, 8443)];

fn instruction(code: u8, registers: u8, offset: u16, immediate: u32) -> [u8; 8] {
    let (offset, immediate) = (offset.to_ne_bytes(), immediate.to_ne_bytes());
    [code, registers, offset[0], offset[1], immediate[0], immediate[1], immediate[2], immediate[3]]
}

/// `r2 = port; if r2 == from { port = to } …; return 1`.
fn program() -> Vec<u8> {
    let mut code = vec![instruction(0x61, 0x12, USER_PORT, 0)];
    for (from, to) in TRANSLATIONS {
        code.push(instruction(0x55, 0x02, 2, u16::from_ne_bytes(from.to_be_bytes()).into()));
        code.push(instruction(0xb7, 0x03, 0, u16::from_ne_bytes(to.to_be_bytes()).into()));
        code.push(instruction(0x63, 0x31, USER_PORT, 0));
    }
    code.extend([instruction(0xb7, 0x00, 0, 1), instruction(0x95, 0, 0, 0)]);
    code.concat()
}

fn bpf(command: libc::c_long, attributes: &[u8]) -> Result<i32> {
    // SAFETY: the kernel reads `len` bytes of attributes and what they point to; all of it outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), attributes.len()) };
    anyhow::ensure!(result >= 0, "bpf({command}): {}", std::io::Error::last_os_error());
    Ok(i32::try_from(result)?)
}

fn load() -> Result<OwnedFd> {
    let (code, license) = (program(), c"Dual MIT/GPL");
    let mut attributes = [0; 72];
    let mut put = |at: usize, bytes: &[u8]| attributes[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &CGROUP_SOCK_ADDR.to_ne_bytes());
    put(4, &u32::try_from(code.len() / 8)?.to_ne_bytes());
    put(8, &(code.as_ptr() as u64).to_ne_bytes());
    put(16, &(license.as_ptr() as u64).to_ne_bytes());
    put(68, &CGROUP_INET4_CONNECT.to_ne_bytes());
    let fd = bpf(BPF_PROG_LOAD, &attributes)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// This process in a cgroup of its own with the hook on it. Moves back and removes the cgroup when dropped.
struct Translated {
    cgroup: PathBuf,
    back: PathBuf,
}

impl Translated {
    fn start() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let root = mounts.lines().find_map(|line| line.split(' ').nth(1).filter(|_| line.split(' ').nth(2) == Some("cgroup2")));
        let root = PathBuf::from(root.context("no cgroup2 mount")?);
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).context("no cgroup v2 path")?;
        let this = Self { cgroup: root.join(format!("gwready-translated-{}", std::process::id())), back: root.join(own) };
        fs::create_dir(&this.cgroup)?;
        let (folder, program) = (File::open(&this.cgroup)?, load()?);
        let attributes = [folder.as_raw_fd().unsigned_abs(), program.as_raw_fd().unsigned_abs(), CGROUP_INET4_CONNECT, 0];
        bpf(BPF_PROG_ATTACH, &attributes.map(u32::to_ne_bytes).concat())?;
        fs::write(this.cgroup.join("cgroup.procs"), std::process::id().to_string())?;
        Ok(this)
    }
}

impl Drop for Translated {
    fn drop(&mut self) {
        let moved = fs::write(self.back.join("cgroup.procs"), std::process::id().to_string());
        let removed = fs::remove_dir(&self.cgroup);
        if !std::thread::panicking() {
            moved.and(removed).unwrap();
        }
    }
}

#[test]
fn a_translated_probe_says_nothing_about_the_wire_unless_envoys_own_proxy_port_took_it() {
    let node = Node::builder().addresses(1).without_ipv6().build().unwrap();
    let proxy_port = Listener { name: "default/cilium-gateway-gw/proxy".into(), ..Listener::http(8080) };
    let _envoy = Envoy::builder(&node).listeners(vec![Listener::gateway(), proxy_port]).start().unwrap();
    let address = node.addresses()[0];
    let _other = Thief::at(&node, address, 8443).start().unwrap();
    let admin = AdminSession::new(node.admin_socket()).read(Instant::now() + Duration::from_secs(10)).unwrap();
    let endpoints = TRANSLATIONS.map(|(port, _)| Endpoint { address, port });
    let translated = Translated::start().unwrap();
    let table = node.enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(async { probe_all(&ProbeSettings::default(), &endpoints, Some(&admin)).await }))
    });
    drop(translated);
    let table = table.unwrap();
    for (from, to) in TRANSLATIONS {
        let result = table.results.iter().find(|result| result.endpoint.port == from).unwrap();
        let Acceptor::Translated { to: Some(really), inode: Some(1..), .. } = result.acceptor else { panic!("{result:?}") };
        assert_eq!(really, (address, to));
    }
    let snapshot = Snapshot { probes: Reading::Observed { value: table, window: Window::default() }, ..Snapshot::default() };
    let judged = endpoints.map(|endpoint| {
        let finding = judge_responding(&Policy::default(), &snapshot, &Memory::default(), endpoint, Mono(0));
        (finding.status, finding.reason)
    });
    assert_eq!(judged, [(Status::True, None), (Status::Unknown, Some(Reason::ProbeTranslated))]);
}
