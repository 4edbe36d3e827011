//! Look-ups in sets and maps: which elements a key may hit, where not all of the key is known.

use std::collections::HashMap;

use super::bits::{Bounded, Byte, Doubt, Match, doubt_of, equals, known_bytes, value_of, within};
use crate::netfilter::set::{Element, Set};

/// A set in a form that answers quickly.
pub(super) struct SetIndex<'a> {
    set: &'a Set,
    kind: Kind<'a>,
    catch_all: Option<&'a Element>,
}

enum Kind<'a> {
    /// One key, one element.
    Exact(HashMap<&'a [u8], &'a Element>),
    /// Ascending and disjoint.
    Intervals(Vec<Interval<'a>>),
    /// Ranges in each field of a concatenation.
    Fields(Vec<&'a Element>),
}

/// First key, first key after it (none: no end), element.
type Interval<'a> = (&'a [u8], Option<&'a [u8]>, &'a Element);

/// What a key may hit.
#[derive(Default)]
pub(super) struct Hits<'a> {
    /// Elements, with whether each is hit for sure.
    pub(super) elements: Vec<(&'a Element, bool)>,
    /// Nothing may be hit.
    pub(super) nothing: bool,
    /// Why it is not known which.
    pub(super) doubt: Option<Doubt>,
}

impl Hits<'_> {
    /// The answer of a look-up in a set.
    pub(super) fn found(&self) -> Match {
        match (self.elements.is_empty(), self.nothing) {
            (true, _) if self.doubt.is_none() => Match::No,
            (false, false) => Match::Yes,
            _ => Match::Maybe(self.doubt.unwrap_or(Doubt::Undecided)),
        }
    }
}

impl<'a> SetIndex<'a> {
    pub(super) fn new(set: &'a Set) -> Self {
        let plain = || set.elements.iter().filter(|element| !element.catch_all);
        // An interval set of several fields is a pipapo set, in which ends are part of their element.
        let of_fields = set.flags.concat || set.field_lens.len() > 1 || plain().any(|element| element.key_end.is_some());
        let kind = if set.flags.interval && of_fields {
            Kind::Fields(plain().collect())
        } else if set.flags.interval {
            Kind::Intervals(intervals(plain()))
        } else {
            Kind::Exact(plain().map(|element| (element.key.as_slice(), element)).collect())
        };
        Self { set, kind, catch_all: set.elements.iter().find(|element| element.catch_all) }
    }

    pub(super) fn key_len(&self) -> usize {
        usize::try_from(self.set.key_len).unwrap_or(usize::MAX)
    }

