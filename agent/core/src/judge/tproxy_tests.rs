//! One test per rule of `TproxyPath`.

use std::net::IpAddr;

use super::*;
use crate::facts::sockets::SocketId;
use crate::facts::steering::ProxyLookup;
use crate::facts::{Unavailable, Why};
use crate::lb::frontends::L7Frontend;
use crate::net::Endpoint;
use crate::time::Window;

fn observed<T>(value: T) -> Reading<T> {
    Reading::Observed { value, window: Window::default() }
}

fn listener() -> Listener {
    Listener {
        mark: Some(0xb00),
        transparent: Some(true),
        ..Listener::bound_to(SocketId { inode: 77, cookie: 7 }, ([127, 0, 0, 1], 12345).into())
    }
}

fn complete() -> Snapshot {
    let endpoint = Endpoint { address: IpAddr::from([10, 0, 0, 1]), port: 80 };
    let mut snapshot = Snapshot::default();
    snapshot.lb.l7 = observed(vec![L7Frontend { endpoint, proxy_port: 12345, routable: true, load_balancer: true }]);
    let proxies = vec![ProxyLookup { family: Family::Ipv4, port: 12345, picked: Some(listener()) }];
    snapshot.tproxy = observed(TproxyRoutes { rule: vec![Family::Ipv4], route: vec![Family::Ipv4], proxies });
    snapshot
}

fn changed(change: impl FnOnce(&mut TproxyRoutes)) -> Snapshot {
    let mut snapshot = complete();
    if let Reading::Observed { value, .. } = &mut snapshot.tproxy {
        change(value);
    }
    snapshot
}

fn judged(snapshot: &Snapshot, envoy: Option<bool>) -> (Status, Option<Reason>) {
    let finding = judge_tproxy(snapshot, |_| envoy);
    (finding.status, finding.reason)
}

#[test]
fn a_complete_path_holds_and_one_that_nobody_uses_says_so() {
    assert_eq!(judged(&complete(), Some(true)), (Status::True, None));
    let mut unused = complete();
    unused.lb.l7 = observed(Vec::new());
    assert_eq!(judged(&unused, Some(true)), (Status::True, Some(Reason::NotUsed)));
}

#[test]
fn each_missing_part_has_its_reason() {
    assert_eq!(judged(&changed(|t| t.rule.clear()), Some(true)), (Status::False, Some(Reason::RuleMissing)));
    assert_eq!(judged(&changed(|t| t.route.clear()), Some(true)), (Status::False, Some(Reason::RouteMissing)));
    assert_eq!(judged(&changed(|t| t.proxies[0].picked = None), Some(true)), (Status::False, Some(Reason::ProxyPortClosed)));
    assert_eq!(judged(&complete(), Some(false)), (Status::False, Some(Reason::ProxyPortForeign)));
    let opaque = |t: &mut TproxyRoutes| t.proxies[0].picked = Some(Listener { transparent: Some(false), ..listener() });
    assert_eq!(judged(&changed(opaque), Some(true)), (Status::False, Some(Reason::ProxyPortClosed)));
}

#[test]
fn the_rule_of_another_family_does_not_serve() {
    assert_eq!(judged(&changed(|t| t.rule = vec![Family::Ipv6]), Some(true)), (Status::False, Some(Reason::RuleMissing)));
    assert_eq!(judged(&changed(|t| t.proxies[0].family = Family::Ipv6), Some(true)), (Status::Unknown, Some(Reason::RoutesUnreadable)));
}

#[test]
fn missing_evidence_is_unknown_and_does_not_hide_a_proven_break() {
    assert_eq!(judged(&complete(), None), (Status::Unknown, Some(Reason::Unidentified)));
    assert_eq!(judged(&changed(|t| t.rule.clear()), None), (Status::False, Some(Reason::RuleMissing)));
    let mut unread = complete();
    unread.tproxy = Reading::Unavailable(Unavailable { why: Why::Permission, detail: String::new(), window: Window::default() });
    assert_eq!(judged(&unread, Some(true)), (Status::Unknown, Some(Reason::RoutesUnreadable)));
    assert_eq!(judged(&Snapshot::default(), Some(true)), (Status::Unknown, Some(Reason::RoutesUnreadable)));
}
