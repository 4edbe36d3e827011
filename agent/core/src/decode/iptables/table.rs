//! The blob of a table cut into chains: built-in ones between hook entry and policy, user chains between the error targets that
//! name them.

use std::collections::BTreeMap;

use super::entries::{Entries, Entry, EntryError, Hooks, decode_hooks};
use super::entry::decode_entry;
use crate::decode::inet_diag_attributes::u32_at;
use crate::decode::xt::{decode_match, decode_target};
use crate::net::Family;
use crate::netfilter::expr::{Expr, Verdict};
use crate::netfilter::ruleset::{BaseChain, Chain, ChainKind, Hook, Policy, Rule, Table, TableFamily, legacy_priority};
use crate::netfilter::xt::XtEntry;

/// Name of the standard target.
const STANDARD: &str = "";
/// Name of the target that begins a user chain, and ends the table.
const ERROR: &str = "ERROR";
/// `XT_RETURN`.
const RETURN: i32 = -5;
/// The hooks on the way in, with their number and the name of their chain.
const HOOKS: [(Hook, usize, &str); 2] = [(Hook::Prerouting, 0, "PREROUTING"), (Hook::Input, 1, "INPUT")];

/// Decodes one table from `struct ipt_getinfo` and its entries, without the built-in chains that are not on the way in.
///
/// # Errors
/// [`EntryError`] when anything does not add up: no part of the table is given then.
pub fn decode_legacy_table(family: Family, name: &str, info: &[u8], blob: &[u8]) -> Result<Table, EntryError> {
    let hooks = decode_hooks(info)?;
    let entries: Vec<Entry<'_>> = Entries::new(family, blob).collect::<Result<_, _>>()?;
    let cut = Cut::new(family, &entries);
    let mut chains = Vec::new();
    for (hook, number, chain) in HOOKS {
        if let Some(priority) = legacy_priority(name, hook).filter(|_| hooks.valid & 1 << number != 0) {
            chains.push(cut.built_in(name, chain, (hook, priority), at(&hooks, number)?)?);
        }
    }
    for (begin, end, name) in cut.user_chains() {
        chains.push(Chain { name, handle: 0, base: None, rules: cut.rules(begin, end)? });
    }
    let family = match family {
        Family::Ipv4 => TableFamily::Ip,
        Family::Ipv6 => TableFamily::Ip6,
    };
    Ok(Table { family, name: name.to_owned(), dormant: false, legacy: true, chains, sets: Vec::new() })
}

/// Offsets of first entry and policy of a hook.
fn at(hooks: &Hooks, number: usize) -> Result<(usize, usize), EntryError> {
    let pick = |offsets: &[u32; 5]| offsets.get(number).and_then(|offset| usize::try_from(*offset).ok());
    pick(&hooks.entry).zip(pick(&hooks.underflow)).ok_or(EntryError::Info(number))
}

/// The entries with what is needed to cut them.
struct Cut<'a> {
    family: Family,
    entries: &'a [Entry<'a>],
    /// Position of each entry by its offset.
    positions: BTreeMap<usize, usize>,
    /// Names of user chains by the offset of their first entry.
    names: BTreeMap<usize, String>,
}

