//! Whose turn it is: one lane per front (and per extra probe and family), rotating over its addresses. Pure.

use std::net::IpAddr;

use gwready_core::net::{Endpoint, Front};

/// What a lane probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneKey {
    pub(super) front: Front,
    /// Index of the extra probe; none = the built-in one.
    pub(super) explicit: Option<usize>,
}

/// The rotation of one lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    addresses: Vec<IpAddr>,
    next: usize,
    /// Failures in a row at the address whose turn it is.
    failures: u32,
    /// A probe is on its way.
    pub(super) in_flight: bool,
    /// At least one probe has ended.
    pub(super) answered: bool,
}

impl Lane {
    /// Sets the addresses. The one whose turn it is keeps its turn if it is still there.
    pub(super) fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        let current = self.addresses.get(self.next).copied();
        let kept = addresses.iter().position(|address| Some(*address) == current);
        if kept.is_none() {
            self.failures = 0;
        }
        self.next = kept.unwrap_or(0);
        self.addresses = addresses;
    }

    /// The address whose turn it is.
    pub(super) fn current(&self, port: u16) -> Option<Endpoint> {
        self.addresses.get(self.next).map(|address| Endpoint { address: *address, port })
    }

    /// Notes how the probe of `address` ended. The turn goes on after a success or after the failure that completes `fall`; an
    /// address that has failed more often gets one try per turn, so that it can't keep the others waiting for ever.
    pub(super) fn note(&mut self, address: IpAddr, failed: bool, failures_before: u32, fall: u32) {
        self.answered = true;
        if self.addresses.get(self.next) != Some(&address) {
            return;
        }
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        if !failed || failures_before.saturating_add(1) >= fall.max(1) || self.failures >= fall.max(1) {
            self.failures = 0;
            self.next = self.next.saturating_add(1).checked_rem(self.addresses.len()).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    /// Runs `turns` probes; `failing` addresses fail. Returns the last byte of each address probed.
    fn run(lane: &mut Lane, turns: usize, failing: &[u8], failures: &mut [u32; 256]) -> Vec<u8> {
        let mut order = Vec::new();
        for _ in 0..turns {
            let endpoint = lane.current(80).unwrap();
            let IpAddr::V4(v4) = endpoint.address else { unreachable!() };
            let n = v4.octets()[3];
            let failed = failing.contains(&n);
            lane.note(endpoint.address, failed, failures[usize::from(n)], 3);
            failures[usize::from(n)] = if failed { failures[usize::from(n)] + 1 } else { 0 };
            order.push(n);
        }
        order
    }

    fn lane(addresses: &[u8]) -> Lane {
        let mut lane = Lane::default();
        lane.set_addresses(addresses.iter().map(|n| address(*n)).collect());
        lane
    }

    #[test]
    fn every_address_has_its_turn() {
        assert_eq!(run(&mut lane(&[1, 2, 3]), 7, &[], &mut [0; 256]), [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn a_failing_address_is_asked_again_until_it_has_failed_fall_times_and_then_once_per_turn() {
        assert_eq!(run(&mut lane(&[1, 2, 3]), 12, &[2], &mut [0; 256]), [1, 2, 2, 2, 3, 1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn an_address_that_passes_again_lets_the_turn_go_on() {
        let (mut lane, mut failures) = (lane(&[1, 2]), [0; 256]);
        assert_eq!(run(&mut lane, 2, &[1], &mut failures), [1, 1]);
        assert_eq!(run(&mut lane, 3, &[], &mut failures), [1, 2, 1]);
    }

    #[test]
    fn new_addresses_do_not_take_the_turn_away() {
        let mut lane = lane(&[1, 2, 3]);
        run(&mut lane, 1, &[], &mut [0; 256]);
        lane.set_addresses(vec![address(9), address(1), address(2)]);
        assert_eq!(run(&mut lane, 2, &[], &mut [0; 256]), [2, 9]);
        lane.set_addresses(vec![address(5)]);
        assert_eq!(run(&mut lane, 2, &[], &mut [0; 256]), [5, 5]);
        lane.set_addresses(Vec::new());
        assert_eq!(lane.current(80), None);
    }
}
