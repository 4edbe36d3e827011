//! A ruleset prepared for following: chains and sets by name, base chains in the order in which a packet meets them.

use std::collections::HashMap;

use super::sets::SetIndex;
use super::state::Site;
use crate::net::Family;
use crate::netfilter::ruleset::{BaseChain, Chain, ChainKind, Hook, Rule, Ruleset, Table, TableFamily};

/// A ruleset with its indices. Building it costs one walk over all names and set elements; following costs only what is met.
pub struct Follower<'a> {
    ruleset: &'a Ruleset,
    tables: Vec<TableIndex<'a>>,
    bases: Vec<Base<'a>>,
}

struct TableIndex<'a> {
    chains: HashMap<&'a str, usize>,
    sets: HashMap<&'a str, SetIndex<'a>>,
}

/// A base chain in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) site: Site,
    pub(super) family: TableFamily,
    pub(super) chain: &'a BaseChain,
}

impl Base<'_> {
    /// What the order depends on. All nat chains of a hook stand where the kernel has its one nat function, at -100 or 100
    /// (`net/netfilter/nf_nat_proto.c`), in the order of their own priorities.
    pub(super) fn place(&self) -> (Hook, i32, i32) {
        let effective = match (self.chain.kind, self.chain.hook) {
            (ChainKind::Nat, Hook::Prerouting) => -100,
            (ChainKind::Nat, _) => 100,
            _ => self.chain.priority,
        };
        (self.chain.hook, effective, self.chain.priority)
    }

    pub(super) fn sees(&self, family: Family) -> bool {
        match self.family {
            TableFamily::Ip => family == Family::Ipv4,
            TableFamily::Ip6 => family == Family::Ipv6,
            TableFamily::Inet | TableFamily::Netdev => true,
        }
    }
}

impl<'a> Follower<'a> {
    /// Prepares a ruleset.
    #[must_use]
    pub fn new(ruleset: &'a Ruleset) -> Self {
        let index = |table: &'a Table| TableIndex {
            chains: table.chains.iter().enumerate().map(|(at, chain)| (chain.name.as_str(), at)).collect(),
            sets: table.sets.iter().map(|set| (set.name.as_str(), SetIndex::new(set))).collect(),
        };
        let tables = ruleset.tables.iter().map(index).collect();
        let awake = ruleset.tables.iter().enumerate().filter(|(_, table)| !table.dormant);
        let mut bases: Vec<Base<'a>> = awake.flat_map(|(at, table)| bases_of(at, table)).collect();
        bases.sort_by_key(Base::place);
        Self { ruleset, tables, bases }
    }

    /// The ruleset.
    #[must_use]
    pub const fn ruleset(&self) -> &'a Ruleset {
        self.ruleset
    }

    /// Base chains on the way in, in order; those with the same place in the order of the dump.
    pub(super) fn bases(&self) -> &[Base<'a>] {
        &self.bases
    }

    pub(super) fn chain(&self, table: usize, chain: usize) -> Option<&'a Chain> {
        self.ruleset.tables.get(table)?.chains.get(chain)
    }

    pub(super) fn chain_named(&self, table: usize, name: &str) -> Option<usize> {
        self.tables.get(table)?.chains.get(name).copied()
    }

    pub(super) fn set(&self, table: usize, name: &str) -> Option<&SetIndex<'a>> {
        self.tables.get(table)?.sets.get(name)
    }

    /// The number of rules.
    pub(super) fn size(&self) -> usize {
        self.ruleset.tables.iter().flat_map(|table| &table.chains).map(|chain: &Chain| <[Rule]>::len(&chain.rules)).sum()
    }
}

fn bases_of(at: usize, table: &Table) -> impl Iterator<Item = Base<'_>> {
    table.chains.iter().enumerate().filter_map(move |(chain, named)| {
        let base = named.base.as_ref().filter(|base| base.hook != Hook::Other)?;
        Some(Base { site: Site { table: at, chain, rule: None }, family: table.family, chain: base })
    })
}
