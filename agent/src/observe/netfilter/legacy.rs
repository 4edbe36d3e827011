//! Legacy iptables: the tables that exist, whole. Asks only for tables that the kernel lists, because a question for another one
//! would make it, with its hooks. Must not decode rules.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use gwready_core::decode::iptables::forget_counters;
use gwready_core::net::Family;

use super::error::NetfilterError;
use super::sockopt::{RawTable, TableSocket};

/// Tries per table that changes while it is read.
const TRIES: u32 = 3;

/// One legacy table.
pub(super) struct LegacyTable {
    pub(super) family: Family,
    pub(super) name: String,
    pub(super) raw: RawTable,
}

/// Every table of both families, without its counters, and a fingerprint of all of them.
pub(super) struct LegacyTables {
    pub(super) tables: Vec<LegacyTable>,
    pub(super) fingerprint: u64,
}

/// Reads every legacy table of the calling thread's network namespace.
pub(super) fn read_legacy() -> Result<LegacyTables, NetfilterError> {
    let mut tables = Vec::new();
    let mut hasher = DefaultHasher::new();
    for family in Family::ALL {
        let names = read_names(family)?;
        if names.is_empty() {
            continue;
        }
        let socket = TableSocket::open(family).map_err(|source| legacy_error(family, "", source))?;
        for name in names {
            let raw = read_table(&socket, family, &name)?;
            (family, &name, raw.info, &raw.entries).hash(&mut hasher);
            tables.push(LegacyTable { family, name, raw });
        }
    }
    Ok(LegacyTables { tables, fingerprint: hasher.finish() })
}

/// The tables that exist in this namespace. A list that is not there means that the kernel's part was never loaded.
fn read_names(family: Family) -> Result<Vec<String>, NetfilterError> {
    let path = match family {
        Family::Ipv4 => "/proc/thread-self/net/ip_tables_names",
        Family::Ipv6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(NetfilterError::Names { path, source }),
    }
}

/// Hooks and entries of one generation of the table.
fn read_table(socket: &TableSocket, family: Family, name: &str) -> Result<RawTable, NetfilterError> {
    for _ in 0..TRIES {
        let info = socket.info(name).map_err(|source| legacy_error(family, name, source))?;
        let mut entries = match socket.entries(name, &info) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(source) => return Err(legacy_error(family, name, source)),
        };
        // Same size, other hooks: replaced in between.
        if socket.info(name).map_err(|source| legacy_error(family, name, source))? == info {
            forget_counters(family, &mut entries);
            return Ok(RawTable { info, entries });
        }
    }
    Err(NetfilterError::Changing(TRIES))
}

fn legacy_error(family: Family, table: &str, source: io::Error) -> NetfilterError {
    NetfilterError::Legacy { family, table: table.to_owned(), source }
}
