//! Real pinned maps of Cilium's names and layouts, written as Cilium's agent writes them.
//!
//! Stands for the writer only: the kernel's maps, pins and descriptors are the real ones. Use it where the bpffs is mounted
//! (inside [`crate::Node::enter`]). Must not use the agent's readers, which it is there to test.

use std::collections::HashMap as Kept;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aya::Pod;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, HashMap, Map, MapData, PerCpuHashMap, PerCpuValues};
use aya::util::nr_cpus;
use gwready_core::lb::local::encode_key;
use gwready_core::lb::service::{Service, ServiceKey, flag};

/// Kinds of frontends as flag bytes (`flags`, `flags2`) of Cilium's writer.
pub mod kind {
    /// HostPort on a node address.
    pub const HOST_PORT: (u8, u8) = (0x48, 0);
    /// NodePort on a node address.
    pub const NODE_PORT: (u8, u8) = (0x42, 0);
    /// NodePort on 0.0.0.0 or ::.
    pub const NODE_PORT_SURROGATE: (u8, u8) = (0x02, 0);
    /// An address in externalIPs, with session affinity.
    pub const EXTERNAL_IP: (u8, u8) = (0x51, 0);
    /// A LoadBalancer ingress address.
    pub const LOAD_BALANCER: (u8, u8) = (0x60, 0);
    /// A cluster address that is a node address by mistake, not reachable from outside.
    pub const CLUSTER_IP: (u8, u8) = (0x00, 0);
    /// A LoadBalancer ingress address redirected to an L7 proxy port.
    pub const L7: (u8, u8) = (0x60, 0x04);
    /// The wildcard drop entry of a LoadBalancer address.
    pub const WILDCARD: (u8, u8) = (0x20, 0);
}

type Services4 = HashMap<MapData, [u8; 12], [u8; 12]>;
type Services6 = HashMap<MapData, [u8; 24], [u8; 12]>;

/// The maps, open for writing. Dropping it leaves the pins, as the end of an agent does.
pub struct LbMaps {
    globals: PathBuf,
    services4: Services4,
    services6: Services6,
    backends4: HashMap<MapData, u32, [u8; 12]>,
    backends6: HashMap<MapData, u32, [u8; 24]>,
    ranges4: LpmTrie<MapData, [u8; 8], u8>,
    endpoints: HashMap<MapData, [u8; 20], [u8; 48]>,
    config: Array<MapData, u64>,
    metrics: PerCpuHashMap<MapData, [u8; 8], [u8; 16]>,
    next_id: u32,
    /// First backend id and number of slots of each frontend; every frontend has backends of its own.
    slots: Kept<ServiceKey, (u32, u16)>,
}

/// `BPF_F_NO_PREALLOC`, as Cilium's maps have it.
const NO_PREALLOC: u32 = 1;

impl LbMaps {
    /// Creates and pins all maps below `<bpffs>/tc/globals`, in place of those that are there.
    pub fn create(bpffs: &Path, max_entries: u32) -> Result<Self> {
        let globals = bpffs.join("tc/globals");
        fs::create_dir_all(&globals)?;
        Ok(Self {
            services4: hash(&globals, "cilium_lb4_services_v2", max_entries)?,
            services6: hash(&globals, "cilium_lb6_services_v2", max_entries)?,
            backends4: hash(&globals, "cilium_lb4_backends_v3", max_entries)?,
            backends6: hash(&globals, "cilium_lb6_backends_v3", max_entries)?,
            ranges4: {
                let path = fresh(&globals, "cilium_lb4_source_range")?;
                LpmTrie::<MapData, [u8; 8], u8>::create(max_entries, NO_PREALLOC)?.pin(&path)?;
                LpmTrie::try_from(opened(&path)?)?
            },
            endpoints: hash(&globals, "cilium_lxc", max_entries)?,
            config: {
                let path = fresh(&globals, "cilium_runtime_config")?;
                Array::<MapData, u64>::create(256, 0)?.pin(&path)?;
                Array::try_from(opened(&path)?)?
            },
            metrics: {
                let path = fresh(&globals, "cilium_metrics")?;
                PerCpuHashMap::<MapData, [u8; 8], [u8; 16]>::create(1024, 0)?.pin(&path)?;
                PerCpuHashMap::try_from(opened(&path)?)?
            },
            globals,
            next_id: 1,
            slots: Kept::new(),
        })
    }

    /// The directory of the pins.
    #[must_use]
    pub fn globals(&self) -> &Path {
        &self.globals
    }

    /// Writes a TCP frontend with its slots and backends, in the writer's order: backends, slots, master.
    pub fn add(&mut self, address: IpAddr, port: u16, kind: (u8, u8), backends: &[(IpAddr, u16)]) -> Result<()> {
        self.add_row(ServiceKey::master(address, port, 6), [0; 4], kind, backends)
    }

    /// Writes an L7 frontend without backends.
    pub fn add_l7(&mut self, address: IpAddr, port: u16, proxy_port: u16) -> Result<()> {
        let [high, low] = proxy_port.to_be_bytes();
        self.add_row(ServiceKey::master(address, port, 6), [high, low, 0, 0], kind::L7, &[])
    }

