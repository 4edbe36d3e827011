//! One reading: the rules of one moment, and what they do with the wanted connections. Keeps no rule.

use gwready_core::decode::iptables::decode_legacy_table;
use gwready_core::facts::steering::NetfilterFacts;
use gwready_core::netfilter::ruleset::{Ruleset, Table};

use super::error::NetfilterError;
use super::follow::{Wanted, follow_all};
use super::legacy::{LegacyTable, LegacyTables, read_legacy};
use super::nft::NftReader;
use super::transparent::{Asked, asked_sockets, transparent_listeners};
use super::watch::RuleWatch;
use crate::observe::sockets::SocketReader;

/// By what a set of rules is told from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// nf_tables' generation id; none: the kernel has no nf_tables.
    generation: Option<u32>,
    /// Of the legacy tables without their counters.
    legacy: u64,
    /// What the rules do depends on who listens: they are never simply those of the last reading.
    asks_sockets: bool,
}

/// Reads the rules of the network namespace of the thread that uses it. Needs `CAP_NET_ADMIN` there.
pub(super) struct RuleReader {
    nft: NftReader,
    sockets: SocketReader,
}

impl RuleReader {
    pub(super) fn new() -> Self {
        Self { nft: NftReader::new(), sockets: SocketReader::new() }
    }

    /// The notice of changes, if the kernel has one to give; asked again at every look otherwise.
    pub(super) fn watch(&mut self) -> Option<RuleWatch> {
        // Joining the group of a part that does not exist would have it loaded.
        self.nft.generation().ok().flatten().and_then(|_| RuleWatch::open().ok())
    }

    /// Whether the rules are still those of `known` (then none), or what they do with each wanted connection now.
    pub(super) fn read(&mut self, known: Option<Mark>, wanted: &Wanted) -> Result<Option<(Mark, NetfilterFacts)>, NetfilterError> {
        let legacy = read_legacy()?;
        if let Some(known) = known
            && !known.asks_sockets
            // A kernel without nf_tables would try to load it at every question.
            && (known.generation.is_none() || known.generation == self.nft.generation()?)
            && known.legacy == legacy.fingerprint
        {
            return Ok(None);
        }
        let legacy_mark = legacy.fingerprint;
        let mut ruleset = decode_legacy(legacy)?;
        let (mut asked, mut transparent, mut paths) = (Asked::default(), None, Vec::new());
        let sockets = &mut self.sockets;
        // Thousands of chains belong to others: only those that a wanted connection meets are read.
        let generation = self.nft.read(&mut ruleset, |ruleset| {
            let now = asked_sockets(ruleset, wanted);
            if now != asked {
                transparent = transparent_listeners(sockets, &now.ports);
                asked = now;
            }
            let (found, chains) = follow_all(ruleset, wanted, transparent.as_ref());
            paths = found;
            Ok(chains)
        })?;
        let mark = Mark { generation, legacy: legacy_mark, asks_sockets: asked.proxies };
        Ok(Some((mark, NetfilterFacts { paths })))
    }
}

/// The legacy tables as the model has them.
fn decode_legacy(legacy: LegacyTables) -> Result<Ruleset, NetfilterError> {
    let decode = |table: LegacyTable| -> Result<Table, NetfilterError> {
        let decoded = decode_legacy_table(table.family, &table.name, &table.raw.info, &table.raw.entries);
        decoded.map_err(|error| NetfilterError::Layout { family: table.family, table: table.name, sentence: error.to_string() })
    };
    Ok(Ruleset { tables: legacy.tables.into_iter().map(decode).collect::<Result<_, _>>()? })
}

/// Every rule of the calling thread's network namespace that is on the way in, at once: for who wants to look at them.
///
/// # Errors
/// [`NetfilterError`]: nothing of the rules is handed out then.
pub fn read_ruleset() -> Result<Ruleset, NetfilterError> {
    let mut ruleset = decode_legacy(read_legacy()?)?;
    let every = |ruleset: &Ruleset| {
        let tables = ruleset.tables.iter().enumerate();
        Ok(tables.flat_map(|(at, table)| (0..table.chains.len()).map(move |chain| (at, chain))).collect())
    };
    NftReader::new().read(&mut ruleset, every)?;
    Ok(ruleset)
}

/// What the rules of the calling thread's network namespace do with each wanted connection, once, as the agent's thread reads them.
///
/// # Errors
/// [`NetfilterError`]: nothing is known of any connection then.
pub fn read_paths(wanted: &Wanted) -> Result<NetfilterFacts, NetfilterError> {
    // Without rules that are known there is always a reading.
    RuleReader::new().read(None, wanted).map(|reading| reading.map(|(_, facts)| facts).unwrap_or_default())
}
