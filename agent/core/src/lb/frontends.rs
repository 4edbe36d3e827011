//! L7 frontends: rows that send connections to a proxy port. What `TproxyPath` judges, and the fronts of `mode: load-balancer`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::service::{Service, ServiceKey, ServiceKind, flag};
use crate::net::{Endpoint, Family};

/// One L7 frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct L7Frontend {
    /// Frontend address and port.
    pub endpoint: Endpoint,
    /// Port of Envoy's listener.
    pub proxy_port: u16,
    /// Reachable from outside: a client on the wire can use it.
    pub routable: bool,
    /// A LoadBalancer or externalIPs address (not a node port, host port or cluster address).
    pub load_balancer: bool,
}

/// The L7 frontend that a row is, if it is one. Only external master rows of TCP (protocol 6, or 0 as older agents write it) count.
#[must_use]
pub fn l7_frontend(key: &ServiceKey, row: &Service) -> Option<L7Frontend> {
    if key.slot != 0 || key.scope != 0 || key.pad != 0 || key.port == 0 || !matches!(key.protocol, 0 | 6) {
        return None;
    }
    Some(L7Frontend {
        endpoint: Endpoint { address: key.address, port: key.port },
        proxy_port: row.proxy_port()?,
        routable: row.has(flag::ROUTABLE),
        load_balancer: matches!(row.kind(), ServiceKind::LoadBalancer | ServiceKind::ExternalIP),
    })
}

/// The proxy ports in use, each with the family of the clients that are sent there.
#[must_use]
pub fn proxy_ports(frontends: &[L7Frontend]) -> BTreeSet<(Family, u16)> {
    frontends.iter().map(|frontend| (Family::of(frontend.endpoint.address), frontend.proxy_port)).collect()
}

/// The endpoints that `mode: load-balancer` judges: frontends that a client outside can reach, of the expected ports.
///
/// Node ports carry the same flag in host-network mode, but are no expected ports unless the operator lists them, so no address
/// is taken that the operator did not mean.
#[must_use]
pub fn load_balancer_endpoints(frontends: &[L7Frontend], ports: &[u16]) -> BTreeSet<Endpoint> {
    frontends
        .iter()
        .filter(|frontend| frontend.routable && ports.contains(&frontend.endpoint.port))
        .map(|frontend| frontend.endpoint)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn key(port: u16) -> ServiceKey {
        ServiceKey::master(IpAddr::from([10, 0, 0, 1]), port, 6)
    }

    fn row(flags: u8, flags2: u8) -> Service {
        Service { union: [0x30, 0x39, 0, 0], count: 0, rev_nat: 1, flags, flags2, quarantined: 0 }
    }

    #[test]
    fn only_external_masters_with_the_flag_and_a_port_are_frontends() {
        let found = l7_frontend(&key(80), &row(0x60, 0x04)).unwrap();
        assert_eq!((found.proxy_port, found.routable, found.load_balancer), (12345, true, true));
        assert_eq!(l7_frontend(&key(80), &row(0x60, 0)), None);
        assert_eq!(l7_frontend(&key(80).with_slot(1), &row(0x60, 0x04)), None);
        assert_eq!(l7_frontend(&ServiceKey { scope: 1, ..key(80) }, &row(0x60, 0x04)), None);
        assert_eq!(l7_frontend(&ServiceKey { protocol: 17, ..key(80) }, &row(0x60, 0x04)), None);
        assert_eq!(l7_frontend(&key(0), &row(0x60, 0x04)), None);
    }

    #[test]
    fn fronts_of_load_balancer_mode_are_routable_and_of_expected_ports() {
        let frontends: Vec<_> = [(80, 0x60), (443, 0x60), (8080, 0x60), (81, 0x00)]
            .into_iter()
            .filter_map(|(port, flags)| l7_frontend(&key(port), &row(flags, 4)))
            .collect();
        let ports: Vec<u16> = load_balancer_endpoints(&frontends, &[80, 81, 443]).into_iter().map(|endpoint| endpoint.port).collect();
        assert_eq!(ports, [80, 443]);
        assert_eq!(proxy_ports(&frontends), BTreeSet::from([(Family::Ipv4, 12345)]));
    }
}