    /// Writes any frontend: `union` are the first four bytes of the master.
    pub fn add_row(&mut self, key: ServiceKey, union: [u8; 4], (flags, flags2): (u8, u8), backends: &[(IpAddr, u16)]) -> Result<()> {
        let rev_nat = if key.port == 0 { 0 } else { 7 };
        let slot_row = |id: u32| Service { union: id.to_ne_bytes(), count: 0, rev_nat, flags, flags2, quarantined: 0 };
        let first_id = self.next_id;
        for (slot, &(address, port)) in (1_u16..).zip(backends) {
            let id = self.next_id;
            self.next_id += 1;
            self.put_backend(id, address, port)?;
            self.put(&key.with_slot(slot), &slot_row(id))?;
        }
        let count = u16::try_from(backends.len())?;
        self.slots.insert(key, (first_id, count));
        self.put(&key, &Service { union, count, ..slot_row(0) })
    }

    /// Removes a TCP frontend, its slots and its backends, in the writer's order.
    pub fn remove(&mut self, address: IpAddr, port: u16) -> Result<()> {
        self.remove_row(ServiceKey::master(address, port, 6))
    }

    /// Removes any frontend, its slots and its backends.
    pub fn remove_row(&mut self, key: ServiceKey) -> Result<()> {
        let (first_id, count) = self.slots.remove(&key).context("no such frontend")?;
        for slot in 0..=count {
            let key = key.with_slot(slot);
            match (key.encode_v4(), key.encode_v6()) {
                (Some(bytes), _) => self.services4.remove(&bytes)?,
                (_, Some(bytes)) => self.services6.remove(&bytes)?,
                _ => {}
            }
        }
        for id in (first_id..).take(usize::from(count)) {
            // A backend is of one family; the other map has no such id.
            let _ = (self.backends4.remove(&id), self.backends6.remove(&id));
        }
        Ok(())
    }

    /// Writes a row of `cilium_lxc`: a pod's address, or one of the node's own.
    pub fn add_endpoint(&mut self, address: IpAddr, id: u16, host: bool) -> Result<()> {
        let mut value = [0; 48];
        value[6..8].copy_from_slice(&id.to_ne_bytes());
        value[8] = u8::from(host);
        Ok(self.endpoints.insert(encode_key(address), value, 0)?)
    }

    /// Writes an IPv4 source range of the services that this writes.
    pub fn add_range(&mut self, network: [u8; 4], prefix: u32) -> Result<()> {
        let [a, b, c, d] = network;
        Ok(self.ranges4.insert(&Key::new(32 + prefix, [0, 7, 0, 0, a, b, c, d]), 0, 0)?)
    }

    /// Writes the agent's liveness stamp, monotonic nanoseconds.
    pub fn stamp(&mut self, nanoseconds: u64) -> Result<()> {
        Ok(self.config.set(1, nanoseconds, 0)?)
    }

    /// Writes a drop counter: `packets` on every processor. Reasons are those of Cilium's `DROP_*`.
    pub fn count_drops(&mut self, reason: u8, packets: u64) -> Result<()> {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&packets.to_ne_bytes());
        let cpus = nr_cpus().map_err(|(what, error)| anyhow::anyhow!("{what}: {error}"))?;
        Ok(self.metrics.insert([reason, 1, 0, 0, 0, 0, 0, 0], PerCpuValues::try_from(vec![value; cpus])?, 0)?)
    }

    /// Fills the IPv4 services map with frontends of other addresses.
    pub fn fill(&mut self, rows: u32) -> Result<()> {
        for number in 0..rows {
            let [_, a, b, c] = number.to_be_bytes();
            let key = ServiceKey::master(IpAddr::from([172, 16 + a, b, c]), 80, 6);
            self.put(&key, &Service { union: [0; 4], count: 0, rev_nat: 9, flags: flag::LOADBALANCER, flags2: 0, quarantined: 0 })?;
        }
        Ok(())
    }

    fn put(&mut self, key: &ServiceKey, row: &Service) -> Result<()> {
        match (key.encode_v4(), key.encode_v6()) {
            (Some(bytes), _) => self.services4.insert(bytes, row.encode(), 0)?,
            (_, Some(bytes)) => self.services6.insert(bytes, row.encode(), 0)?,
            _ => {}
        }
        Ok(())
    }

    fn put_backend(&mut self, id: u32, address: IpAddr, port: u16) -> Result<()> {
        let [p0, p1] = port.to_be_bytes();
        match address {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                self.backends4.insert(id, [a, b, c, d, p0, p1, 6, 0, 0, 0, 0, 0], 0)?;
            }
            IpAddr::V6(v6) => {
                let mut value = [0; 24];
                value[..16].copy_from_slice(&v6.octets());
                value[16..19].copy_from_slice(&[p0, p1, 6]);
                self.backends6.insert(id, value, 0)?;
            }
        }
        Ok(())
    }
}

/// Creates and pins one hash map, in place of the one that is there.
pub fn hash<K: Pod, V: Pod>(globals: &Path, name: &str, max_entries: u32) -> Result<HashMap<MapData, K, V>> {
    let path = fresh(globals, name)?;
    HashMap::<MapData, K, V>::create(max_entries, NO_PREALLOC)?.pin(&path)?;
    Ok(HashMap::try_from(opened(&path)?)?)
}

fn fresh(globals: &Path, name: &str) -> Result<PathBuf> {
    let path = globals.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(path.display().to_string()),
        _ => Ok(path),
    }
}

fn opened(path: &Path) -> Result<Map> {
    Ok(Map::from_map_data(MapData::from_pin(path)?)?)
}
