//! Keys and values of `cilium_metrics`: datapath counters per reason. Source: Cilium `bpf/lib/common.h` (`metrics_key`, `metrics_value`).
//!
//! File and line in the key differ between versions, so counters are summed over them, over directions and over processors.

use std::collections::BTreeMap;

/// The reasons that are published, as metric label. Numbers are negative error codes of the datapath (`DROP_*`), printed positive.
pub const LABELS: [(u8, &str); 15] = [
    (132, "invalid_source"),
    (133, "policy"),
    (134, "invalid"),
    (135, "ct_invalid_header"),
    (137, "ct_unknown_proto"),
    (155, "ct_full"),
    (158, "no_service"),
    (174, "is_cluster_ip"),
    (177, "source_range"),
    (178, "proxy_lookup"),
    (179, "proxy_set"),
    (181, "policy_deny"),
    (189, "auth_required"),
    (202, "host_not_ready"),
    (203, "endpoint_not_ready"),
];

/// Label of every other drop.
pub const OTHER: &str = "other";

/// Reasons from here on are drops; smaller ones are forwards and notes.
const FIRST_DROP: u8 = 130;

/// Adds one row to the sums: `count` is the packet count of one key, summed over processors.
pub fn add(sums: &mut BTreeMap<&'static str, u64>, key: &[u8; 8], count: u64) {
    let reason = key[0];
    if reason < FIRST_DROP {
        return;
    }
    let label = LABELS.iter().find(|(number, _)| *number == reason).map_or(OTHER, |(_, label)| label);
    let sum = sums.entry(label).or_default();
    *sum = sum.saturating_add(count);
}

/// Packet count of one processor's value.
#[must_use]
pub const fn decode_count(value: &[u8; 16]) -> u64 {
    let [c0, c1, c2, c3, c4, c5, c6, c7, ..] = *value;
    u64::from_ne_bytes([c0, c1, c2, c3, c4, c5, c6, c7])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_line_file_and_direction() {
        let mut sums = BTreeMap::new();
        add(&mut sums, &[158, 1, 10, 0, 1, 0, 0, 0], 3);
        add(&mut sums, &[158, 2, 99, 1, 2, 0, 0, 0], 4);
        add(&mut sums, &[0, 1, 10, 0, 1, 0, 0, 0], 1000);
        add(&mut sums, &[5, 1, 10, 0, 1, 0, 0, 0], 1000);
        add(&mut sums, &[250, 1, 10, 0, 1, 0, 0, 0], u64::MAX);
        add(&mut sums, &[251, 1, 10, 0, 1, 0, 0, 0], 1);
        assert_eq!(sums, BTreeMap::from([("no_service", 7), (OTHER, u64::MAX)]));
    }

    #[test]
    fn the_count_comes_first() {
        let mut value = [9; 16];
        value[..8].copy_from_slice(&77_u64.to_ne_bytes());
        assert_eq!(decode_count(&value), 77);
    }
}
