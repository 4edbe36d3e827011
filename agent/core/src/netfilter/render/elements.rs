//! The elements of an anonymous set, written out.

use super::value::{Kind, prefix_len};
use super::words::verdict_words;
use crate::netfilter::expr::Data;
use crate::netfilter::set::{Element, Set};

/// Elements that are shown.
const SHOWN: usize = 6;

/// The elements in braces; the key has fields of these kinds and lengths.
pub(super) fn elements(set: &Set, fields: &[(Kind, usize)]) -> String {
    let mut sorted: Vec<&Element> = set.elements.iter().collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key).then(b.interval_end.cmp(&a.interval_end)));
    let begins: Vec<usize> = (0..sorted.len()).filter(|at| sorted.get(*at).is_some_and(|element| !element.interval_end)).collect();
    let mut shown: Vec<String> = begins
        .iter()
        .take(SHOWN)
        .filter_map(|at| {
            let element = sorted.get(*at)?;
            let end = sorted.get(at + 1).filter(|_| set.flags.interval).map(|next| before(&next.key));
            let last = element.key_end.clone().or(end).unwrap_or_else(|| element.key.clone());
            let data = match &element.data {
                Some(Data::Verdict(verdict)) => format!(" : {}", verdict_words(verdict)),
                Some(Data::Value(bytes)) => format!(" : {}", value_of_map(bytes)),
                None => String::new(),
            };
            let key = if element.catch_all { "*".to_owned() } else { key_text(&element.key, &last, fields) };
            Some(format!("{key}{data}"))
        })
        .collect();
    if begins.len() > SHOWN {
        shown.push("..".to_owned());
    }
    format!("{{ {} }}", shown.join(", "))
}

/// Data of a map, whose type the kernel does not know: an address or a port by its length.
fn value_of_map(bytes: &[u8]) -> String {
    match bytes.len() {
        2 => Kind::Number.show(bytes),
        4 => Kind::Address(4).show(bytes),
        16 => Kind::Address(16).show(bytes),
        _ => Kind::Bytes.show(bytes),
    }
}

/// The last key ahead of this one.
fn before(key: &[u8]) -> Vec<u8> {
    let mut last = key.to_vec();
    for byte in last.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != 0xff {
            break;
        }
    }
    last
}

fn key_text(first: &[u8], last: &[u8], fields: &[(Kind, usize)]) -> String {
    let mut at = 0;
    let mut parts = Vec::new();
    for (kind, len) in fields {
        let take = |bytes: &[u8]| bytes.get(at..(at + len).min(bytes.len())).unwrap_or_default().to_vec();
        parts.push(field_text(&take(first), &take(last), *kind));
        at += (*len).max(1).next_multiple_of(4);
    }
    parts.join(" . ")
}

fn field_text(first: &[u8], last: &[u8], kind: Kind) -> String {
    if first == last {
        return kind.show(first);
    }
    let differ: Vec<u8> = first.iter().zip(last).map(|(first, last)| !(first ^ last)).collect();
    let aligned = first.iter().zip(&differ).all(|(byte, mask)| byte & !mask == 0);
    match (kind, prefix_len(&differ)) {
        (Kind::Address(_), Some(length)) if aligned => format!("{}/{length}", kind.show(first)),
        _ => format!("{}-{}", kind.show(first), kind.show(last)),
    }
}
