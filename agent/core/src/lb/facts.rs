//! What one pass knows of the LB maps. Source: pinned maps `cilium_lb4/6_services_v2`, `cilium_lb4/6_backends_v3`, `cilium_lxc`, `cilium_lb4/6_source_range`.
//!
//! A pass looks up only the keys that bear on its endpoints. A key that was asked for and is not here does not exist; what was
//! not asked for is not known, and [`LbTable::asked`] tells the two apart.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::backend::Backend;
use super::datapath::{Clients, Rows};
use super::frontends::L7Frontend;
use super::local::LocalEndpoint;
use super::service::{Service, ServiceKey};
use super::source_range::SourceRange;
use crate::facts::{Reading, Why};
use crate::memory::pairs;
use crate::net::{Endpoint, Family};

/// Rows of one family's maps that touch the asked endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LbTable {
    /// Endpoints whose keys were looked up: protocols 6 and 0, the wildcard of the address, the surrogates of the port.
    pub asked: BTreeSet<Endpoint>,
    /// Every row found, masters and slots.
    #[serde(with = "pairs")]
    pub services: BTreeMap<ServiceKey, Service>,
    /// Backends of the slots found, by id.
    #[serde(with = "pairs")]
    pub backends: BTreeMap<u32, Backend>,
    /// Source ranges of the services that check them.
    pub source_ranges: Vec<SourceRange>,
    /// Local pods and node addresses among the backends.
    #[serde(with = "pairs")]
    pub endpoints: BTreeMap<IpAddr, LocalEndpoint>,
    /// Masters of which not every slot was read, because there are too many, with the number that was.
    #[serde(with = "pairs")]
    pub cut_short: BTreeMap<ServiceKey, u16>,
    /// Why the source ranges of a service that checks them could not be read (whole), raw text.
    pub source_ranges_missing: Option<String>,
    /// Why `cilium_lxc` could not be read, raw text: what is local is then not known.
    pub endpoints_missing: Option<String>,
}

impl Rows for LbTable {
    fn service(&self, key: &ServiceKey) -> Option<Service> {
        self.services.get(key).copied()
    }

    fn backend(&self, id: u32) -> Option<Backend> {
        self.backends.get(&id).copied()
    }

    fn source_range(&self, rev_nat: u16, client: Option<IpAddr>) -> Clients {
        let mut ranges = self.source_ranges.iter().filter(|range| range.rev_nat == rev_nat);
        match client {
            Some(client) if ranges.any(|range| range.contains(client)) => Clients::All,
            Some(_) => Clients::None,
            None if ranges.clone().any(|range| range.prefix == 0) => Clients::All,
            None if ranges.next().is_some() => Clients::Some,
            // A writer that sets the flag writes the ranges: while they can't be read, the outcome is taken to depend on the client.
            None if self.source_ranges_missing.is_some() => Clients::Some,
            None => Clients::None,
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        // Without `cilium_lxc` the kinder answer: the judge does not take a delegate that depends on it as proven.
        self.endpoints_missing.is_some() || self.endpoints.contains_key(&address)
    }

    fn known_slots(&self, master: &ServiceKey, count: u16) -> u16 {
        self.cut_short.get(master).map_or(count, |&read| count.min(read))
    }
}

/// Both families. A family whose map does not exist is [`crate::facts::Why::Absent`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LbFacts {
    /// `cilium_lb4_*`.
    pub v4: Reading<LbTable>,
    /// `cilium_lb6_*`.
    pub v6: Reading<LbTable>,
    /// Families whose services map was seen since the agent started: an absent map of these was taken away, not switched off.
    pub seen: BTreeSet<Family>,
    /// Local addresses that Cilium lists as the host's (`cilium_lxc`, flag host), ascending.
    pub hosts: BTreeSet<IpAddr>,
    /// L7 frontends, from a slow walk apart from the pass.
    pub l7: Reading<Vec<L7Frontend>>,
}

