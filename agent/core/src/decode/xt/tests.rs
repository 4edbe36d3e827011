//! Info structures as iptables writes them.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::net::Family;
use crate::netfilter::xt::{Conntrack, NatRange, Ports, Tcp, XtMatch, XtTarget};

const V4: Option<Family> = Some(Family::Ipv4);
const V6: Option<Family> = Some(Family::Ipv6);

/// A structure of `size` bytes with these fields, at their offsets.
fn info(size: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; size];
    for (at, bytes) in fields {
        out[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    out
}

fn ne16(value: u16) -> [u8; 2] {
    value.to_ne_bytes()
}

fn ne32(value: u32) -> [u8; 4] {
    value.to_ne_bytes()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn unknown(name: &str, revision: u32) -> XtMatch {
    XtMatch::Unknown { name: name.to_owned(), revision }
}

#[test]
fn tcp_has_ranges_flags_and_what_is_inverted() {
    let data = info(12, &[(2, &ne16(65535)), (4, &ne16(80)), (6, &ne16(90)), (8, &[2, 0x17, 0x02, 0x0a])]);
    let tcp = Tcp {
        source: Ports { first: 0, last: 65535, inverted: false },
        destination: Ports { first: 80, last: 90, inverted: true },
        option: Some((2, true)),
        flags_mask: 0x17,
        flags_value: 2,
        flags_inverted: false,
    };
    assert_eq!(decode_match(V4, "tcp", 0, &data), XtMatch::Tcp(tcp));
    assert_eq!(decode_match(V4, "tcp", 0, &data[..11]), unknown("tcp", 0));
    assert_eq!(decode_match(V4, "tcp", 1, &data), unknown("tcp", 1));
    assert_eq!(decode_match(V4, "udp", 0, &[]), XtMatch::Udp);
}

#[test]
fn multiport_joins_its_ranges() {
    let ports = [ne16(80), ne16(443), ne16(8000), ne16(9000)].concat();
    let v0 = info(32, &[(0, &[1, 4]), (2, &ports)]);
    let each = vec![(80, 80), (443, 443), (8000, 8000), (9000, 9000)];
    assert_eq!(
        decode_match(V4, "multiport", 0, &v0),
        XtMatch::Multiport { source: false, destination: true, ports: each, inverted: false }
    );
    let v1 = info(48, &[(0, &[2, 4]), (2, &ports), (32 + 2, &[1]), (47, &[1])]);
    let joined = vec![(80, 80), (443, 443), (8000, 9000)];
    assert_eq!(
        decode_match(V4, "multiport", 1, &v1),
        XtMatch::Multiport { source: true, destination: true, ports: joined, inverted: true }
    );
    let source = info(48, &[(0, &[0, 200])]);
    let XtMatch::Multiport { source, destination, ports, .. } = decode_match(V4, "multiport", 1, &source) else { panic!("known") };
    assert_eq!((source, destination, ports.len()), (true, false, 15), "no more ports than there is room for");
}

#[test]
fn addrtype_in_both_revisions() {
    let expected = |source_inverted, destination_inverted, limit_in| XtMatch::Addrtype {
        source: 0,
        destination: 4,
        source_inverted,
        destination_inverted,
        limit_in,
        limit_out: false,
    };
    let v1 = info(8, &[(2, &ne16(4)), (4, &ne32(2 | 4))]);
    assert_eq!(decode_match(V4, "addrtype", 1, &v1), expected(false, true, true));
    let v0 = info(12, &[(2, &ne16(4)), (8, &ne32(1))]);
    assert_eq!(decode_match(V4, "addrtype", 0, &v0), expected(false, true, false));
}

#[test]
fn marks_have_value_mask_and_inversion() {
    let data = info(16, &[(0, &ne32(0x200)), (4, &ne32(0xf00)), (8, &[1])]);
    assert_eq!(decode_match(None, "mark", 1, &data), XtMatch::Mark { value: 0x200, mask: 0xf00, inverted: true });
    assert_eq!(decode_match(None, "connmark", 1, &data), XtMatch::Connmark { value: 0x200, mask: 0xf00, inverted: true });
    assert_eq!(decode_match(None, "mark", 0, &data), unknown("mark", 0));
}

#[test]
fn conntrack_in_three_revisions() {
    let fields = |mask: &'static [u8]| {
        info(
            168,
            &[
                (32, &[10, 0, 0, 1]),
                (48, &[255; 4]),
                (136, &ne16(6)),
                (140, &[0, 80]),
                (146, &ne16(1 | 1 << 3 | 1 << 9)),
                (148, &ne16(1)),
                (150, mask),
            ],
        )
    };
    let expected = |state_mask, status_mask, port| {
        XtMatch::Conntrack(Conntrack {
            match_flags: 1 | 1 << 3 | 1 << 9,
            invert_flags: 1,
            state_mask,
            status_mask,
            protocol: 6,
            original_destination: Some((ip("10.0.0.1"), ip("255.255.255.255"))),
            original_destination_port: Some(port),
        })
    };
    assert_eq!(decode_match(V4, "conntrack", 1, &fields(&[8, 2])), expected(8, 2, (80, 80)));
    let mut two = fields(&[]);
    two[150..154].copy_from_slice(&[ne16(0x108), ne16(0x20)].concat());
    assert_eq!(decode_match(V4, "conntrack", 2, &two), expected(0x108, 0x20, (80, 80)));
    let mut three = two;
    three[140..142].copy_from_slice(&ne16(80));
    three[156..158].copy_from_slice(&ne16(90));
    assert_eq!(decode_match(V4, "conntrack", 3, &three), expected(0x108, 0x20, (80, 90)));
    assert_eq!(decode_match(None, "conntrack", 3, &three), unknown("conntrack", 3), "whose address is it?");
    let mut state_only = three;
    state_only[146..148].copy_from_slice(&ne16(1));
    let XtMatch::Conntrack(of_both) = decode_match(None, "conntrack", 3, &state_only) else { panic!("known") };
    assert_eq!((of_both.original_destination, of_both.original_destination_port), (None, None));
}

#[test]
fn the_small_ones() {
    assert_eq!(decode_match(V4, "state", 0, &ne32(8)), XtMatch::State { mask: 8 });
    assert_eq!(decode_match(V4, "comment", 0, &info(256, &[(0, b"mine")])), XtMatch::Comment("mine".to_owned()));
    assert_eq!(decode_match(V4, "socket", 0, &[]), XtMatch::Socket { flags: 0 });
    assert_eq!(decode_match(V4, "socket", 3, &[5]), XtMatch::Socket { flags: 5 });
    let set = [&ne16(3)[..], &[2, 0b101]].concat();
    assert_eq!(decode_match(V4, "set", 4, &set), XtMatch::Set { index: 3, sources: vec![false, true], inverted: true });
    let range = info(72, &[(32, &[10, 0, 0, 1]), (48, &[10, 0, 0, 9]), (64, &[0x22])]);
    let destination = Some((ip("10.0.0.1"), ip("10.0.0.9"), true));
    assert_eq!(decode_match(V4, "iprange", 1, &range), XtMatch::Iprange { source: None, destination });
    assert_eq!(decode_match(None, "iprange", 1, &range), unknown("iprange", 1));
    assert_eq!(decode_match(V4, "statistic", 0, &[0; 24]), unknown("statistic", 0));
}

#[test]
fn nat_ranges_of_every_revision() {
    let range = |addresses: Option<(&str, &str)>, ports| NatRange {
        flags: if addresses.is_some() { 3 } else { 2 },
        addresses: addresses.map(|(first, last)| (ip(first), ip(last))),
        ports: Some(ports),
    };
    let v4 = Some(("10.42.0.7", "10.42.0.8"));
    let multi = info(24, &[(0, &ne32(1)), (4, &ne32(3)), (8, &[10, 42, 0, 7]), (12, &[10, 42, 0, 8]), (16, &[0, 80]), (18, &[0, 90])]);
    assert_eq!(decode_target(V4, "DNAT", 0, &multi), XtTarget::Dnat(range(v4, (80, 90))));
    assert_eq!(decode_target(V4, "NETMAP", 0, &multi), XtTarget::Netmap(range(v4, (80, 90))));
    let one = info(48, &[(0, &ne32(3)), (4, &[10, 42, 0, 7]), (20, &[10, 42, 0, 8]), (36, &[0, 80]), (38, &[0, 90])]);
    for revision in [1, 2] {
        assert_eq!(decode_target(V4, "DNAT", revision, &one), XtTarget::Dnat(range(v4, (80, 90))));
    }
    let ports = info(24, &[(0, &ne32(1)), (4, &ne32(2)), (16, &[0x1f, 0x90]), (18, &[0x1f, 0x90])]);
    assert_eq!(decode_target(V4, "REDIRECT", 0, &ports), XtTarget::Redirect(range(None, (8080, 8080))));
    let six: Vec<u8> = std::iter::once(0xfd).chain(std::iter::repeat_n(0, 14)).chain([1]).collect();
    let v6 = info(40, &[(0, &ne32(3)), (4, &six), (20, &six), (36, &[0, 80]), (38, &[0, 80])]);
    assert_eq!(decode_target(V6, "REDIRECT", 0, &v6), XtTarget::Redirect(range(Some(("fd00::1", "fd00::1")), (80, 80))));
    assert_eq!(decode_target(V6, "DNAT", 2, &info(48, &[(0, &v6)])), XtTarget::Dnat(range(Some(("fd00::1", "fd00::1")), (80, 80))));
    let unknown = |name: &str| XtTarget::Unknown { name: name.to_owned(), revision: 0 };
    assert_eq!(decode_target(V4, "DNAT", 0, &info(24, &[])), unknown("DNAT"), "no range at all");
    assert_eq!(decode_target(None, "REDIRECT", 0, &ports), unknown("REDIRECT"));
}

#[test]
fn the_other_targets() {
    let tproxy = |family, revision, data: &[u8], address: &str| {
        let expected = XtTarget::Tproxy { address: ip(address), port: 1234, mark_mask: 0xffff_ffff, mark_value: 0x200 };
        assert_eq!(decode_target(family, "TPROXY", revision, data), expected);
    };
    let marks = [ne32(u32::MAX), ne32(0x200)].concat();
    tproxy(V4, 0, &info(16, &[(0, &marks), (8, &[127, 0, 0, 1]), (12, &[4, 210])]), "127.0.0.1");
    tproxy(V4, 1, &info(32, &[(0, &marks), (8, &[127, 0, 0, 1]), (24, &[4, 210])]), "127.0.0.1");
    tproxy(V6, 1, &info(32, &[(0, &marks), (23, &[1]), (24, &[4, 210])]), "::1");
    let mark = [ne32(0x200), ne32(0xf00)].concat();
    assert_eq!(decode_target(V4, "MARK", 2, &mark), XtTarget::Mark { value: 0x200, mask: 0xf00 });
    let connmark = XtTarget::Connmark { ctmark: 1, ctmask: 2, nfmask: 3, mode: 2 };
    let numbers = [ne32(1), ne32(2), ne32(3)].concat();
    assert_eq!(decode_target(V4, "CONNMARK", 1, &info(16, &[(0, &numbers), (12, &[2])])), connmark);
    assert_eq!(decode_target(V4, "CONNMARK", 2, &info(16, &[(0, &numbers), (14, &[2])])), connmark);
    let shifted = decode_target(V4, "CONNMARK", 2, &info(16, &[(0, &numbers), (13, &[4]), (14, &[2])]));
    assert_eq!(shifted, XtTarget::Unknown { name: "CONNMARK".to_owned(), revision: 2 });
    let ct = info(72, &[(0, &ne16(1)), (2, &ne16(5)), (12, b"ftp")]);
    assert_eq!(decode_target(V4, "CT", 2, &ct), XtTarget::Ct { notrack: true, zone: 5, helper: "ftp".to_owned() });
    assert_eq!(decode_target(V4, "NOTRACK", 0, &[]), XtTarget::Notrack);
    assert_eq!(decode_target(V4, "REJECT", 0, &ne32(3)), XtTarget::Reject { with: 3 });
    assert_eq!(decode_target(V4, "LOG", 0, &info(32, &[(2, b"bad")])), XtTarget::Log { prefix: "bad".to_owned() });
    assert_eq!(decode_target(V4, "NFLOG", 0, &info(76, &[(12, b"bad")])), XtTarget::Log { prefix: "bad".to_owned() });
    assert_eq!(decode_target(V4, "MASQUERADE", 0, &[]), XtTarget::Snat { name: "MASQUERADE".to_owned() });
    assert_eq!(decode_target(V4, "TEE", 1, &[0; 64]), XtTarget::Unknown { name: "TEE".to_owned(), revision: 1 });
}

const NAMES: [&str; 24] = [
    "tcp",
    "udp",
    "multiport",
    "addrtype",
    "mark",
    "connmark",
    "conntrack",
    "state",
    "comment",
    "socket",
    "set",
    "iprange",
    "DNAT",
    "REDIRECT",
    "NETMAP",
    "SNAT",
    "TPROXY",
    "MARK",
    "CONNMARK",
    "CT",
    "NOTRACK",
    "REJECT",
    "LOG",
    "NFLOG",
];

proptest! {
    #[test]
    fn any_bytes_give_a_value(name in prop::sample::select(&NAMES[..]), revision in 0_u32..5, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for family in [None, V4, V6] {
            let _ = decode_match(family, name, revision, &bytes);
            let _ = decode_target(family, name, revision, &bytes);
        }
    }
}
