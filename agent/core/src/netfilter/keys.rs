//! The kernel's numbers of keys (`linux/netfilter/nf_tables.h`) with the words of nft for them.

/// `enum nft_meta_keys`.
pub mod meta {
    #![expect(missing_docs, reason = "NFT_META_*, by its name")]
    pub const LEN: u32 = 0;
    pub const PROTOCOL: u32 = 1;
    pub const PRIORITY: u32 = 2;
    pub const MARK: u32 = 3;
    pub const IIF: u32 = 4;
    pub const OIF: u32 = 5;
    pub const IIFNAME: u32 = 6;
    pub const OIFNAME: u32 = 7;
    pub const IIFTYPE: u32 = 8;
    pub const OIFTYPE: u32 = 9;
    pub const SKUID: u32 = 10;
    pub const SKGID: u32 = 11;
    pub const NFTRACE: u32 = 12;
    pub const NFPROTO: u32 = 15;
    pub const L4PROTO: u32 = 16;
    pub const BRI_IIFNAME: u32 = 17;
    pub const BRI_OIFNAME: u32 = 18;
    pub const PKTTYPE: u32 = 19;
    pub const CPU: u32 = 20;
    pub const IIFGROUP: u32 = 21;
    pub const OIFGROUP: u32 = 22;
    pub const CGROUP: u32 = 23;
    pub const SECPATH: u32 = 25;
    pub const IIFKIND: u32 = 26;
    pub const OIFKIND: u32 = 27;
    pub const SDIF: u32 = 33;
    pub const SDIFNAME: u32 = 34;

    const WORDS: [&str; 35] = [
        "length",
        "protocol",
        "priority",
        "mark",
        "iif",
        "oif",
        "iifname",
        "oifname",
        "iiftype",
        "oiftype",
        "skuid",
        "skgid",
        "nftrace",
        "rtclassid",
        "secmark",
        "nfproto",
        "l4proto",
        "ibrname",
        "obrname",
        "pkttype",
        "cpu",
        "iifgroup",
        "oifgroup",
        "cgroup",
        "random",
        "ipsec",
        "iifkind",
        "oifkind",
        "ibrpvid",
        "ibrvproto",
        "time",
        "day",
        "hour",
        "sdif",
        "sdifname",
    ];

    /// The word after `meta`.
    #[must_use]
    pub fn word(key: u32) -> &'static str {
        usize::try_from(key).ok().and_then(|at| WORDS.get(at)).copied().unwrap_or("unknown")
    }
}

/// `enum nft_ct_keys`.
pub mod ct {
    #![expect(missing_docs, reason = "NFT_CT_*, by its name")]
    pub const STATE: u32 = 0;
    pub const DIRECTION: u32 = 1;
    pub const STATUS: u32 = 2;
    pub const MARK: u32 = 3;
    pub const L3PROTOCOL: u32 = 7;
    pub const SRC: u32 = 8;
    pub const DST: u32 = 9;
    pub const PROTOCOL: u32 = 10;
    pub const PROTO_SRC: u32 = 11;
    pub const PROTO_DST: u32 = 12;
    pub const SRC_IP: u32 = 19;
    pub const DST_IP: u32 = 20;
    pub const SRC_IP6: u32 = 21;
    pub const DST_IP6: u32 = 22;

    const WORDS: [&str; 24] = [
        "state",
        "direction",
        "status",
        "mark",
        "secmark",
        "expiration",
        "helper",
        "l3proto",
        "saddr",
        "daddr",
        "protocol",
        "proto-src",
        "proto-dst",
        "label",
        "packets",
        "bytes",
        "avgpkt",
        "zone",
        "event",
        "ip saddr",
        "ip daddr",
        "ip6 saddr",
        "ip6 daddr",
        "id",
    ];

    /// The word after `ct`.
    #[must_use]
    pub fn word(key: u32) -> &'static str {
        usize::try_from(key).ok().and_then(|at| WORDS.get(at)).copied().unwrap_or("unknown")
    }
}

/// `NFTA_FIB_F_*` and `enum nft_fib_result`.
pub mod fib {
    #![expect(missing_docs, reason = "the kernel's names")]
    pub const SADDR: u32 = 1;
    pub const DADDR: u32 = 2;
    pub const MARK: u32 = 4;
    pub const IIF: u32 = 8;
    pub const OIF: u32 = 16;
    pub const PRESENT: u32 = 32;
    pub const RESULT_OIF: u32 = 1;
    pub const RESULT_OIFNAME: u32 = 2;
    pub const RESULT_ADDRTYPE: u32 = 3;
}

/// `NF_NAT_RANGE_*` (`linux/netfilter/nf_nat.h`).
pub mod nat_range {
    #![expect(missing_docs, reason = "the kernel's names")]
    pub const PROTO_RANDOM: u32 = 4;
    pub const PROTO_RANDOM_FULLY: u32 = 16;
    pub const NETMAP: u32 = 64;
}

/// Bits of connection tracking.
pub mod state {
    /// `NF_CT_STATE_INVALID_BIT`, `XT_CONNTRACK_STATE_INVALID`.
    pub const INVALID: u32 = 1;
    /// `NF_CT_STATE_BIT(IP_CT_NEW)`.
    pub const NEW: u32 = 8;
    /// `NF_CT_STATE_UNTRACKED_BIT`, `XT_STATE_UNTRACKED`.
    pub const UNTRACKED: u32 = 64;
    /// `XT_CONNTRACK_STATE_DNAT`.
    pub const XT_DNAT: u32 = 128;
    /// `XT_CONNTRACK_STATE_UNTRACKED`.
    pub const XT_UNTRACKED: u32 = 256;
    /// `IPS_DST_NAT`.
    pub const IPS_DST_NAT: u32 = 32;
}
