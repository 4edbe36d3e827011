//! Cilium's bind protection: whether a row makes a bind of the wildcard address fail. Cause of a missing listener, no condition by itself.

use super::intercepted::entry;
use crate::condition::Evidence;
use crate::facts::Snapshot;
use crate::lb::datapath::find_master;
use crate::lb::service::{ServiceKey, ServiceKind, flag2};
use crate::lb::settings::{Generation, Settings};
use crate::net::{Endpoint, Family};

/// The surrogate row (0.0.0.0 or ::) that makes the bind of this port fail with EADDRINUSE though nobody owns it, or none.
///
/// Source: Cilium `bpf/bpf_sock.c` `__sock4_post_bind`, measured: it looks up the bound address, which for a wildcard bind is the
/// surrogate. NodePort, LoadBalancer and externalIPs rows refuse, also without backends; HostPort rows never do. A row of the node's
/// address refuses a bind of that address only, so it is no cause here. The L7 and delegate bits exempt from 1.18 on.
#[must_use]
pub fn bind_reserved(snapshot: &Snapshot, port: u16, family: Family) -> Option<Evidence> {
    let table = snapshot.lb.table(family).value()?;
    let settings = snapshot.cilium_agent.value().map_or_else(Settings::default, crate::facts::platform::CiliumAgent::settings);
    let surrogate = ServiceKey::surrogate(family, port, 0);
    let (key, row) = find_master(table, &settings, Endpoint { address: surrogate.address, port }, 6)?;
    let refuses = matches!(row.kind(), ServiceKind::NodePort | ServiceKind::LoadBalancer | ServiceKind::ExternalIP);
    let exempt = settings.generation >= Generation::V1_18 && (row.has2(flag2::L7_LOADBALANCER) || row.is_delegate());
    (refuses && !exempt).then(|| Evidence::from([("entry".to_owned(), entry(&key)), ("kind".to_owned(), row.kind().as_str().to_owned())]))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::facts::Reading;
    use crate::facts::platform::CiliumAgent;
    use crate::lb::service::Service;
    use crate::time::Window;

    fn with(key: ServiceKey, flags: u8, flags2: u8, minor: u16) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut table = crate::lb::facts::LbTable::default();
        table.services.insert(key, Service { union: [0; 4], count: 0, rev_nat: 1, flags, flags2, quarantined: 0 });
        snapshot.lb.v4 = Reading::Observed { value: table, window: Window::default() };
        let agent = CiliumAgent { version: Some((1, minor)), ..CiliumAgent::default() };
        snapshot.cilium_agent = Reading::Observed { value: agent, window: Window::default() };
        snapshot
    }

    fn reserved(key: ServiceKey, flags: u8, flags2: u8, minor: u16) -> bool {
        bind_reserved(&with(key, flags, flags2, minor), 80, Family::Ipv4).is_some()
    }

    #[test]
    fn a_surrogate_node_port_refuses_also_without_backends() {
        let surrogate = ServiceKey::surrogate(Family::Ipv4, 80, 6);
        let evidence = bind_reserved(&with(surrogate, 0x02, 0, 19), 80, Family::Ipv4).unwrap();
        assert_eq!(evidence["entry"], "0.0.0.0:80/6");
        assert_eq!(evidence["kind"], "NodePort");
        assert!(reserved(surrogate, 0x20, 0, 19) && reserved(surrogate, 0x01, 0, 19));
    }

    #[test]
    fn host_ports_other_addresses_and_other_families_do_not() {
        let surrogate = ServiceKey::surrogate(Family::Ipv4, 80, 6);
        assert!(!reserved(surrogate, 0x08, 0, 19));
        assert!(!reserved(ServiceKey::master(IpAddr::from([10, 0, 0, 1]), 80, 6), 0x42, 0, 19));
        assert!(!reserved(ServiceKey { port: 81, ..surrogate }, 0x02, 0, 19));
        assert_eq!(bind_reserved(&with(surrogate, 0x02, 0, 19), 80, Family::Ipv6), None);
    }

    #[test]
    fn the_l7_bit_exempts_from_1_18_on() {
        let surrogate = ServiceKey::surrogate(Family::Ipv4, 80, 6);
        assert!(!reserved(surrogate, 0x02, 0x04, 18) && !reserved(surrogate, 0x02, 0x08, 19));
        assert!(reserved(surrogate, 0x02, 0x04, 17));
    }

    #[test]
    fn protocol_0_rows_count_where_the_agent_looks_them_up() {
        let old = ServiceKey::surrogate(Family::Ipv4, 80, 0);
        assert!(reserved(old, 0x02, 0, 16) && reserved(old, 0x02, 0, 17));
        assert!(!reserved(old, 0x02, 0, 19));
    }
}
