//! nf_tables over nfnetlink: the tables that are on the way in and the chains that are asked for, of one generation, complete or an
//! error. Must not decode, and must not decide which chains matter.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use gwready_core::decode::nft::wire::{
    GET_CHAIN, GET_ELEMENTS, GET_GENERATION, GET_RULE, GET_SET, GET_TABLE, decode_generation, encode_request,
};
use gwready_core::decode::nft::{decode_chain, decode_elements, decode_rule, decode_set, decode_table, sets_of};
use gwready_core::netfilter::ruleset::{Hook, Ruleset, Table, TableFamily};
use rustix::io::Errno;

use super::error::NetfilterError;
use super::watch::RuleWatch;
use crate::observe::netlink::{Exchange, NetlinkError, Protocol};

/// Bound of one dump. No pass waits for it, and a busy machine may need long for very many rules.
const DEADLINE: Duration = Duration::from_secs(10);
/// Tries to read all of one generation.
const TRIES: u32 = 3;
/// `NFTA_RULE_TABLE`, `NFTA_SET_TABLE`, `NFTA_SET_ELEM_LIST_TABLE`: all the same number.
const TABLE: u16 = 1;
/// `NFTA_RULE_CHAIN`.
const CHAIN: u16 = 2;
/// `NFTA_SET_ELEM_LIST_SET`.
const SET: u16 = 2;

/// Chains, by the place of their table in the ruleset and their own in the table.
pub(super) type Chains = BTreeSet<(usize, usize)>;

/// Asks nf_tables.
pub(super) struct NftReader {
    exchange: Exchange,
    /// Hears of changes while they are read; opened by the first reading that finds nf_tables.
    watch: Option<RuleWatch>,
}

impl NftReader {
    pub(super) fn new() -> Self {
        Self { exchange: Exchange::new(Protocol::Netfilter, DEADLINE), watch: None }
    }

    /// The generation id; none where the kernel has no nf_tables.
    pub(super) fn generation(&mut self) -> Result<Option<u32>, NetfilterError> {
        let answers = self.exchange.ask(GET_GENERATION, &[encode_request(0, &[])], |_, body| decode_generation(body));
        match answers {
            Ok(answers) => match answers.into_iter().next() {
                Some(Ok(id)) => Ok(Some(id)),
                // nfnetlink knows no such subsystem (nfnetlink_rcv_msg).
                Some(Err(Errno::INVAL | Errno::OPNOTSUPP)) => Ok(None),
                Some(Err(errno)) => Err(failed("generation")(NetlinkError::Refused(errno))),
                None => Err(failed("generation")(NetlinkError::Malformed("no answer".to_owned()))),
            },
            // There is no nfnetlink at all.
            Err(NetlinkError::Open(error)) if Errno::from_io_error(&error) == Some(Errno::PROTONOSUPPORT) => Ok(None),
            Err(error) => Err(failed("generation")(error)),
        }
    }

    /// Adds the tables of one generation to `ruleset`, with the rules of the chains that are asked for and the sets that those look
    /// something up in. `choose` is asked again until it names no chain that is not read yet; it names chains by the place of their
    /// table in the ruleset and their own. Nothing is added by a kernel without nf_tables.
    pub(super) fn read(
        &mut self,
        ruleset: &mut Ruleset,
        mut choose: impl FnMut(&Ruleset) -> Result<Chains, NetfilterError>,
    ) -> Result<Option<u32>, NetfilterError> {
        let first = ruleset.tables.len();
        for _ in 0..TRIES {
            // What is noticed from here on disturbs the reading.
            self.watch.as_mut().map(RuleWatch::drain);
            let Some(before) = self.generation()? else {
                choose(ruleset)?;
                return Ok(None);
            };
            self.watch = self.watch.take().or_else(|| RuleWatch::open().ok());
            ruleset.tables.truncate(first);
            let result = self.read_chosen(ruleset, first, &mut choose);
            let after = self.generation()?;
            // `nf_tables_commit` counts the generation up before it changes the tables, and gives its notice when it is done: what is
            // read in between bears the new number. It may be gone when it is asked for (ENOENT), come twice, or be left out, because
            // dumps count objects that are going (`nf_tables_dump_chains`).
            let went = matches!(
                &result,
                Err(NetfilterError::Nft { source: NetlinkError::Refused(Errno::NOENT) | NetlinkError::Interrupted(_), .. })
            );
            let noticed = self.watch.as_mut().is_some_and(RuleWatch::drain);
            if after == Some(before) && !went && !noticed {
                return result.map(|()| after);
            }
        }
        Err(NetfilterError::Changing(TRIES))
    }

