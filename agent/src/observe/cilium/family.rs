//! The maps of one address family: direct lookups of the keys that bear on the plan, and nothing else.
//!
//! The cost grows with judged endpoints and the backends of rows on them, not with the maps.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use aya::Pod;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{HashMap, MapData, MapError};
use gwready_core::lb::backend::Backend;
use gwready_core::lb::facts::LbTable;
use gwready_core::lb::layout;
use gwready_core::lb::service::{Service, ServiceKey, flag};
use gwready_core::lb::source_range::SourceRange;
use gwready_core::net::{Endpoint, Family};

use super::PinError;
use super::error::io_error;
use super::pin::Pin;

/// Slots read of one master: with that many backends the first ones tell enough.
const SLOTS: u16 = 64;
/// Source ranges walked at most. They are walked only while a judged row checks them.
const RANGES: usize = 4096;

/// How one family's keys and values are laid out.
pub(super) trait Layouts {
    const FAMILY: Family;
    type ServiceKey: Pod;
    type BackendValue: Pod;
    /// A source-range key without its leading prefix length.
    type RangeData: Pod;
    fn encode(key: &ServiceKey) -> Option<Self::ServiceKey>;
    fn decode_key(bytes: &Self::ServiceKey) -> ServiceKey;
    fn decode_backend(bytes: &Self::BackendValue) -> Backend;
    fn decode_range(prefix: u32, data: &Self::RangeData) -> Option<SourceRange>;
}

/// `cilium_lb4_*`.
pub(super) struct V4;
/// `cilium_lb6_*`.
pub(super) struct V6;

impl Layouts for V4 {
    const FAMILY: Family = Family::Ipv4;
    type ServiceKey = [u8; 12];
    type BackendValue = [u8; 12];
    type RangeData = [u8; 8];

    fn encode(key: &ServiceKey) -> Option<[u8; 12]> {
        key.encode_v4()
    }

    fn decode_key(bytes: &[u8; 12]) -> ServiceKey {
        ServiceKey::decode_v4(bytes)
    }

    fn decode_backend(bytes: &[u8; 12]) -> Backend {
        Backend::decode_v4(bytes)
    }

    fn decode_range(prefix: u32, data: &[u8; 8]) -> Option<SourceRange> {
        let mut key = [0; 12];
        let (length, rest) = key.split_at_mut(4);
        length.copy_from_slice(&prefix.to_ne_bytes());
        rest.copy_from_slice(data);
        SourceRange::decode_v4(&key)
    }
}

impl Layouts for V6 {
    const FAMILY: Family = Family::Ipv6;
    type ServiceKey = [u8; 24];
    type BackendValue = [u8; 24];
    type RangeData = [u8; 20];

    fn encode(key: &ServiceKey) -> Option<[u8; 24]> {
        key.encode_v6()
    }

    fn decode_key(bytes: &[u8; 24]) -> ServiceKey {
        ServiceKey::decode_v6(bytes)
    }

    fn decode_backend(bytes: &[u8; 24]) -> Backend {
        Backend::decode_v6(bytes)
    }

    fn decode_range(prefix: u32, data: &[u8; 20]) -> Option<SourceRange> {
        let mut key = [0; 24];
        let (length, rest) = key.split_at_mut(4);
        length.copy_from_slice(&prefix.to_ne_bytes());
        rest.copy_from_slice(data);
        SourceRange::decode_v6(&key)
    }
}

type Services<F> = HashMap<MapData, <F as Layouts>::ServiceKey, [u8; 12]>;
type Backends<F> = HashMap<MapData, u32, <F as Layouts>::BackendValue>;
type Ranges<F> = LpmTrie<MapData, <F as Layouts>::RangeData, u8>;

/// The pins of one family.
pub(super) struct FamilyMaps<F: Layouts> {
    pub(super) services: Pin<Services<F>>,
    pub(super) backends: Pin<Backends<F>>,
    ranges: Pin<Ranges<F>>,
}

impl<F: Layouts> FamilyMaps<F> {
    pub(super) fn new() -> Self {
        Self {
            services: Pin::new(layout::services(F::FAMILY), HashMap::try_from),
            backends: Pin::new(layout::backends(F::FAMILY), HashMap::try_from),
            ranges: Pin::new(layout::source_ranges(F::FAMILY), LpmTrie::try_from),
        }
    }

