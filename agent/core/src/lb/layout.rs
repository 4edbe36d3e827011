//! Pin names, map types and sizes of the maps that are read. Sizes are checked before a byte is decoded; `max_entries` and
//! `map_flags` are never compared, because they are configurable and change between versions (Cilium `bpf/lib/lb.h`, `pkg/maps/lbmap`).

use crate::net::Family;

/// Map types as in `enum bpf_map_type` (linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// `BPF_MAP_TYPE_HASH`.
    Hash,
    /// `BPF_MAP_TYPE_ARRAY`.
    Array,
    /// `BPF_MAP_TYPE_PERCPU_HASH`.
    PerCpuHash,
    /// `BPF_MAP_TYPE_LPM_TRIE`.
    LpmTrie,
}

impl MapKind {
    /// The kernel's number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Hash => 1,
            Self::Array => 2,
            Self::PerCpuHash => 5,
            Self::LpmTrie => 11,
        }
    }
}

/// One pinned map: what its name promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// File name below `tc/globals`.
    pub pin: &'static str,
    /// Map type.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
}

const fn layout(pin: &'static str, kind: MapKind, key_size: u32, value_size: u32) -> Layout {
    Layout { pin, kind, key_size, value_size }
}

/// `cilium_lb4_services_v2` or `cilium_lb6_services_v2`.
#[must_use]
pub const fn services(family: Family) -> Layout {
    match family {
        Family::Ipv4 => layout("cilium_lb4_services_v2", MapKind::Hash, 12, 12),
        Family::Ipv6 => layout("cilium_lb6_services_v2", MapKind::Hash, 24, 12),
    }
}

/// `cilium_lb4_backends_v3` or `cilium_lb6_backends_v3`.
#[must_use]
pub const fn backends(family: Family) -> Layout {
    match family {
        Family::Ipv4 => layout("cilium_lb4_backends_v3", MapKind::Hash, 4, 12),
        Family::Ipv6 => layout("cilium_lb6_backends_v3", MapKind::Hash, 4, 24),
    }
}

/// `cilium_lb4_source_range` or `cilium_lb6_source_range`.
#[must_use]
pub const fn source_ranges(family: Family) -> Layout {
    match family {
        Family::Ipv4 => layout("cilium_lb4_source_range", MapKind::LpmTrie, 12, 1),
        Family::Ipv6 => layout("cilium_lb6_source_range", MapKind::LpmTrie, 24, 1),
    }
}

/// Local endpoints and node addresses, both families (`bpf/lib/common.h` `endpoint_key`, `endpoint_info`).
pub const ENDPOINTS: Layout = layout("cilium_lxc", MapKind::Hash, 20, 48);

/// Run-time settings; index 1 is the agent's liveness stamp (`pkg/datapath/agentliveness`).
pub const RUNTIME_CONFIG: Layout = layout("cilium_runtime_config", MapKind::Array, 4, 8);

/// Forward and drop counters (`bpf/lib/common.h` `metrics_key`, `metrics_value`).
pub const METRICS: Layout = layout("cilium_metrics", MapKind::PerCpuHash, 8, 16);

/// Index of the liveness stamp in [`RUNTIME_CONFIG`].
pub const LIVENESS_INDEX: u32 = 1;