impl LbFacts {
    /// The same content, read at whatever time.
    #[must_use]
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(a: &Reading<T>, b: &Reading<T>) -> bool {
            let failure = |reading: &Reading<T>| reading.unavailable().map(|failure| (failure.why, failure.detail.clone()));
            a.value() == b.value() && failure(a) == failure(b) && a.window().is_some() == b.window().is_some()
        }
        same(&self.v4, &other.v4)
            && same(&self.v6, &other.v6)
            && same(&self.l7, &other.l7)
            && (&self.seen, &self.hosts) == (&other.seen, &other.hosts)
    }

    /// The reading of one family.
    #[must_use]
    pub const fn table(&self, family: Family) -> &Reading<LbTable> {
        match family {
            Family::Ipv4 => &self.v4,
            Family::Ipv6 => &self.v6,
        }
    }

    /// Cilium's load-balancer maps exist on this node: one was read, or is there in an unknown layout, or was seen before.
    #[must_use]
    pub fn maps_exist(&self) -> bool {
        let there = |reading: &Reading<LbTable>| reading.value().is_some() || reading.unavailable().is_some_and(|u| u.why == Why::Layout);
        !self.seen.is_empty() || there(&self.v4) || there(&self.v6)
    }

    /// Cilium does not serve this family: its map was never there while the other's is. An agent that finds neither cannot tell
    /// (another bpffs, no Cilium), and a map that was there before was taken away.
    #[must_use]
    pub fn is_switched_off(&self, family: Family) -> bool {
        let other = match self.table(family.other()) {
            Reading::Observed { .. } => true,
            Reading::Unavailable(other) => other.why != Why::Absent,
            Reading::NotRead => false,
        };
        let absent = self.table(family).unavailable().is_some_and(|failure| failure.why == Why::Absent);
        absent && other && !self.seen.contains(&family)
    }

    /// The families whose services map could be read: those that Cilium serves.
    pub fn families(&self) -> impl Iterator<Item = Family> + '_ {
        Family::ALL.into_iter().filter(|&family| self.table(family).value().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Unavailable;
    use crate::time::{Mono, Window};

    fn read_at<T>(value: T, at: u64) -> Reading<T> {
        Reading::Observed { value, window: Window { begin: Mono(at), end: Mono(at + 1) } }
    }

    #[test]
    fn a_family_is_switched_off_only_while_the_other_is_served_and_it_was_never_seen() {
        let failed = |why| Reading::Unavailable(Unavailable { why, detail: String::new(), window: Window::default() });
        let v4_only = LbFacts { v4: read_at(LbTable::default(), 1), v6: failed(Why::Absent), ..LbFacts::default() };
        assert!(v4_only.is_switched_off(Family::Ipv6) && !v4_only.is_switched_off(Family::Ipv4));
        let unreadable = LbFacts { v4: failed(Why::Permission), ..v4_only.clone() };
        assert!(unreadable.is_switched_off(Family::Ipv6), "the other is there, though it can't be read");
        for (why, facts) in [
            ("taken away", LbFacts { seen: [Family::Ipv6].into(), ..v4_only.clone() }),
            ("no Cilium", LbFacts { v4: failed(Why::Absent), ..v4_only.clone() }),
            ("refused", LbFacts { v6: failed(Why::Permission), ..v4_only.clone() }),
            ("not read", LbFacts { v4: Reading::NotRead, ..v4_only }),
        ] {
            assert!(!facts.is_switched_off(Family::Ipv6), "{why}");
        }
    }

    #[test]
    fn the_time_of_a_read_is_no_content_and_everything_else_is() {
        let facts = |at| LbFacts { v4: read_at(LbTable::default(), at), ..LbFacts::default() };
        assert!(facts(1).says_the_same_as(&facts(2)));
        let with_row = LbTable { asked: [Endpoint { address: [10, 0, 0, 1].into(), port: 80 }].into(), ..LbTable::default() };
        assert!(!facts(1).says_the_same_as(&LbFacts { v4: read_at(with_row, 1), ..facts(1) }));
        assert!(!facts(1).says_the_same_as(&LbFacts { seen: [Family::Ipv4].into(), ..facts(1) }));
        let lost =
            |why| LbFacts { v4: Reading::Unavailable(Unavailable { why, detail: String::new(), window: Window::default() }), ..facts(1) };
        assert!(!facts(1).says_the_same_as(&lost(Why::Permission)));
        assert!(!lost(Why::Absent).says_the_same_as(&lost(Why::Permission)));
        assert!(!LbFacts::default().says_the_same_as(&facts(1)));
    }
}
