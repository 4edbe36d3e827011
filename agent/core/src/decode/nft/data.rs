//! `NFTA_DATA_*`: values and verdicts.

use super::wire::{be32, find, text};
use crate::netfilter::expr::{Data, Verdict};

const VALUE: u16 = 1;
const VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;

/// The bytes of a nest that holds a value.
pub(super) fn value(nest: &[u8]) -> Option<Vec<u8>> {
    find(nest, VALUE).map(<[u8]>::to_vec)
}

/// A value or a verdict.
pub(super) fn data(nest: &[u8]) -> Option<Data> {
    match value(nest) {
        Some(bytes) => Some(Data::Value(bytes)),
        None => verdict(find(nest, VERDICT)?).map(Data::Verdict),
    }
}

fn verdict(nest: &[u8]) -> Option<Verdict> {
    /// `NF_VERDICT_MASK`, where the kernel keeps the number of a queue above.
    const MASK: i32 = 0xff;
    let code = be32(find(nest, VERDICT_CODE)?)?.cast_signed();
    let chain = || find(nest, VERDICT_CHAIN).map(text);
    Some(match code {
        0 => Verdict::Drop,
        1 => Verdict::Accept,
        -1 | -2 => Verdict::Continue,
        -3 => Verdict::Jump(chain()?),
        -4 => Verdict::Goto(chain()?),
        -5 => Verdict::Return,
        other if other > 0 && other & MASK == 3 => Verdict::Queue,
        other => Verdict::Other(other),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{nest, number};
    use super::*;

    fn of(code: i32, chain: Option<&str>) -> Option<Data> {
        let mut inner = vec![(VERDICT_CODE, number(code.cast_unsigned()))];
        inner.extend(chain.map(|name| (VERDICT_CHAIN, format!("{name}\0").into_bytes())));
        data(&nest(&[(VERDICT, nest(&inner))]))
    }

    #[test]
    fn verdicts_are_told_by_their_code() {
        let cases = [
            (0, None, Verdict::Drop),
            (1, None, Verdict::Accept),
            (-1, None, Verdict::Continue),
            (-2, None, Verdict::Continue),
            (-3, Some("a"), Verdict::Jump("a".to_owned())),
            (-4, Some("b"), Verdict::Goto("b".to_owned())),
            (-5, None, Verdict::Return),
            (3, None, Verdict::Queue),
            (3 | 7 << 16, None, Verdict::Queue),
            (2, None, Verdict::Other(2)),
            (-77, None, Verdict::Other(-77)),
        ];
        for (code, chain, expected) in cases {
            assert_eq!(of(code, chain), Some(Data::Verdict(expected)));
        }
        assert_eq!(of(-3, None), None, "a jump leads somewhere");
    }

    #[test]
    fn a_value_is_its_bytes() {
        assert_eq!(data(&nest(&[(VALUE, vec![0, 80])])), Some(Data::Value(vec![0, 80])));
        assert_eq!(data(&[]), None);
    }
}