    /// Every row that bears on these endpoints and ports. Names of local backends are added by the caller.
    pub(super) fn read(&mut self, globals: &Path, endpoints: BTreeSet<Endpoint>, ports: &[u16]) -> Result<LbTable, PinError> {
        let mut table = LbTable { asked: endpoints, ..LbTable::default() };
        self.read_services(globals, &mut table, ports)?;
        let slots = table.services.iter().filter(|(key, _)| key.slot > 0);
        let ids: BTreeSet<u32> = slots.map(|(_, row)| row.backend_id()).collect();
        if !ids.is_empty() {
            self.read_backends(globals, &mut table, &ids)?;
        }
        if table.services.iter().any(|(key, row)| key.slot == 0 && row.has(flag::SOURCE_RANGE)) {
            self.read_ranges(globals, &mut table);
        }
        Ok(table)
    }

    fn read_services(&mut self, globals: &Path, table: &mut LbTable, ports: &[u16]) -> Result<(), PinError> {
        let addresses: BTreeSet<IpAddr> = table.asked.iter().map(|endpoint| endpoint.address).collect();
        let protocols = [6_u8, 0];
        let masters = table.asked.iter().flat_map(|at| protocols.map(|protocol| ServiceKey::master(at.address, at.port, protocol)));
        let surrogates = ports.iter().flat_map(|&port| protocols.map(|protocol| ServiceKey::surrogate(F::FAMILY, port, protocol)));
        let wildcards = addresses.into_iter().map(ServiceKey::wildcard);
        let keys: Vec<ServiceKey> = masters.chain(surrogates).chain(wildcards).collect();
        let result = read_rows::<F>(self.services.map(globals)?, table, &keys);
        result.map_err(|error| self.services.failed(io_error(error)))
    }

    fn read_backends(&mut self, globals: &Path, table: &mut LbTable, ids: &BTreeSet<u32>) -> Result<(), PinError> {
        let map = match self.backends.map(globals) {
            // Services without their backends are no state that Cilium leaves: not to be told apart from a half-made set of maps.
            Err(PinError::Absent(pin)) => {
                return Err(self.backends.failed(std::io::Error::other(format!("{pin} is missing beside its services map"))));
            }
            other => other?,
        };
        for &id in ids {
            match map.get(&id, 0) {
                Ok(value) => table.backends.extend([(id, F::decode_backend(&value))]),
                Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(self.backends.failed(io_error(error))),
            }
        }
        Ok(())
    }

    fn read_ranges(&mut self, globals: &Path, table: &mut LbTable) {
        let wanted: BTreeSet<u16> = table.services.values().filter(|row| row.has(flag::SOURCE_RANGE)).map(|row| row.rev_nat).collect();
        let map = match self.ranges.map(globals) {
            Ok(map) => map,
            Err(error) => {
                table.source_ranges_missing = Some(error.to_string());
                return;
            }
        };
        for (at, key) in map.keys().enumerate() {
            match key {
                _ if at >= RANGES => table.source_ranges_missing = Some(format!("more than {RANGES} source ranges")),
                Ok(key) => {
                    let range = range_of::<F>(&key);
                    table.source_ranges.extend(range.filter(|range| wanted.contains(&range.rev_nat)));
                    continue;
                }
                Err(error) => table.source_ranges_missing = Some(error.to_string()),
            }
            break;
        }
    }
}

fn range_of<F: Layouts>(key: &Key<F::RangeData>) -> Option<SourceRange> {
    F::decode_range(key.prefix_len(), &key.data())
}

fn read_rows<F: Layouts>(map: &Services<F>, table: &mut LbTable, keys: &[ServiceKey]) -> Result<(), MapError> {
    let get = |key: &ServiceKey| match F::encode(key).map(|bytes| map.get(&bytes, 0)) {
        Some(Ok(value)) => Ok(Some(Service::decode(&value))),
        None | Some(Err(MapError::KeyNotFound)) => Ok(None),
        Some(Err(error)) => Err(error),
    };
    for key in keys {
        let Some(row) = get(key)? else { continue };
        table.services.insert(*key, row);
        if row.count > SLOTS {
            table.cut_short.insert(*key, SLOTS);
        }
        for slot in 1..=row.count.min(SLOTS) {
            let slot_key = key.with_slot(slot);
            if let Some(slot_row) = get(&slot_key)? {
                table.services.insert(slot_key, slot_row);
            }
        }
    }
    Ok(())
}
