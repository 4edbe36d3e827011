//! Which ports and processes the programs report, and the connections they count.
//!
//! Changes only what differs from the last call. A port or process that is not watched costs nothing in
//! user space: the kernel side drops it.

use aya::maps::{Array, HashMap, MapData, MapError, PerCpuHashMap, PerCpuValues};
use gwready_ebpf::{COUNTED_PORTS, WATCHED_PIDS, port_bit};
use std::collections::BTreeSet;

/// The watched set could not be changed; polling goes on without these events.
#[derive(Debug, thiserror::Error)]
#[error("cannot tell the kernel to watch {what}")]
pub struct WatchError {
    what: String,
    source: MapError,
}

/// The kernel's tables of what is watched.
pub struct Watch {
    port_bits: Array<MapData, u64>,
    established: PerCpuHashMap<MapData, u16, u64>,
    pid_table: HashMap<MapData, u32, u8>,
    ports: BTreeSet<u16>,
    counted: BTreeSet<u16>,
    pids: BTreeSet<u32>,
    /// Connections can be told apart by network namespace.
    counts_are_ours: bool,
}

impl Watch {
    pub(super) fn new(
        port_bits: Array<MapData, u64>,
        established: PerCpuHashMap<MapData, u16, u64>,
        pid_table: HashMap<MapData, u32, u8>,
    ) -> Self {
        let (ports, counted, pids) = Default::default();
        Self { port_bits, established, pid_table, ports, counted, pids, counts_are_ours: false }
    }

    pub(super) fn trust_counts(&mut self, yes: bool) {
        self.counts_are_ours = yes;
    }

    /// Watches these ports and no others. Counting begins at zero for a port that was not watched before.
    ///
    /// # Errors
    /// A table can't be written; the ports that were written before stay.
    pub fn set_ports(&mut self, ports: &BTreeSet<u16>) -> Result<(), WatchError> {
        let changed: Vec<u16> = self.ports.symmetric_difference(ports).copied().collect();
        for port in changed {
            let failed = |source| WatchError { what: format!("port {port}"), source };
            let (word, bit) = port_bit(port);
            let before = self.port_bits.get(&word, 0).map_err(failed)?;
            if ports.contains(&port) {
                self.count(port).map_err(failed)?;
                self.port_bits.set(word, before | bit, 0).map_err(failed)?;
                self.ports.insert(port);
            } else {
                self.port_bits.set(word, before & !bit, 0).map_err(failed)?;
                if self.counted.remove(&port) {
                    self.established.remove(&port).map_err(failed)?;
                }
                self.ports.remove(&port);
            }
        }
        Ok(())
    }

    /// Ports beyond the table's room are watched but not counted.
    fn count(&mut self, port: u16) -> Result<(), MapError> {
        if self.counted.len() >= usize::try_from(COUNTED_PORTS).unwrap_or(usize::MAX) {
            return Ok(());
        }
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| error).map_err(MapError::IoError)?;
        let zeros = PerCpuValues::try_from(vec![0; cpus]).map_err(MapError::IoError)?;
        self.established.insert(port, zeros, 0)?;
        self.counted.insert(port);
        Ok(())
    }

    /// Watches these processes (ids of the initial pid namespace) and no others. Of more than the table
    /// holds the lowest are taken.
    ///
    /// # Errors
    /// The table can't be written; the processes that were written before stay.
    pub fn set_pids(&mut self, pids: &BTreeSet<u32>) -> Result<(), WatchError> {
        let room = usize::try_from(WATCHED_PIDS).unwrap_or(usize::MAX);
        let wanted: BTreeSet<u32> = pids.iter().copied().take(room).collect();
        let failed = |pid: u32| move |source| WatchError { what: format!("process {pid}"), source };
        // Removal first: the table may be full.
        for pid in self.pids.difference(&wanted).copied().collect::<Vec<_>>() {
            self.pid_table.remove(&pid).map_err(failed(pid))?;
            self.pids.remove(&pid);
        }
        for pid in wanted.difference(&self.pids).copied().collect::<Vec<_>>() {
            self.pid_table.insert(pid, 1, 0).map_err(failed(pid))?;
            self.pids.insert(pid);
        }
        Ok(())
    }

    /// Connections established on `port` in our network namespace since it is watched. `None`: not
    /// watched, or connections of other namespaces can't be told apart.
    #[must_use]
    pub fn established(&self, port: u16) -> Option<u64> {
        if !self.counts_are_ours || !self.counted.contains(&port) {
            return None;
        }
        let each = self.established.get(&port, 0).ok()?;
        Some(each.iter().sum())
    }
}
