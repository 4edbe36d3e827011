//! Matches and targets of iptables, as both iptables-nft and legacy iptables carry them.
//!
//! # How a decoder fills it
//!
//! By name and revision, from the bytes of the info struct (`linux/netfilter/xt_*.h`; multi-byte fields in the machine's order unless the
//! header says `__be`). A name, a revision or a length that the decoder does not know is `Unknown` with the name: the follower then
//! decides what the name alone tells (LOG never ends a packet, `-m limit` admits some). All ranges are inclusive.
//! An address field of a `union nf_inet_addr` is read by the family of the table: 4 or 16 bytes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Ports, inclusive, in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ports {
    /// First.
    pub first: u16,
    /// Last.
    pub last: u16,
    /// Matches the ports outside.
    pub inverted: bool,
}

/// An address with its mask, as `ipt_ip` has them: (packet & mask) == address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Masked {
    /// Address.
    pub address: IpAddr,
    /// Mask, of the same family.
    pub mask: IpAddr,
    /// `IPT_INV_SRCIP`, `IPT_INV_DSTIP`.
    pub inverted: bool,
}

/// An interface name of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Interface {
    /// The bytes of the name that the mask covers, without zero bytes.
    pub name: String,
    /// The mask does not cover the closing zero: `eth+`.
    pub prefix: bool,
    /// `IPT_INV_VIA_IN`, `IPT_INV_VIA_OUT`.
    pub inverted: bool,
}

/// `ipt_ip` and `ip6t_ip6`: what an entry itself matches. A field that restricts nothing is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct XtEntry {
    /// `src`, `smsk`; none for a mask of zeros that is not inverted.
    pub source: Option<Masked>,
    /// `dst`, `dmsk`.
    pub destination: Option<Masked>,
    /// `iniface`; none for an empty mask.
    pub input: Option<Interface>,
    /// `outiface`.
    pub output: Option<Interface>,
    /// `proto` with `IPT_INV_PROTO`; none for 0 (in IPv6: without `IP6T_F_PROTO`).
    pub protocol: Option<(u8, bool)>,
    /// `IPT_F_FRAG` with `IPT_INV_FRAG`: only later fragments (true when inverted: only the others).
    pub fragment: Option<bool>,
    /// `IP6T_F_TOS`: the traffic class decides too.
    pub traffic_class: bool,
}

/// A match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XtMatch {
    /// `tcp` (rev 0).
    Tcp(Tcp),
    /// `udp` (rev 0): never a TCP connection's.
    Udp,
    /// `multiport` (rev 0, 1): `XT_MULTIPORT_SOURCE`, `DESTINATION`, `EITHER` as the two booleans.
    #[expect(missing_docs, reason = "the fields of xt_multiport_v1")]
    Multiport { source: bool, destination: bool, ports: Vec<(u16, u16)>, inverted: bool },
    /// `addrtype` (rev 0, 1): masks of `1 << RTN_*`, 0 = not asked.
    #[expect(missing_docs, reason = "the fields of xt_addrtype_info_v1")]
    Addrtype { source: u16, destination: u16, source_inverted: bool, destination_inverted: bool, limit_in: bool, limit_out: bool },
    /// `mark` (rev 1): (mark & mask) == value.
    #[expect(missing_docs, reason = "the fields of xt_mark_mtinfo1")]
    Mark { value: u32, mask: u32, inverted: bool },
    /// `connmark` (rev 1).
    #[expect(missing_docs, reason = "the fields of xt_connmark_mtinfo1")]
    Connmark { value: u32, mask: u32, inverted: bool },
    /// `conntrack` (rev 1 to 3).
    Conntrack(Conntrack),
    /// `state` (rev 0): bits of `XT_STATE_*`.
    #[expect(missing_docs, reason = "the field of xt_state_info")]
    State { mask: u32 },
    /// `comment` (rev 0), raw text.
    Comment(String),
    /// `socket` (rev 0 to 3): bits of `XT_SOCKET_*` (rev 0: 0).
    #[expect(missing_docs, reason = "the field of xt_socket_mtinfo3")]
    Socket { flags: u8 },
    /// `set` (rev 1 to 4): which dimensions are taken from the source (`IPSET_DIM_ONE_SRC` and on), as many as `dim` says. `inverted` is
    /// `IPSET_INV_MATCH`.
    #[expect(missing_docs, reason = "the fields of xt_set_info")]
    Set { index: u16, sources: Vec<bool>, inverted: bool },
    /// `iprange` (rev 1): `IPRANGE_SRC`, `IPRANGE_DST` with their `_INV`.
    #[expect(missing_docs, reason = "the fields of xt_iprange_mtinfo")]
    Iprange { source: Option<(IpAddr, IpAddr, bool)>, destination: Option<(IpAddr, IpAddr, bool)> },
    /// Any other, by its name.
    #[expect(missing_docs, reason = "NFTA_MATCH_NAME, NFTA_MATCH_REV")]
    Unknown { name: String, revision: u32 },
}

