//! nf_tables over nfnetlink: every table that is on the way in, of one generation, complete or an error. Must not decode.

use std::collections::BTreeSet;
use std::time::Duration;

use gwready_core::decode::nft::wire::{
    GET_CHAIN, GET_ELEMENTS, GET_GENERATION, GET_RULE, GET_SET, GET_TABLE, decode_generation, encode_request,
};
use gwready_core::decode::nft::{decode_chain, decode_elements, decode_rule, decode_set, decode_table, sets_of};
use gwready_core::netfilter::ruleset::{Hook, Table, TableFamily};
use rustix::io::Errno;

use super::error::NetfilterError;
use crate::observe::netlink::{Exchange, NetlinkError, Protocol};

/// Bound of one dump. 20,000 rules take some 20 ms.
const DEADLINE: Duration = Duration::from_secs(2);
/// Tries to read all of one generation.
const TRIES: u32 = 3;
/// `NFTA_RULE_TABLE`, `NFTA_SET_TABLE`, `NFTA_SET_ELEM_LIST_TABLE`: all the same number.
const TABLE: u16 = 1;
/// `NFTA_SET_ELEM_LIST_SET`.
const SET: u16 = 2;

/// Asks nf_tables.
pub(super) struct NftReader {
    exchange: Exchange,
}

impl NftReader {
    pub(super) fn new() -> Self {
        Self { exchange: Exchange::new(Protocol::Netfilter, DEADLINE) }
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

    /// Generation and tables; nothing of a kernel without nf_tables.
    pub(super) fn read(&mut self) -> Result<(Option<u32>, Vec<Table>), NetfilterError> {
        for _ in 0..TRIES {
            let Some(before) = self.generation()? else { return Ok((None, Vec::new())) };
            let tables = self.read_tables();
            let after = self.generation()?;
            // A table that went while it was read gives ENOENT, and another generation.
            if after == Some(before) {
                return Ok((after, tables?));
            }
        }
        Err(NetfilterError::Changing(TRIES))
    }

    fn read_tables(&mut self) -> Result<Vec<Table>, NetfilterError> {
        let mut tables =
            self.exchange.dump(GET_TABLE, &encode_request(0, &[]), |_, body| decode_table(body)).map_err(failed("tables"))?.items;
        let chains = self.exchange.dump(GET_CHAIN, &encode_request(0, &[]), |_, body| decode_chain(body)).map_err(failed("chains"))?.items;
        for (family, name, chain) in chains {
            if let Some(table) = tables.iter_mut().find(|table| table.family == family && table.name == name) {
                table.chains.push(chain);
            }
        }
        tables.retain(is_on_the_way_in);
        for table in &mut tables {
            self.read_rules(table)?;
            self.read_sets(table)?;
        }
        Ok(tables)
    }

    /// The rules of one table, into its chains.
    fn read_rules(&mut self, table: &mut Table) -> Result<(), NetfilterError> {
        let request = encode_request(kernel_family(table.family), &[(TABLE, &table.name)]);
        let rules = self.exchange.dump(GET_RULE, &request, |_, body| decode_rule(body)).map_err(failed("rules"))?.items;
        // They come chain by chain.
        let mut at = 0;
        for placed in rules {
            if table.chains.get(at).is_none_or(|chain| chain.name != placed.chain) {
                let found = table.chains.iter().position(|chain| chain.name == placed.chain);
                let unknown = || NetlinkError::Malformed(format!("a rule of the chain {}, which is not listed", placed.chain));
                at = found.ok_or_else(unknown).map_err(failed("rules"))?;
            }
            if let Some(chain) = table.chains.get_mut(at) {
                chain.rules.push(placed.rule);
            }
        }
        Ok(())
    }

    /// The sets of one table, with the elements of those that a rule looks something up in.
    fn read_sets(&mut self, table: &mut Table) -> Result<(), NetfilterError> {
        let family = kernel_family(table.family);
        let request = encode_request(family, &[(TABLE, &table.name)]);
        let sets = self.exchange.dump(GET_SET, &request, |_, body| decode_set(body)).map_err(failed("sets"))?.items;
        let used: BTreeSet<&str> = table.chains.iter().flat_map(|chain| &chain.rules).flat_map(sets_of).collect();
        for (_, _, mut set) in sets {
            // Packets change a dynamic set without a new generation: its elements prove nothing.
            if used.contains(set.name.as_str()) && !set.flags.dynamic {
                let request = encode_request(family, &[(TABLE, &table.name), (SET, &set.name)]);
                let lists = self.exchange.dump(GET_ELEMENTS, &request, |_, body| decode_elements(body).map(Some));
                set.elements = lists.map_err(failed("elements of a set"))?.items.into_iter().flatten().collect();
            }
            table.sets.push(set);
        }
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
