//! Rules.

use super::expressions::decode_expression;
use super::wire::{NftError, split};
use crate::decode::inet_diag_attributes::Attributes;
use crate::netfilter::ruleset::{Rule, TableFamily};

/// A rule with where it stands. The names are borrowed: a dump has them once per rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedRule {
    /// Name of its chain.
    pub chain: String,
    /// The rule.
    pub rule: Rule,
}

/// An answer to [`super::wire::GET_RULE`]. None: of a family that is not followed.
///
/// # Errors
/// [`NftError`] when it is broken, or has no chain.
pub fn decode_rule(body: &[u8]) -> Result<Option<PlacedRule>, NftError> {
    const LIST_ELEMENT: u16 = 1;
    let (family, attributes) = split(body)?;
    let Some(family) = TableFamily::from_kernel(family) else { return Ok(None) };
    let (mut chain, mut rule) = (None, Rule::default());
    for attribute in attributes {
        let (kind, payload) = attribute?;
        match kind {
            2 => chain = Some(super::wire::text(payload)),
            3 => rule.handle = super::wire::be64(payload).unwrap_or(0),
            4 => {
                for expression in Attributes::new(payload) {
                    let (kind, nest) = expression?;
                    let named = (kind == LIST_ELEMENT).then(|| decode_expression(family, nest)).flatten();
                    rule.exprs.push(named.ok_or(NftError::Missing { what: "expression", attribute: "name" })?);
                }
            }
            7 => rule.comment = comment(payload),
            _ => {}
        }
    }
    let chain = chain.ok_or(NftError::Missing { what: "rule", attribute: "chain" })?;
    Ok(Some(PlacedRule { chain, rule }))
}

/// `NFTNL_UDATA_RULE_COMMENT` of the user data: type, length, value, all in bytes (libnftnl `udata.h`).
fn comment(userdata: &[u8]) -> Option<String> {
    const COMMENT: u8 = 0;
    let mut rest = userdata;
    while let [kind, length, tail @ ..] = rest {
        let value = tail.get(..usize::from(*length))?;
        if *kind == COMMENT {
            return Some(super::wire::text(value));
        }
        rest = tail.get(usize::from(*length)..)?;
    }
    None
}

/// The names of sets that a rule looks something up in.
pub fn sets_of(rule: &Rule) -> impl Iterator<Item = &str> {
    use crate::netfilter::expr::Expr;
    rule.exprs.iter().filter_map(|expr| match expr {
        Expr::Lookup { set, .. } | Expr::ObjrefMap { set, .. } => Some(set.as_str()),
        _ => None,
    })
}
