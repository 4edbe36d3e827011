//! One reading: all rules of one moment, and what they do with the wanted connections. Keeps no rule.

use gwready_core::decode::iptables::decode_legacy_table;
use gwready_core::facts::steering::NetfilterFacts;
use gwready_core::netfilter::ruleset::{Ruleset, Table};

use super::error::NetfilterError;
use super::follow::{Wanted, follow_all};
use super::legacy::{LegacyTables, read_legacy};
use super::nft::NftReader;
use super::transparent::{asked_sockets, transparent_listeners};
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
        let (mark, ruleset) = self.read_rules(legacy)?;
        let asked = asked_sockets(&ruleset, wanted);
        let mark = Mark { asks_sockets: asked.proxies, ..mark };
        let transparent = if asked.ports.is_empty() { None } else { transparent_listeners(&mut self.sockets, &asked.ports) };
        Ok(Some((mark, NetfilterFacts { paths: follow_all(&ruleset, wanted, transparent.as_ref()) })))
    }

    fn read_rules(&mut self, legacy: LegacyTables) -> Result<(Mark, Ruleset), NetfilterError> {
        let (generation, mut tables) = self.nft.read()?;
        let fingerprint = legacy.fingerprint;
        for table in legacy.tables {
            let decoded = decode_legacy_table(table.family, &table.name, &table.raw.info, &table.raw.entries);
            let decoded: Table = decoded.map_err(|error| NetfilterError::Layout {
                family: table.family,
                table: table.name.clone(),
                sentence: error.to_string(),
            })?;
            tables.push(decoded);
        }
        Ok((Mark { generation, legacy: fingerprint, asks_sockets: false }, Ruleset { tables }))
    }
}

/// Every rule of the calling thread's network namespace that is on the way in, at once.
///
/// # Errors
/// [`NetfilterError`]: nothing of the rules is handed out then.
pub fn read_ruleset() -> Result<Ruleset, NetfilterError> {
    RuleReader::new().read_rules(read_legacy()?).map(|(_, ruleset)| ruleset)
}