impl<'a> Cut<'a> {
    fn new(family: Family, entries: &'a [Entry<'a>]) -> Self {
        let positions = entries.iter().enumerate().map(|(position, entry)| (entry.offset, position)).collect();
        let heads = entries.iter().zip(entries.iter().skip(1)).filter(|(head, _)| head.target.name == ERROR);
        let names = heads.map(|(head, first)| (first.offset, error_name(head))).collect();
        Self { family, entries, positions, names }
    }

    fn position(&self, offset: usize) -> Result<usize, EntryError> {
        self.positions.get(&offset).copied().ok_or(EntryError::Jump(offset))
    }

    fn built_in(&self, table: &str, name: &str, on: (Hook, i32), (entry, underflow): (usize, usize)) -> Result<Chain, EntryError> {
        let (begin, end) = (self.position(entry)?, self.position(underflow)?);
        let last = self.entries.get(end).ok_or(EntryError::Jump(underflow))?;
        let policy = match standard(last) {
            Some(-1) => Policy::Drop,
            Some(-2) => Policy::Accept,
            _ => return Err(EntryError::Jump(underflow)),
        };
        let kind = if table == "nat" { ChainKind::Nat } else { ChainKind::Filter };
        let base = BaseChain { hook: on.0, priority: on.1, kind, policy, devices: Vec::new() };
        Ok(Chain { name: name.to_owned(), handle: 0, base: Some(base), rules: self.rules(begin, end)? })
    }

    /// First and closing entry of each user chain, with its name.
    fn user_chains(&self) -> impl Iterator<Item = (usize, usize, String)> {
        let heads: Vec<usize> =
            self.entries.iter().enumerate().filter(|(_, entry)| entry.target.name == ERROR).map(|(position, _)| position).collect();
        let bounds: Vec<(usize, usize)> = heads.iter().zip(heads.iter().skip(1)).map(|(head, next)| (head + 1, next - 1)).collect();
        bounds.into_iter().filter_map(|(begin, end)| {
            let first = self.entries.get(begin)?;
            // A chain has at least its closing return.
            (begin <= end).then(|| (begin, end, self.names.get(&first.offset).cloned().unwrap_or_default()))
        })
    }

    /// The rules from `begin` up to the closing entry `end`.
    fn rules(&self, begin: usize, end: usize) -> Result<Vec<Rule>, EntryError> {
        let entries = self.entries.get(begin..end).unwrap_or_default();
        let following = self.entries.get(begin + 1..).unwrap_or_default();
        entries.iter().zip(following).zip(1..).map(|((entry, next), number)| self.rule(entry, next.offset, number)).collect()
    }

    fn rule(&self, entry: &Entry<'_>, next: usize, number: u64) -> Result<Rule, EntryError> {
        let (matched, goto) = decode_entry(self.family, entry.ip).ok_or(EntryError::Entry(entry.offset))?;
        let mut exprs = Vec::with_capacity(entry.matches.len() + 2);
        if matched != XtEntry::default() {
            exprs.push(Expr::Entry(matched));
        }
        for extension in &entry.matches {
            let revision = u32::from(extension.revision);
            exprs.push(Expr::Match(decode_match(Some(self.family), &extension.name, revision, extension.data)));
        }
        exprs.extend(self.target(entry, next, goto)?);
        Ok(Rule { handle: number, exprs, comment: None })
    }

    /// What the target does; none for a rule without one, which goes on with the next entry.
    fn target(&self, entry: &Entry<'_>, next: usize, goto: bool) -> Result<Option<Expr>, EntryError> {
        let target = &entry.target;
        if target.name != STANDARD {
            let revision = u32::from(target.revision);
            return Ok(Some(Expr::Target(decode_target(Some(self.family), &target.name, revision, target.data))));
        }
        let verdict = match standard(entry).ok_or(EntryError::Extension(entry.offset))? {
            -1 => Verdict::Drop,
            -2 => Verdict::Accept,
            -4 => Verdict::Queue,
            RETURN => Verdict::Return,
            jump if jump >= 0 => {
                let offset = usize::try_from(jump).unwrap_or(usize::MAX);
                if offset == next {
                    return Ok(None);
                }
                let name = self.names.get(&offset).cloned().ok_or(EntryError::Jump(offset))?;
                if goto { Verdict::Goto(name) } else { Verdict::Jump(name) }
            }
            other => Verdict::Other(other),
        };
        Ok(Some(Expr::Immediate(verdict)))
    }
}

/// The number of a standard target.
fn standard(entry: &Entry<'_>) -> Option<i32> {
    (entry.target.name == STANDARD).then(|| u32_at(entry.target.data, 0).map(u32::cast_signed)).flatten()
}

/// The name in an error target.
fn error_name(entry: &Entry<'_>) -> String {
    let name = entry.target.data;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
}
