//! What the rule depends on besides rows: the version of the running agent and three of its options.

use serde::{Deserialize, Serialize};

/// Which generation of the datapath judges a packet. The differences are those that were measured (1.16.4, 1.17.1, 1.18 at its
/// branch point, 1.19-dev to main, which all answered alike).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Generation {
    /// 1.16 and older: every key has protocol 0; the deny bit of source ranges is unknown.
    V1_16,
    /// 1.17: the packet's protocol, then protocol 0.
    V1_17,
    /// 1.18: as 1.17, and the L7 delegate bit.
    V1_18,
    /// 1.19 and newer: the packet's protocol only, then the wildcard of the address.
    V1_19,
}

impl Generation {
    /// The generation of a release.
    #[must_use]
    pub const fn of_release(major: u16, minor: u16) -> Self {
        match (major, minor) {
            (0, _) | (1, 0..=16) => Self::V1_16,
            (1, 17) => Self::V1_17,
            (1, 18) => Self::V1_18,
            _ => Self::V1_19,
        }
    }
}

/// Everything the rule depends on besides rows. The default is the newest generation with Cilium's own defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Generation of the datapath.
    pub generation: Generation,
    /// `bpf-lb-proto-diff`: keys carry the real protocol (1.17 and 1.18 can switch it off).
    pub protocol_differentiation: bool,
    /// `service-no-backend-response: reject` (the default), else drop.
    pub reject_without_backend: bool,
    /// `enable-no-service-endpoints-routable` (the default); false lets packets of a service without backends pass. From 1.19 on.
    pub no_endpoints_routable: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(Generation::V1_19)
    }
}

impl Settings {
    /// Cilium's defaults in this generation.
    #[must_use]
    pub const fn of(generation: Generation) -> Self {
        Self { generation, protocol_differentiation: true, reject_without_backend: true, no_endpoints_routable: true }
    }

    /// Protocol numbers under which a frontend of this protocol is looked up, in order.
    #[must_use]
    pub fn key_protocols(&self, protocol: u8) -> &'static [u8] {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        let differs = self.protocol_differentiation && self.generation > Generation::V1_16;
        match (differs, self.generation >= Generation::V1_19, protocol) {
            (_, true, TCP) => &[TCP],
            (_, true, UDP) => &[UDP],
            (true, false, TCP) => &[TCP, 0],
            (true, false, UDP) => &[UDP, 0],
            (false, false, TCP | UDP) => &[0],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_fall_into_their_generation() {
        assert_eq!(Generation::of_release(1, 16), Generation::V1_16);
        assert_eq!(Generation::of_release(1, 17), Generation::V1_17);
        assert_eq!(Generation::of_release(1, 18), Generation::V1_18);
        assert_eq!(Generation::of_release(1, 20), Generation::V1_19);
        assert_eq!(Generation::of_release(2, 0), Generation::V1_19);
    }

    #[test]
    fn key_protocols_by_generation() {
        assert_eq!(Settings::of(Generation::V1_16).key_protocols(6), [0]);
        assert_eq!(Settings::of(Generation::V1_17).key_protocols(17), [17, 0]);
        let plain = Settings { protocol_differentiation: false, ..Settings::of(Generation::V1_18) };
        assert_eq!(plain.key_protocols(6), [0]);
        assert_eq!(Settings { protocol_differentiation: false, ..Settings::default() }.key_protocols(6), [6], "the switch is gone in 1.19");
        assert!(Settings::default().key_protocols(1).is_empty(), "ICMP has no frontends");
    }
}