/// `xt_tcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// `spts` with `XT_TCP_INV_SRCPT`.
    pub source: Ports,
    /// `dpts` with `XT_TCP_INV_DSTPT`.
    pub destination: Ports,
    /// `option` with `XT_TCP_INV_OPTION`; none for 0.
    pub option: Option<(u8, bool)>,
    /// `flg_mask`.
    pub flags_mask: u8,
    /// `flg_cmp`.
    pub flags_value: u8,
    /// `XT_TCP_INV_FLAGS`.
    pub flags_inverted: bool,
}

/// `xt_conntrack_mtinfo3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conntrack {
    /// `match_flags` (`XT_CONNTRACK_*`).
    pub match_flags: u16,
    /// `invert_flags`.
    pub invert_flags: u16,
    /// `state_mask`; bits of rev 1 and 2 are the same.
    pub state_mask: u16,
    /// `status_mask` (`IPS_*`).
    pub status_mask: u16,
    /// `l4proto`.
    pub protocol: u16,
    /// `origdst_addr`, `origdst_mask`, where `match_flags` asks for it.
    pub original_destination: Option<(IpAddr, IpAddr)>,
    /// `origdst_port`…`origdst_port_high` in host order, where `match_flags` asks for it (rev 1, 2: the one port twice).
    pub original_destination_port: Option<(u16, u16)>,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum XtTarget {
    /// `DNAT` (rev 0 to 2).
    Dnat(NatRange),
    /// `REDIRECT` (rev 0): addresses are not used.
    Redirect(NatRange),
    /// `NETMAP` (rev 0): the host part stays.
    Netmap(NatRange),
    /// `SNAT`, `MASQUERADE`.
    #[expect(missing_docs, reason = "the target's name")]
    Snat { name: String },
    /// `TPROXY` (rev 0, 1): `lport` in host order, 0 = the packet's own port; an unspecified `laddr` = an address of the input interface.
    #[expect(missing_docs, reason = "the fields of xt_tproxy_target_info_v1")]
    Tproxy { address: IpAddr, port: u16, mark_mask: u32, mark_value: u32 },
    /// `MARK` (rev 2): (mark & !mask) ^ value.
    #[expect(missing_docs, reason = "the fields of xt_mark_tginfo2")]
    Mark { value: u32, mask: u32 },
    /// `CONNMARK` (rev 1; rev 2 without a shift): mode 0 set, 1 save, 2 restore.
    #[expect(missing_docs, reason = "the fields of xt_connmark_tginfo1")]
    Connmark { ctmark: u32, ctmask: u32, nfmask: u32, mode: u8 },
    /// `CT` (rev 0 to 2) with `XT_CT_NOTRACK` as `notrack`.
    #[expect(missing_docs, reason = "the fields of xt_ct_target_info_v1")]
    Ct { notrack: bool, zone: u16, helper: String },
    /// `NOTRACK` (rev 0).
    Notrack,
    /// `REJECT` (rev 0): `enum ipt_reject_with`, `ip6t_reject_with`.
    #[expect(missing_docs, reason = "the field of ipt_reject_info")]
    Reject { with: u32 },
    /// `LOG`, `NFLOG`.
    #[expect(missing_docs, reason = "the prefix, raw text")]
    Log { prefix: String },
    /// Any other, by its name.
    #[expect(missing_docs, reason = "NFTA_TARGET_NAME, NFTA_TARGET_REV")]
    Unknown { name: String, revision: u32 },
}

/// `nf_nat_range2`; of the multi-range of rev 0 the only range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NatRange {
    /// `flags` (`NF_NAT_RANGE_*`).
    pub flags: u32,
    /// `min_addr`, `max_addr`, where `NF_NAT_RANGE_MAP_IPS` is set.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// `min_proto`, `max_proto` in host order, where `NF_NAT_RANGE_PROTO_SPECIFIED` is set.
    pub ports: Option<(u16, u16)>,
}
