//! Tables, chains, sets and their elements.

use super::attributes::Nest;
use super::data;
use super::expressions::is_conditional;
use super::wire::{NftError, be32, split};
use crate::decode::inet_diag_attributes::Attributes;
use crate::netfilter::ruleset::{BaseChain, Chain, ChainKind, Hook, Policy, Table, TableFamily};
use crate::netfilter::set::{Element, Set, SetFlags};

/// The attributes of a message, checked to be whole.
fn whole(body: &[u8]) -> Result<(u8, Nest<'_>), NftError> {
    let (family, attributes) = split(body)?;
    for attribute in attributes {
        attribute?;
    }
    Ok((family, Nest(body.get(4..).unwrap_or_default())))
}

/// An answer to [`super::wire::GET_TABLE`], without chains and sets. None: of a family that is not followed.
///
/// # Errors
/// [`NftError`] when it is broken or has no name.
pub fn decode_table(body: &[u8]) -> Result<Option<Table>, NftError> {
    const NAME: u16 = 1;
    const FLAGS: u16 = 2;
    const DORMANT: u32 = 1;
    let (family, nest) = whole(body)?;
    let Some(family) = TableFamily::from_kernel(family) else { return Ok(None) };
    let name = nest.text(NAME).ok_or(NftError::Missing { what: "table", attribute: "name" })?;
    let dormant = nest.number_or_0(FLAGS) & DORMANT != 0;
    Ok(Some(Table { family, name, dormant, legacy: false, chains: Vec::new(), sets: Vec::new() }))
}

/// An answer to [`super::wire::GET_CHAIN`], without rules: its table's family and name, and the chain. None: of a family that is not
/// followed.
///
/// # Errors
/// [`NftError`] when it is broken or has no name.
pub fn decode_chain(body: &[u8]) -> Result<Option<(TableFamily, String, Chain)>, NftError> {
    let (family, nest) = whole(body)?;
    let Some(family) = TableFamily::from_kernel(family) else { return Ok(None) };
    let missing = |attribute| NftError::Missing { what: "chain", attribute };
    let table = nest.text(1).ok_or(missing("table"))?;
    let name = nest.text(3).ok_or(missing("name"))?;
    let base = match nest.bytes(4) {
        Some(hook) => Some(base_chain(family, nest, Nest(hook)).ok_or(missing("number and priority of its hook"))?),
        None => None,
    };
    Ok(Some((family, table, Chain { name, handle: nest.long(2).unwrap_or(0), base, rules: Vec::new() })))
}

fn base_chain(family: TableFamily, chain: Nest<'_>, hook: Nest<'_>) -> Option<BaseChain> {
    const DROP: u32 = 0;
    let kind = match chain.text(7).as_deref() {
        Some("nat") => ChainKind::Nat,
        Some("route") => ChainKind::Route,
        _ => ChainKind::Filter,
    };
    let listed = Attributes::new(hook.bytes(4).unwrap_or_default()).map_while(Result::ok).map(|(_, name)| super::wire::text(name));
    let devices: Vec<String> = match hook.text(3) {
        Some(one) => vec![one],
        None => listed.collect(),
    };
    Some(BaseChain {
        hook: Hook::from_kernel(family, hook.number(1)?),
        priority: hook.number(2)?.cast_signed(),
        kind,
        policy: if chain.number(5) == Some(DROP) { Policy::Drop } else { Policy::Accept },
        devices,
    })
}

/// An answer to [`super::wire::GET_SET`], without elements: its table's family and name, and the set. None: of a family that is not
/// followed.
///
/// # Errors
/// [`NftError`] when it is broken or has no name.
pub fn decode_set(body: &[u8]) -> Result<Option<(TableFamily, String, Set)>, NftError> {
    let (family, nest) = whole(body)?;
    let Some(family) = TableFamily::from_kernel(family) else { return Ok(None) };
    let missing = |attribute| NftError::Missing { what: "set", attribute };
    let table = nest.text(1).ok_or(missing("table"))?;
    let mut flags = SetFlags::from_kernel(nest.number_or_0(3));
    flags.expressions |= nest.has(17) || nest.has(18);
    let set = Set {
        name: nest.text(2).ok_or(missing("name"))?,
        flags,
        key_type: nest.number_or_0(4),
        key_len: nest.number(5).ok_or(missing("length of its key"))?,
        field_lens: field_lens(nest),
        elements: Vec::new(),
    };
    Ok(Some((family, table, set)))
}

/// `NFTA_SET_DESC` / `NFTA_SET_DESC_CONCAT` / list of `NFTA_SET_FIELD_LEN`.
fn field_lens(nest: Nest<'_>) -> Vec<u32> {
    let concat = nest.bytes(9).and_then(|desc| Nest(desc).bytes(2)).unwrap_or_default();
    Attributes::new(concat).map_while(Result::ok).filter_map(|(_, field)| Nest(field).number(1)).collect()
}

/// An answer to [`super::wire::GET_ELEMENTS`]: some elements of the set.
///
/// # Errors
/// [`NftError`] when it is broken, or an element has no key.
pub fn decode_elements(body: &[u8]) -> Result<Vec<Element>, NftError> {
    const LIST: u16 = 3;
    let (_, nest) = whole(body)?;
    Attributes::new(nest.bytes(LIST).unwrap_or_default()).map(|one| element(Nest(one?.1))).collect()
}

fn element(nest: Nest<'_>) -> Result<Element, NftError> {
    const INTERVAL_END: u32 = 1;
    const CATCH_ALL: u32 = 2;
    let missing = |attribute| NftError::Missing { what: "element of a set", attribute };
    let flags = nest.bytes(3).and_then(be32).unwrap_or(0);
    let catch_all = flags & CATCH_ALL != 0;
    let key = match nest.value(1) {
        Some(key) => key,
        None if catch_all => Vec::new(),
        None => return Err(missing("key")),
    };
    let listed = Attributes::new(nest.bytes(11).unwrap_or_default()).map_while(Result::ok).map(|(_, one)| one);
    let data = match nest.bytes(2) {
        Some(payload) => Some(data::data(payload).ok_or(missing("its data"))?),
        None => None,
    };
    Ok(Element {
        key,
        key_end: nest.value(10),
        interval_end: flags & INTERVAL_END != 0,
        catch_all,
        expires: nest.has(4) || nest.has(5),
        conditional: nest.bytes(7).into_iter().chain(listed).any(is_conditional),
        data,
    })
}
