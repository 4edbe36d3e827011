//! Which sockets a client of an endpoint can reach, from the kernel's lookups and the LISTEN rows. Facts joined, no judgement.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::facts::sockets::{Listener, SocketTable};
use crate::net::Endpoint;

/// The sockets that can get a client of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach<'a> {
    /// How many lookups were made; 0 = this endpoint was not asked for.
    pub lookups: usize,
    /// Every socket that was picked or that is in the same `SO_REUSEPORT` group, by cookie, with the number of lookups that picked it.
    pub sockets: BTreeMap<u64, (&'a Listener, usize)>,
}

impl<'a> Reach<'a> {
    /// Joins lookups and rows for `endpoint`.
    #[must_use]
    pub fn of(table: &'a SocketTable, endpoint: Endpoint) -> Self {
        let mut reach = Self { lookups: 0, sockets: BTreeMap::new() };
        for lookup in table.lookups.iter().filter(|lookup| lookup.endpoint == endpoint) {
            reach.lookups += 1;
            if let Some(picked) = &lookup.picked {
                reach.sockets.entry(picked.id.cookie).or_insert((picked, 0)).1 += 1;
            }
        }
        let picked: Vec<&Listener> = reach.sockets.values().map(|(listener, _)| *listener).collect();
        for row in &table.listeners {
            if picked.iter().any(|picked| picked.group() == row.group()) {
                reach.sockets.entry(row.id.cookie).or_insert((row, 0));
            }
        }
        reach
    }

    /// Nothing listens: the kernel would answer RST.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// The sockets, in a stable order.
    pub fn listeners(&self) -> impl Iterator<Item = &'a Listener> + '_ {
        self.sockets.values().map(|(listener, _)| *listener)
    }
}

/// The table alone explains that `listener` gets clients of `endpoint` that come in on `ingress_if`: same port, an address
/// that covers the endpoint, no other device.
#[must_use]
pub fn covers(listener: &Listener, endpoint: Endpoint, ingress_if: u32) -> bool {
    let bound = listener.address.to_canonical();
    let wildcard = match (bound.is_unspecified(), bound, endpoint.address) {
        (false, ..) => false,
        (true, IpAddr::V4(_), wanted) => wanted.is_ipv4(),
        (true, IpAddr::V6(_), IpAddr::V6(_)) => true,
        (true, IpAddr::V6(_), IpAddr::V4(_)) => listener.v6only != Some(true),
    };
    listener.port == endpoint.port && (wildcard || bound == endpoint.address) && (listener.bound_if == 0 || listener.bound_if == ingress_if)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{endpoint, listener, lookup};
    use super::*;

    #[test]
    fn unpicked_members_of_the_group_count_others_do_not() {
        let a = listener(1, "0.0.0.0:80");
        let b = listener(2, "0.0.0.0:80");
        let elsewhere = listener(3, "127.0.0.1:80");
        let table = SocketTable { lookups: vec![lookup("10.0.0.11:80", Some(&a))], listeners: vec![a.clone(), b, elsewhere] };
        let reach = Reach::of(&table, endpoint("10.0.0.11:80"));
        assert_eq!(reach.sockets.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!((reach.sockets[&1].1, reach.sockets[&2].1, reach.lookups), (1, 0, 1));
    }

    #[test]
    fn a_dual_stack_socket_covers_v4_and_a_v6only_one_does_not() {
        let mut dual = listener(1, "[::]:80");
        dual.v6only = Some(false);
        assert!(covers(&dual, endpoint("10.0.0.11:80"), 2));
        dual.v6only = Some(true);
        assert!(!covers(&dual, endpoint("10.0.0.11:80"), 2));
        assert!(covers(&dual, endpoint("[fd00::11]:80"), 2));
    }

    #[test]
    fn a_mapped_address_and_a_device_cover_only_what_they_name() {
        assert!(covers(&listener(1, "[::ffff:10.0.0.11]:80"), endpoint("10.0.0.11:80"), 2));
        assert!(!covers(&listener(1, "[::ffff:10.0.0.12]:80"), endpoint("10.0.0.11:80"), 2));
        let mut bound = listener(1, "0.0.0.0:80");
        bound.bound_if = 3;
        assert!(!covers(&bound, endpoint("10.0.0.11:80"), 2));
        assert!(covers(&bound, endpoint("10.0.0.11:80"), 3));
        assert!(!covers(&listener(1, "0.0.0.0:8080"), endpoint("10.0.0.11:80"), 2));
    }
}
