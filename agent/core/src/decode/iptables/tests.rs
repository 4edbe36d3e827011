//! Tables as the kernel hands them out, built here entry by entry.

use proptest::prelude::*;

use super::*;
use crate::net::Family;
use crate::netfilter::expr::{Expr, Verdict};
use crate::netfilter::ruleset::{Chain, ChainKind, Hook, Policy, TableFamily};
use crate::netfilter::xt::{Interface, Masked, XtEntry, XtMatch, XtTarget};

/// An extension: name, revision, data.
type Part<'a> = (&'a str, u8, &'a [u8]);

fn extension((name, revision, data): Part<'_>) -> Vec<u8> {
    let length = 32 + data.len().next_multiple_of(8);
    let mut out = vec![0; length];
    out[..2].copy_from_slice(&u16::try_from(length).unwrap().to_ne_bytes());
    out[2..2 + name.len()].copy_from_slice(name.as_bytes());
    out[31] = revision;
    out[32..32 + data.len()].copy_from_slice(data);
    out
}

/// A table that grows.
struct Blob {
    family: Family,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(family: Family) -> Self {
        Self { family, bytes: Vec::new() }
    }

    /// Appends an entry and returns its offset.
    fn push(&mut self, ip: &[(usize, &[u8])], matches: &[Part<'_>], target: Part<'_>) -> u32 {
        let (offsets, counters) = if self.family == Family::Ipv4 { (88, 96) } else { (140, 152) };
        let offset = self.bytes.len();
        let mut entry = vec![0; counters + 16];
        for (at, bytes) in ip {
            entry[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        entry[counters..counters + 16].fill(7);
        entry.extend(matches.iter().flat_map(|part| extension(*part)));
        let target_at = u16::try_from(entry.len()).unwrap();
        entry.extend(extension(target));
        let next = u16::try_from(entry.len()).unwrap();
        entry[offsets..offsets + 2].copy_from_slice(&target_at.to_ne_bytes());
        entry[offsets + 2..offsets + 4].copy_from_slice(&next.to_ne_bytes());
        self.bytes.extend(entry);
        u32::try_from(offset).unwrap()
    }

    /// An entry with a standard target.
    fn standard(&mut self, ip: &[(usize, &[u8])], verdict: i32) -> u32 {
        self.push(ip, &[], ("", 0, &verdict.to_ne_bytes()))
    }

    fn named(&mut self, name: &str) -> u32 {
        let mut data = vec![0; 30];
        data[..name.len()].copy_from_slice(name.as_bytes());
        self.push(&[], &[], ("ERROR", 0, &data))
    }

    fn next(&self) -> i32 {
        i32::try_from(self.bytes.len()).unwrap()
    }
}

/// `struct ipt_getinfo` with hooks: number, first entry, policy.
fn info(hooks: &[(usize, u32, u32)]) -> Vec<u8> {
    let mut out = vec![0; 84];
    let valid: u32 = hooks.iter().map(|(number, ..)| 1 << number).sum();
    out[32..36].copy_from_slice(&valid.to_ne_bytes());
    for (number, entry, policy) in hooks {
        out[36 + 4 * number..40 + 4 * number].copy_from_slice(&entry.to_ne_bytes());
        out[56 + 4 * number..60 + 4 * number].copy_from_slice(&policy.to_ne_bytes());
    }
    out
}

/// A filter table: INPUT with policy drop and a jump and a goto to a chain of one rule, FORWARD, an empty chain.
fn filter(family: Family) -> (Vec<u8>, Vec<u8>) {
    // The offset of the chain is known once the entries before it are there; it changes no length.
    let (_, _, chain) = filter_with(family, 0);
    let (info, blob, _) = filter_with(family, chain);
    (info, blob)
}

fn filter_with(family: Family, chain: i32) -> (Vec<u8>, Vec<u8>, i32) {
    let goto: (usize, &[u8]) = if family == Family::Ipv4 { (82, &[2]) } else { (131, &[4]) };
    let mut blob = Blob::new(family);
    let first = blob.standard(&[], chain);
    blob.standard(&[goto], chain);
    let policy = blob.standard(&[], -1);
    let forward = blob.standard(&[], -2);
    blob.named("mine");
    let begin = blob.next();
    blob.push(&[], &[("comment", 0, b"why")], ("REJECT", 0, &3_u32.to_ne_bytes()));
    blob.standard(&[], -5);
    blob.named("empty");
    blob.standard(&[], -5);
    blob.named("ERROR");
    (info(&[(1, first, policy), (2, forward, forward)]), blob.bytes, begin)
}

#[test]
fn a_table_is_cut_into_its_chains_in_both_families() {
    for (family, of) in [(Family::Ipv4, TableFamily::Ip), (Family::Ipv6, TableFamily::Ip6)] {
        let (info, blob) = filter(family);
        let table = decode_legacy_table(family, "filter", &info, &blob).unwrap();
        assert_eq!((table.family, table.name.as_str(), table.legacy, table.chains.len()), (of, "filter", true, 3));
        let input = &table.chains[0];
        let base = input.base.as_ref().unwrap();
        assert_eq!((base.hook, base.priority, base.kind, base.policy), (Hook::Input, 0, ChainKind::Filter, Policy::Drop));
        let verdicts: Vec<&Expr> = input.rules.iter().flat_map(|rule| &rule.exprs).collect();
        let (jump, goto) = (Verdict::Jump("mine".to_owned()), Verdict::Goto("mine".to_owned()));
        assert_eq!(verdicts, [&Expr::Immediate(jump), &Expr::Immediate(goto)]);
        assert_eq!(input.rules.iter().map(|rule| rule.handle).collect::<Vec<_>>(), [1, 2]);
        let mine = &table.chains[1];
        assert_eq!((mine.name.as_str(), &mine.base, mine.rules.len()), ("mine", &None, 1), "the closing return is no rule");
        let reject = Expr::Target(XtTarget::Reject { with: 3 });
        assert_eq!(mine.rules[0].exprs, [Expr::Match(XtMatch::Comment("why".to_owned())), reject]);
        assert_eq!(table.chains[2], Chain { name: "empty".to_owned(), handle: 0, base: None, rules: Vec::new() });
    }
}

/// The expressions of the only rule of a raw table.
fn only(family: Family, ip: &[(usize, &[u8])], verdict: i32) -> Vec<Expr> {
    let mut blob = Blob::new(family);
    let first = blob.standard(ip, verdict);
    let policy = blob.standard(&[], -2);
    blob.named("ERROR");
    let table = decode_legacy_table(family, "raw", &info(&[(0, first, policy)]), &blob.bytes).unwrap();
    let base = table.chains[0].base.as_ref().unwrap();
    assert_eq!((base.hook, base.priority, base.policy), (Hook::Prerouting, -300, Policy::Accept));
    table.chains[0].rules[0].exprs.clone()
}

#[test]
fn standard_targets_are_verdicts() {
    for (number, verdict) in [(-1, Verdict::Drop), (-2, Verdict::Accept), (-4, Verdict::Queue), (-5, Verdict::Return)] {
        assert_eq!(only(Family::Ipv4, &[], number), [Expr::Immediate(verdict)]);
    }
    assert_eq!(only(Family::Ipv4, &[], -9), [Expr::Immediate(Verdict::Other(-9))]);
    let next = 112 + 40;
    assert_eq!(only(Family::Ipv4, &[], next), [], "on to the next entry: a rule without a target");
}

fn entry(expressions: &[Expr]) -> &XtEntry {
    match expressions {
        [Expr::Entry(entry), Expr::Immediate(Verdict::Drop)] => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_ipv4_entry_matches_addresses_interfaces_protocol_and_fragments() {
    let eth = b"eth0";
    let six = 6_u16.to_ne_bytes();
    let inverse = [1, 0x01 | 0x10 | 0x20 | 0x40];
    let expressions = only(
        Family::Ipv4,
        &[
            (0, &[10, 0, 0, 0]),
            (8, &[255, 0, 0, 0]),
            (4, &[10, 0, 0, 1]),
            (12, &[255; 4]),
            (16, eth),
            (48, &[255; 5]),
            (32, eth),
            (64, &[255; 3]),
            (80, &six),
            (82, &inverse),
        ],
        -1,
    );
    let masked =
        |address: &str, mask: &str, inverted| Some(Masked { address: address.parse().unwrap(), mask: mask.parse().unwrap(), inverted });
    let interface = |name: &str, prefix, inverted| Some(Interface { name: name.to_owned(), prefix, inverted });
    let expected = XtEntry {
        source: masked("10.0.0.0", "255.0.0.0", false),
        destination: masked("10.0.0.1", "255.255.255.255", true),
        input: interface("eth0", false, true),
        output: interface("eth", true, false),
        protocol: Some((6, true)),
        fragment: Some(true),
        traffic_class: false,
    };
    assert_eq!(entry(&expressions), &expected);
}

#[test]
fn an_ipv6_entry_asks_for_its_protocol_only_if_it_says_so() {
    let six = 6_u16.to_ne_bytes();
    let destination = [0xfd; 16];
    let fields: [(usize, &[u8]); 3] = [(16, &destination), (48, &[255; 16]), (128, &six)];
    let silent = only(Family::Ipv6, &fields, -1);
    assert_eq!(entry(&silent).protocol, None);
    assert_eq!(entry(&silent).destination.unwrap().address, std::net::IpAddr::from(destination));
    let asking = only(Family::Ipv6, &[&fields[..], &[(131, &[1 | 2])]].concat(), -1);
    assert_eq!((entry(&asking).protocol, entry(&asking).traffic_class), (Some((6, false)), true));
    assert_eq!(only(Family::Ipv6, &[(128, &six)], -1), [Expr::Immediate(Verdict::Drop)], "an entry that restricts nothing");
}

#[test]
fn a_table_that_does_not_add_up_is_an_error() {
    let (info, blob) = filter(Family::Ipv4);
    let of = |info: &[u8], blob: &[u8]| decode_legacy_table(Family::Ipv4, "filter", info, blob).unwrap_err();
    assert_eq!(of(&info[..40], &blob), EntryError::Info(40));
    assert_eq!(of(&info, &blob[..blob.len() - 8]), EntryError::Entry(blob.len() - 32 - 32 - 112));
    let mut wrong = info.clone();
    wrong[40] = 1;
    assert_eq!(of(&wrong, &blob), EntryError::Jump(1), "INPUT begins inside an entry");
    let mut wrong = info.clone();
    let second = u32::from_ne_bytes(wrong[60..64].try_into().unwrap()) / 2;
    wrong[60..64].copy_from_slice(&second.to_ne_bytes());
    assert_eq!(of(&wrong, &blob), EntryError::Jump(152), "a jump is no policy");
    let mut wrong = blob.clone();
    wrong[144] = 0;
    wrong[145] = 0;
    assert_eq!(of(&info, &wrong), EntryError::Jump(0), "a jump to no chain");
    let mut wrong = blob;
    wrong[90] = 4;
    assert_eq!(of(&info, &wrong), EntryError::Entry(0), "an entry that ends before it begins");
}

#[test]
fn counters_are_forgotten_and_nothing_else() {
    for family in Family::ALL {
        let (info, blob) = filter(family);
        let mut busy = blob.clone();
        forget_counters(family, &mut busy);
        assert_ne!(busy, blob);
        assert_eq!(busy.iter().zip(&blob).filter(|(now, then)| now != then).count(), 10 * 16);
        assert_eq!(decode_legacy_table(family, "filter", &info, &busy), decode_legacy_table(family, "filter", &info, &blob));
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_table_or_an_error(
        info in proptest::collection::vec(any::<u8>(), 0..100),
        mut blob in proptest::collection::vec(any::<u8>(), 0..800),
    ) {
        for family in Family::ALL {
            let _ = decode_legacy_table(family, "nat", &info, &blob);
            forget_counters(family, &mut blob);
        }
    }

    #[test]
    fn a_changed_or_cut_table_gives_a_table_or_an_error(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        for family in Family::ALL {
            let (info, mut blob) = filter(family);
            for (at, byte) in &changes {
                let at = at.index(blob.len());
                blob[at] = *byte;
            }
            let _ = decode_legacy_table(family, "filter", &info, &blob);
            blob.truncate(cut.index(blob.len()));
            let _ = decode_legacy_table(family, "filter", &info, &blob);
        }
    }
}