    fn read_chosen(
        &mut self,
        ruleset: &mut Ruleset,
        first: usize,
        choose: &mut impl FnMut(&Ruleset) -> Result<Chains, NetfilterError>,
    ) -> Result<(), NetfilterError> {
        ruleset.tables.extend(self.read_tables()?);
        let (mut read, mut listed, mut filled) = (Chains::new(), BTreeSet::new(), BTreeSet::new());
        loop {
            let wanted: Vec<(usize, usize)> = choose(ruleset)?.into_iter().filter(|at| at.0 >= first && read.insert(*at)).collect();
            if wanted.is_empty() {
                return Ok(());
            }
            for (at, chain) in wanted {
                let Some(table) = ruleset.tables.get_mut(at) else { continue };
                self.read_rules(table, chain)?;
                let used: BTreeSet<String> =
                    table.chains.get(chain).into_iter().flat_map(|chain| &chain.rules).flat_map(sets_of).map(str::to_owned).collect();
                if !used.is_empty() && listed.insert(at) {
                    self.list_sets(table)?;
                }
                for name in used {
                    if filled.insert((at, name.clone())) {
                        self.fill_set(table, &name)?;
                    }
                }
            }
        }
    }

    /// Tables and chains, without rules and sets.
    fn read_tables(&mut self) -> Result<Vec<Table>, NetfilterError> {
        let mut tables =
            self.exchange.dump(GET_TABLE, &encode_request(0, &[]), |_, body| decode_table(body)).map_err(failed("tables"))?.items;
        let chains = self.exchange.dump(GET_CHAIN, &encode_request(0, &[]), |_, body| decode_chain(body)).map_err(failed("chains"))?.items;
        let mut named = HashSet::new();
        if !chains.iter().all(|(family, table, chain)| named.insert((family.as_str(), table.as_str(), chain.name.as_str()))) {
            return Err(failed("chains")(NetlinkError::Interrupted(1)));
        }
        // They come table by table.
        let mut at = 0;
        for (family, name, chain) in chains {
            let is_its = |table: &Table| table.family == family && table.name == name;
            if !tables.get(at).is_some_and(is_its) {
                at = tables.iter().position(is_its).unwrap_or(tables.len());
            }
            if let Some(table) = tables.get_mut(at) {
                table.chains.push(chain);
            }
        }
        tables.retain(is_on_the_way_in);
        Ok(tables)
    }

    /// The rules of one chain.
    fn read_rules(&mut self, table: &mut Table, chain: usize) -> Result<(), NetfilterError> {
        let Some(chain) = table.chains.get_mut(chain) else { return Ok(()) };
        let request = encode_request(kernel_family(table.family), &[(TABLE, &table.name), (CHAIN, &chain.name)]);
        let rules = self.exchange.dump(GET_RULE, &request, |_, body| decode_rule(body)).map_err(failed("rules"))?.items;
        // A kernel that does not filter would send the whole table.
        chain.rules = rules.into_iter().filter(|placed| placed.chain == chain.name).map(|placed| placed.rule).collect();
        Ok(())
    }

    /// The sets of one table, without elements.
    fn list_sets(&mut self, table: &mut Table) -> Result<(), NetfilterError> {
        let request = encode_request(kernel_family(table.family), &[(TABLE, &table.name)]);
        let sets = self.exchange.dump(GET_SET, &request, |_, body| decode_set(body)).map_err(failed("sets"))?.items;
        table.sets = sets.into_iter().map(|(_, _, set)| set).collect();
        Ok(())
    }

    /// The elements of one set. Packets change a dynamic set without a new generation: its elements prove nothing.
    fn fill_set(&mut self, table: &mut Table, name: &str) -> Result<(), NetfilterError> {
        let Some(set) = table.sets.iter_mut().find(|set| set.name == name && !set.flags.dynamic) else { return Ok(()) };
        let request = encode_request(kernel_family(table.family), &[(TABLE, &table.name), (SET, name)]);
        let lists = self.exchange.dump(GET_ELEMENTS, &request, |_, body| decode_elements(body).map(Some));
        set.elements = lists.map_err(failed("elements of a set"))?.items.into_iter().flatten().collect();
        Ok(())
    }
}

/// Has a base chain that a packet meets before its socket. Chains jump within their table only, so other tables do not matter.
fn is_on_the_way_in(table: &Table) -> bool {
    table.chains.iter().filter_map(|chain| chain.base.as_ref()).any(|base| base.hook != Hook::Other)
}

/// `NFPROTO_*`.
const fn kernel_family(family: TableFamily) -> u8 {
    match family {
        TableFamily::Inet => 1,
        TableFamily::Ip => 2,
        TableFamily::Netdev => 5,
        TableFamily::Ip6 => 10,
    }
}

fn failed(what: &'static str) -> impl FnOnce(NetlinkError) -> NetfilterError {
    move |source| NetfilterError::Nft { what, source }
}
