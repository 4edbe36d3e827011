//! A gateway node and its neighbour: two namespaces, their network, private bpffs and tracefs, and
//! the folders that Cilium and the agent would have on a host.
//!
//! Must not start programs of its own accord; [`crate::envoy`], [`crate::agent`] and
//! [`crate::thief`] do.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount};
use tempfile::TempDir;

use crate::links::{ExtraLink, render_create, render_neighbour, render_node};
pub use crate::links::{NEIGHBOUR_V4, NEIGHBOUR_V6, UPLINK, node_v4, node_v6};
use crate::space::Space;
use crate::sweep;

/// A node in a box. Clones share it; it ends with the last one, which Envoy, agent and thieves
/// hold too.
#[derive(Debug, Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Fields drop in this order: processes are swept in Drop, then namespaces end, then files.
    node: Space,
    outside: Space,
    dir: TempDir,
    addresses: u8,
    ipv6: bool,
    serial: AtomicU32,
}

/// What a node should look like.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    addresses: u8,
    ipv6: bool,
    extra: Vec<ExtraLink>,
}

impl NodeBuilder {
    /// Addresses of each family on the uplink; default 2.
    #[must_use]
    pub fn addresses(mut self, count: u8) -> Self {
        self.addresses = count;
        self
    }

    /// Disables IPv6 in both namespaces (`disable_ipv6`).
    #[must_use]
    pub fn without_ipv6(mut self) -> Self {
        self.ipv6 = false;
        self
    }

    /// Adds a bridge, e.g. `docker0` with `172.17.0.1/16`.
    #[must_use]
    pub fn bridge(self, name: &str, addresses: &[&str]) -> Self {
        self.extra_link(name, true, addresses)
    }

    /// Adds a veth end whose peer stays in the node, e.g. `cilium_host` with `10.42.0.5/32`.
    #[must_use]
    pub fn link(self, name: &str, addresses: &[&str]) -> Self {
        self.extra_link(name, false, addresses)
    }

    fn extra_link(mut self, name: &str, bridge: bool, addresses: &[&str]) -> Self {
        self.extra.push(ExtraLink { name: name.into(), bridge, addresses: addresses.iter().map(|&text| text.into()).collect() });
        self
    }

    /// Makes the node. Needs root.
    pub fn build(self) -> Result<Node> {
        let dir = tempfile::Builder::new().prefix("gwready-box-").tempdir()?;
        let inner = Inner {
            node: Space::new("node")?,
            outside: Space::new("outside")?,
            dir,
            addresses: self.addresses,
            ipv6: self.ipv6,
            serial: AtomicU32::new(0),
        };
        let node = Node { inner: Arc::new(inner) };
        for folder in ["bpf", "tracing", "cilium/envoy/sockets", "pods", "gwready"] {
            fs::create_dir_all(node.dir().join(folder))?;
        }
        node.mount_private()?;
        node.connect(&self.extra)?;
        Ok(node)
    }
}

impl Node {
    /// A node with two addresses of each family.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// Options first.
    #[must_use]
    pub fn builder() -> NodeBuilder {
        NodeBuilder { addresses: 2, ipv6: true, extra: Vec::new() }
    }

    /// The node's own namespaces.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.inner.node
    }

    /// The neighbour's: where clients and balancers stand.
    #[must_use]
    pub fn outside(&self) -> &Space {
        &self.inner.outside
    }

    /// See [`Space::enter`].
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.space().enter(work)
    }

    /// See [`Space::command`].
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.space().command(program)
    }

    /// The box's own folder. `bpf` and `tracing` in it are mounted inside the node only.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.inner.dir.path()
    }

    /// Mount point of the private bpffs; Cilium's pins belong to `tc/globals` below it.
    /// Reach it by [`Node::enter`].
    #[must_use]
    pub fn bpffs(&self) -> PathBuf {
        self.dir().join("bpf")
    }

    /// Mount point of the private tracefs.
    #[must_use]
    pub fn tracefs(&self) -> PathBuf {
        self.dir().join("tracing")
    }

    /// Stands for `/var/run/cilium`.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.dir().join("cilium")
    }

    /// Envoy's admin socket, where Cilium puts it.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.run_dir().join("envoy/sockets/admin.sock")
    }

    /// Stands for `/var/log/pods`.
    #[must_use]
    pub fn pod_logs(&self) -> PathBuf {
        self.dir().join("pods")
    }

    /// Stands for `/run/gwready`.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.dir().join("gwready")
    }

    /// Whether the node has IPv6.
    #[must_use]
    pub fn has_ipv6(&self) -> bool {
        self.inner.ipv6
    }

    /// The uplink's addresses, IPv4 first.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let numbers = 1..=self.inner.addresses;
        let v4 = numbers.clone().map(|n| node_v4(n).into());
        let v6 = numbers.map(|n| node_v6(n).into());
        let count = if self.inner.ipv6 { usize::MAX } else { 0 };
        v4.chain(v6.take(count)).collect()
    }

    /// A path in the box's folder that was not given out before.
    pub(crate) fn fresh_path(&self, stem: &str) -> PathBuf {
        let serial = self.inner.serial.fetch_add(1, Ordering::Relaxed);
        self.dir().join(format!("{stem}-{serial}"))
    }

    fn mount_private(&self) -> Result<()> {
        let (bpffs, tracefs) = (self.bpffs(), self.tracefs());
        self.inner.node.on_keeper(move || -> Result<()> {
            let none = MountFlags::empty();
            mount("bpffs", &bpffs, "bpf", none, None).context("mounting bpffs")?;
            mount("tracefs", &tracefs, "tracefs", none, None).context("mounting tracefs")?;
            // Envoy's hot-restart memory is named by base id alone; boxes must not share it.
            mount("shm", "/dev/shm", "tmpfs", none, None).context("mounting /dev/shm")
        })?
    }

    fn connect(&self, extra: &[ExtraLink]) -> Result<()> {
        let (node, outside) = (self.space(), self.outside());
        // So that no port by chance looks like one of the gateway's to whoever greps for `:443`.
        node.set_sysctl("net/ipv4/ip_local_port_range", "50000 60999")?;
        if !self.inner.ipv6 {
            for space in [node, outside] {
                for scope in ["all", "default", "lo"] {
                    space.set_sysctl(&format!("net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
                }
            }
        }
        run_batch(node, &render_create(&outside.net_path()))?;
        run_batch(outside, &render_neighbour(self.inner.ipv6))?;
        run_batch(node, &render_node(self.inner.addresses, self.inner.ipv6, extra))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for space in [&self.node, &self.outside] {
            if let Err(error) = space.net_inode().and_then(sweep::empty) {
                eprintln!("box {}: {error:#}", space.name());
            }
        }
    }
}

/// Runs an `ip -batch` script inside a namespace.
pub fn run_batch(space: &Space, script: &str) -> Result<()> {
    let mut child = space
        .command("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting ip (package iproute2)")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip in {}: {stderr}\nof:\n{script}", space.name());
    Ok(())
}