    /// What a key hits. A number that is bounded is asked for each of its values.
    pub(super) fn hits(&self, key: &[Byte], bounded: Option<Bounded>) -> Hits<'a> {
        const VALUES: u32 = 1024;
        if self.set.flags.dynamic || key.len() != self.key_len() {
            // Packets have filled it since, or it is no set for this key.
            let doubt = doubt_of(key).unwrap_or(Doubt::Undecided);
            let elements = self.set.elements.iter().filter(|element| !element.interval_end).map(|element| (element, false));
            return Hits { elements: elements.collect(), nothing: true, doubt: Some(doubt) };
        }
        let Some(bounded) = bounded.filter(|bounded| key.len() == 4 && bounded.count <= VALUES) else { return self.of_key(key) };
        let mut all = Hits { doubt: (bounded.count > 1).then_some(bounded.doubt), ..Hits::default() };
        for value in (0..bounded.count).map(|step| bounded.first.wrapping_add(step)) {
            let octets = if bounded.swapped { value.swap_bytes() } else { value }.to_ne_bytes();
            let one = self.of_key(&known_bytes(&octets));
            all.nothing |= one.nothing;
            all.doubt = all.doubt.max(one.doubt);
            for (element, _) in one.elements {
                if !all.elements.iter().any(|(known, _)| known.data == element.data) {
                    all.elements.push((element, bounded.count == 1));
                }
            }
        }
        all
    }

    fn of_key(&self, key: &[Byte]) -> Hits<'a> {
        let mut hits = match (&self.kind, value_of(key)) {
            (Kind::Exact(elements), Some(value)) => certain(elements.get(value.as_slice()).copied()),
            (Kind::Intervals(intervals), Some(value)) => {
                let after = intervals.partition_point(|(first, _, _)| *first <= value.as_slice());
                let last = after.checked_sub(1).and_then(|at| intervals.get(at));
                certain(last.filter(|(_, end, _)| end.is_none_or(|end| value.as_slice() < end)).map(|(_, _, element)| *element))
            }
            (Kind::Exact(elements), None) => possible(key, elements.iter().map(|(wanted, element)| (equals(key, wanted), *element))),
            (Kind::Intervals(intervals), None) => {
                possible(key, intervals.iter().map(|(first, end, element)| (in_interval(key, first, *end), *element)))
            }
            (Kind::Fields(elements), _) => possible(key, elements.iter().map(|element| (self.in_fields(key, element), *element))),
        };
        if hits.nothing
            && let Some(element) = self.catch_all
        {
            hits.nothing = false;
            hits.elements.push((element, hits.elements.is_empty() && hits.doubt.is_none()));
        }
        weaken(&mut hits);
        hits
    }

    fn in_fields(&self, key: &[Byte], element: &Element) -> Match {
        let last = element.key_end.as_ref().unwrap_or(&element.key);
        if self.set.field_lens.is_empty() {
            // The kernel did not say how the key is divided: only the whole can be compared.
            let equal = equals(key, &element.key);
            return if element.key == *last || equal == Match::Yes { equal } else { Match::UNDECIDED };
        }
        let mut at = 0_usize;
        let mut answer = Match::Yes;
        for len in self.set.field_lens.iter().map(|len| usize::try_from(*len).unwrap_or(usize::MAX)) {
            let field = at..at.saturating_add(len);
            let parts = (key.get(field.clone()), element.key.get(field.clone()), last.get(field));
            let (Some(bytes), Some(first), Some(last)) = parts else { return Match::UNDECIDED };
            answer = answer.and(within(bytes, first, last));
            at = at.saturating_add(len.checked_next_multiple_of(4).unwrap_or(usize::MAX));
        }
        answer
    }
}

/// Pairs the ends of an interval set with their beginnings, in ascending order (`net/netfilter/nft_set_rbtree.c`).
fn intervals<'a>(elements: impl Iterator<Item = &'a Element>) -> Vec<Interval<'a>> {
    let mut sorted: Vec<&Element> = elements.collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key).then(b.interval_end.cmp(&a.interval_end)));
    let mut result: Vec<Interval<'a>> = Vec::new();
    for element in sorted {
        if let Some((_, end @ None, _)) = result.last_mut() {
            *end = Some(&element.key);
        }
        if !element.interval_end {
            result.push((&element.key, None, element));
        }
    }
    result
}

fn in_interval(key: &[Byte], first: &[u8], end: Option<&[u8]>) -> Match {
    use crate::netfilter::expr::CmpOp;
    let below = end.map_or(Match::Yes, |end| super::bits::compare(key, CmpOp::Lt, end));
    super::bits::compare(key, CmpOp::Gte, first).and(below)
}

fn certain(element: Option<&Element>) -> Hits<'_> {
    Hits { nothing: element.is_none(), elements: element.map(|element| (element, true)).into_iter().collect(), doubt: None }
}

/// Every element that may be hit; one that is hit for sure is the only one.
fn possible<'a>(key: &[Byte], elements: impl Iterator<Item = (Match, &'a Element)>) -> Hits<'a> {
    let mut hits = Hits { nothing: true, ..Hits::default() };
    for (answer, element) in elements {
        match answer {
            Match::Yes => return certain(Some(element)),
            Match::No => {}
            Match::Maybe(doubt) => {
                hits.doubt = hits.doubt.max(Some(doubt));
                hits.elements.push((element, false));
            }
        }
    }
    if hits.elements.is_empty() {
        hits.doubt = None;
    } else {
        hits.doubt = hits.doubt.max(doubt_of(key));
    }
    hits
}

/// An element that expires or counts is hit only as long as it lasts. One that only some clients hit takes only some either way.
fn weaken(hits: &mut Hits<'_>) {
    for (element, sure) in hits.elements.iter_mut().filter(|(_, sure)| *sure) {
        let doubt = if element.expires { Some(Doubt::Undecided) } else { element.conditional.then_some(Doubt::Client) };
        if doubt.is_some() {
            *sure = false;
            hits.nothing = true;
            hits.doubt = hits.doubt.max(doubt);
        }
    }
}
