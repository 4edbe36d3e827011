//! `NotIntercepted` as a truth table: one test per kind of evidence.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::*;
use crate::condition::Finding;
use crate::facts::platform::CiliumAgent;
use crate::facts::sockets::{Lookup, SocketId, SocketTable};
use crate::facts::steering::{NetfilterFacts, NetfilterPath, ProxyLookup, SkLookupPrograms, TproxyRoutes};
use crate::facts::{Reading, Unavailable, Why};
use crate::lb::backend::Backend;
use crate::lb::facts::LbTable;
use crate::lb::local::{LocalEndpoint, PodName};
use crate::lb::service::{Service, ServiceKey};
use crate::lb::source_range::SourceRange;
use crate::net::Family;
use crate::reason::Reason;
use crate::time::Window;

fn observed<T>(value: T) -> Reading<T> {
    Reading::Observed { value, window: Window::default() }
}

fn unavailable<T>(why: Why) -> Reading<T> {
    Reading::Unavailable(Unavailable { why, detail: format!("{why:?}"), window: Window::default() })
}

fn here() -> Endpoint {
    Endpoint { address: IpAddr::from([10, 0, 0, 1]), port: 80 }
}

fn pod() -> IpAddr {
    IpAddr::from([10, 42, 1, 7])
}

fn key() -> ServiceKey {
    ServiceKey::master(here().address, 80, 6)
}

fn row(flags: u8, flags2: u8, count: u16) -> Service {
    Service { union: [0; 4], count, rev_nat: 7, flags, flags2, quarantined: 0 }
}

fn empty() -> LbTable {
    LbTable { asked: BTreeSet::from([here()]), ..LbTable::default() }
}

/// One master on 10.0.0.1:80 with these backends.
fn entry(flags: u8, flags2: u8, backends: &[(IpAddr, u16)]) -> LbTable {
    let mut table = empty();
    table.services.insert(key(), row(flags, flags2, u16::try_from(backends.len()).unwrap()));
    for (slot, (address, port)) in (1_u16..).zip(backends) {
        table.services.insert(key().with_slot(slot), Service { union: u32::from(slot).to_ne_bytes(), ..row(flags, 0, 0) });
        table.backends.insert(u32::from(slot), Backend { address: *address, port: *port, protocol: 6, state: 0 });
    }
    let name = PodName { namespace: "kube-system".to_owned(), name: "thief-x".to_owned() };
    table.endpoints.insert(pod(), LocalEndpoint { id: 9, host: false, pod: Some(name) });
    table
}

fn snapshot(table: LbTable) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.lb.v4 = observed(table);
    snapshot
}

fn with_version(table: LbTable, minor: u16) -> Snapshot {
    let mut snapshot = snapshot(table);
    snapshot.cilium_agent = observed(CiliumAgent { version: Some((1, minor)), ..CiliumAgent::default() });
    snapshot
}

fn judged(snapshot: &Snapshot) -> Finding {
    judge_intercepted(snapshot, here(), |_| Some(true))
}

fn outcome(snapshot: &Snapshot) -> (Status, Option<Reason>) {
    let finding = judged(snapshot);
    (finding.status, finding.reason)
}

#[test]
fn no_entry_passes() {
    assert_eq!(judged(&snapshot(empty())), Finding::holds(ConditionType::NotIntercepted));
}

#[test]
fn each_kind_of_entry_has_its_reason() {
    let theft = |flags, flags2| outcome(&snapshot(entry(flags, flags2, &[(pod(), 8080)])));
    assert_eq!(theft(0x48, 0), (Status::False, Some(Reason::HostPort)));
    assert_eq!(theft(0x42, 0), (Status::False, Some(Reason::NodePort)));
    assert_eq!(theft(0x51, 0), (Status::False, Some(Reason::ExternalIP)));
    assert_eq!(theft(0x60, 0), (Status::False, Some(Reason::LoadBalancerIP)));
    assert_eq!(theft(0x00, 0), (Status::False, Some(Reason::ClusterIP)));
    assert_eq!(theft(0x40, 1), (Status::False, Some(Reason::ClusterIP)));
}

#[test]
fn message_and_evidence_name_entry_outcome_and_pod() {
    let finding = judged(&with_version(entry(0x48, 0, &[(pod(), 8080)]), 19));
    assert_eq!(
        finding.message,
        "the HostPort entry 10.0.0.1:80/6 sends connections for 10.0.0.1:80 to pod kube-system/thief-x (10.42.1.7:8080)"
    );
    assert_eq!(finding.evidence["entry"], "10.0.0.1:80/6");
    assert_eq!(finding.evidence["kind"], "HostPort");
    assert_eq!(finding.evidence["outcome"], "dnat 10.42.1.7:8080");
    assert_eq!(finding.evidence["thief"], "pod kube-system/thief-x (10.42.1.7:8080)");
}

#[test]
fn a_thief_without_a_name_is_its_address() {
    let far = IpAddr::from([10, 42, 2, 5]);
    assert_eq!(judged(&snapshot(entry(0x60, 0, &[(far, 8080)]))).evidence["thief"], "10.42.2.5:8080");
    let dead = judged(&snapshot(entry(0x48, 0, &[(far, 8080)])));
    assert_eq!(dead.evidence["outcome"], "drop 134");
    assert!(dead.message.contains("10.42.2.5:8080 is not on this node"), "{}", dead.message);
}

#[test]
fn an_entry_without_backends_refuses() {
    let finding = judged(&snapshot(entry(0x60, 0, &[])));
    assert_eq!((finding.status, finding.evidence["outcome"].as_str()), (Status::False, "reject"));
}

#[test]
fn an_entry_whose_backend_is_the_listener_passes_and_one_of_two_does_not() {
    let own = judged(&snapshot(entry(0x60, 0, &[(here().address, 80)])));
    assert_eq!((own.status, own.evidence["outcome"].as_str()), (Status::True, "pass"));
    let shared = judged(&snapshot(entry(0x60, 0, &[(here().address, 80), (pod(), 8080)])));
    assert_eq!(shared.reason, Some(Reason::LoadBalancerIP));
    assert!(shared.message.contains("1 of 2 connections"), "{}", shared.message);
}

#[test]
fn a_wildcard_drops_what_has_no_entry_of_its_own() {
    let mut table = empty();
    table.services.insert(ServiceKey::wildcard(here().address), row(0x20, 0, 0));
    assert_eq!(outcome(&with_version(table.clone(), 19)), (Status::False, Some(Reason::WildcardDrop)));
    assert_eq!(outcome(&with_version(table, 18)), (Status::True, None), "older datapaths do not look");
}

#[test]
fn an_unknown_version_is_judged_as_the_newest_and_says_so() {
    let mut table = empty();
    table.services.insert(ServiceKey { protocol: 0, ..key() }, row(0x48, 0, 0));
    assert_eq!(outcome(&with_version(table.clone(), 16)), (Status::False, Some(Reason::HostPort)));
    let finding = judged(&snapshot(table));
    assert_eq!(finding.status, Status::True);
    assert!(finding.message.contains("version is not known (1.16, 1.17, 1.18 would differ)"), "{}", finding.message);
}

#[test]
fn source_ranges_that_admit_some_are_shown_and_those_that_admit_nobody_are_a_drop() {
    let mut table = entry(0xe0, 0, &[(here().address, 80)]);
    let nobody = judged(&snapshot(table.clone()));
    assert_eq!((nobody.status, nobody.evidence["outcome"].as_str()), (Status::False, "drop 177"));
    table.source_ranges.push(SourceRange { rev_nat: 7, network: IpAddr::from([192, 0, 2, 0]), prefix: 24 });
    let some = judged(&snapshot(table));
    assert_eq!(some.status, Status::True);
    assert!(some.evidence.contains_key("source_ranges"));
}

fn listener(address: IpAddr, port: u16) -> Listener {
    Listener::bound_to(SocketId { inode: 77, cookie: 7 }, (address, port).into())
}

fn with_proxy(picked: Option<Listener>) -> Snapshot {
    let mut table = entry(0x60, 4, &[]);
    table.services.insert(key(), Service { union: [0x30, 0x39, 0, 0], ..row(0x60, 4, 0) });
    let mut snapshot = snapshot(table);
    let proxies = vec![ProxyLookup { family: Family::Ipv4, port: 12345, picked }];
    snapshot.tproxy = observed(TproxyRoutes { proxies, ..TproxyRoutes::default() });
    snapshot
}

#[test]
fn an_l7_entry_is_judged_by_who_serves_its_port() {
    let of = |snapshot: &Snapshot, envoy| {
        let finding = judge_intercepted(snapshot, here(), |_| envoy);
        (finding.status, finding.reason)
    };
    let served = with_proxy(Some(listener(IpAddr::from([127, 0, 0, 1]), 12345)));
    assert_eq!(of(&served, Some(true)), (Status::True, None));
    assert_eq!(of(&served, Some(false)), (Status::False, Some(Reason::RedirectedToProxy)));
    assert_eq!(of(&served, None), (Status::Unknown, Some(Reason::Unidentified)));
    assert_eq!(of(&with_proxy(None), Some(true)), (Status::False, Some(Reason::RedirectedToProxy)));
    let unread = Snapshot { tproxy: Reading::NotRead, ..served };
    assert_eq!(of(&unread, Some(true)), (Status::Unknown, Some(Reason::SocketsUnreadable)));
}

#[test]
fn an_l7_entry_for_the_same_port_ends_at_the_same_listener() {
    let mut table = entry(0x60, 4, &[]);
    table.services.insert(key(), Service { union: [0, 80, 0, 0], ..row(0x60, 4, 0) });
    assert_eq!(outcome(&snapshot(table)), (Status::True, None));
}

#[test]
fn unreadable_maps_are_unknown_with_their_reason() {
    let of = |why| {
        let mut snapshot = Snapshot::default();
        snapshot.lb.v4 = unavailable(why);
        snapshot.lb.v6 = observed(LbTable::default());
        outcome(&snapshot)
    };
    assert_eq!(of(Why::Permission), (Status::Unknown, Some(Reason::MapsUnreadable)));
    assert_eq!(of(Why::Layout), (Status::Unknown, Some(Reason::MapLayoutUnknown)));
    assert_eq!(of(Why::Absent), (Status::True, None), "Cilium serves IPv6 only");
    assert_eq!(outcome(&Snapshot::default()), (Status::Unknown, Some(Reason::MapsUnreadable)));
}

#[test]
fn maps_that_are_nowhere_or_were_taken_away_are_unknown() {
    let mut nowhere = Snapshot::default();
    nowhere.lb.v4 = unavailable(Why::Absent);
    nowhere.lb.v6 = unavailable(Why::Absent);
    assert_eq!(outcome(&nowhere), (Status::Unknown, Some(Reason::NoCiliumMaps)));
    let mut taken = nowhere.clone();
    taken.lb.v6 = observed(LbTable::default());
    taken.lb.seen.insert(Family::Ipv4);
    assert_eq!(outcome(&taken), (Status::Unknown, Some(Reason::NoCiliumMaps)));
}

#[test]
fn what_was_not_asked_for_or_not_wholly_read_is_unknown() {
    assert_eq!(outcome(&snapshot(LbTable::default())), (Status::Unknown, Some(Reason::MapsUnreadable)));
    let mut delegate = entry(0x60, 0x08, &[(pod(), 8080)]);
    assert_eq!(outcome(&with_version(delegate.clone(), 19)), (Status::True, None));
    delegate.endpoints_missing = Some("refused".to_owned());
    assert_eq!(outcome(&with_version(delegate, 19)), (Status::Unknown, Some(Reason::MapsUnreadable)));
    let mut long = entry(0x60, 0, &[(here().address, 80)]);
    long.services.insert(key(), row(0x60, 0, 500));
    long.cut_short.insert(key(), 1);
    assert_eq!(outcome(&snapshot(long)), (Status::Unknown, Some(Reason::MapsUnreadable)));
}

fn with_pick(picked: Option<Listener>) -> Snapshot {
    let mut snapshot = snapshot(empty());
    let lookup = Lookup { endpoint: here(), ingress_if: 2, source_port: 40000, picked };
    let listeners = vec![listener(IpAddr::from([0, 0, 0, 0]), 80)];
    snapshot.sockets = observed(SocketTable { lookups: vec![lookup], listeners });
    snapshot.steering = observed(SkLookupPrograms { ids: vec![12, 31] });
    snapshot
}

fn steered(picked: Listener, envoy: Option<bool>) -> (Status, Option<Reason>) {
    let finding = judge_intercepted(&with_pick(Some(picked)), here(), |_| envoy);
    (finding.status, finding.reason)
}

#[test]
fn binds_that_the_kernel_follows_are_no_steering() {
    let any4 = listener(IpAddr::from([0, 0, 0, 0]), 80);
    let any6 = listener("::".parse().unwrap(), 80);
    let mapped = listener("::ffff:10.0.0.1".parse().unwrap(), 80);
    for picked in [
        any4.clone(),
        any6.clone(),
        listener(here().address, 80),
        Listener { family: Family::Ipv6, ..mapped },
        Listener { bound_if: 2, ..any4.clone() },
    ] {
        assert_eq!(steered(picked.clone(), Some(false)), (Status::True, None), "{picked:?}");
    }
    let unexplained = (Status::False, Some(Reason::SkLookup));
    assert_eq!(steered(Listener { v6only: Some(true), ..any6 }, Some(false)), unexplained);
    assert_eq!(steered(Listener { bound_if: 3, ..any4.clone() }, Some(false)), unexplained);
    assert_eq!(steered(Listener { port: 8080, ..any4 }, Some(false)), unexplained);
    assert_eq!(steered(listener(IpAddr::from([127, 0, 0, 1]), 80), Some(false)), unexplained);
}

#[test]
fn steering_to_envoy_is_fine_and_to_nobody_knows_whom_is_unknown() {
    let elsewhere = listener(IpAddr::from([127, 0, 0, 1]), 9000);
    assert_eq!(steered(elsewhere.clone(), Some(true)), (Status::True, None));
    assert_eq!(steered(elsewhere.clone(), None), (Status::Unknown, Some(Reason::Unidentified)));
    let finding = judge_intercepted(&with_pick(Some(elsewhere)), here(), |_| Some(false));
    assert_eq!(finding.evidence["programs"], "12,31");
    assert_eq!(finding.evidence["thief"], "127.0.0.1:9000 (inode 77)");
}

#[test]
fn a_lookup_without_answer_beside_a_listener_needs_a_program() {
    let mut snapshot = with_pick(None);
    assert_eq!(outcome(&snapshot), (Status::False, Some(Reason::SkLookup)));
    snapshot.steering = observed(SkLookupPrograms::default());
    assert_eq!(outcome(&snapshot), (Status::True, None), "an ordinary missing listener is not ours to report");
}

#[test]
fn netfilter_counts_once_it_is_read() {
    let of = |path| {
        let mut snapshot = snapshot(empty());
        snapshot.netfilter = observed(NetfilterFacts { paths: vec![(here(), path)] });
        outcome(&snapshot)
    };
    assert_eq!(of(NetfilterPath::Passes), (Status::True, None));
    let redirected = NetfilterPath::Redirected { to: "10.1.1.1:80".to_owned(), rule: "x".to_owned() };
    assert_eq!(of(redirected), (Status::False, Some(Reason::NetfilterRedirect)));
    assert_eq!(of(NetfilterPath::Dropped { rule: "x".to_owned() }), (Status::False, Some(Reason::NetfilterDrop)));
    assert_eq!(of(NetfilterPath::Unclear { because: "x".to_owned() }), (Status::Unknown, Some(Reason::NetfilterUnclear)));
    let mut unread = snapshot(empty());
    unread.netfilter = unavailable(Why::Permission);
    assert_eq!(outcome(&unread), (Status::Unknown, Some(Reason::NetfilterUnreadable)));
    unread.netfilter = observed(NetfilterFacts::default());
    assert_eq!(outcome(&unread), (Status::Unknown, Some(Reason::NetfilterUnreadable)));
}

#[test]
fn a_proven_theft_wins_over_missing_evidence_and_the_more_causal_reason_over_the_less() {
    let mut snapshot = with_pick(Some(listener(IpAddr::from([127, 0, 0, 1]), 9000)));
    snapshot.lb.v4 = unavailable(Why::Permission);
    let finding = judge_intercepted(&snapshot, here(), |_| Some(false));
    assert_eq!(finding.reason, Some(Reason::SkLookup));
    snapshot.lb.v4 = observed(entry(0x48, 0, &[(pod(), 8080)]));
    let finding = judge_intercepted(&snapshot, here(), |_| Some(false));
    assert_eq!(finding.reason, Some(Reason::HostPort));
}

#[test]
fn a_mapped_address_is_the_ipv4_address_on_the_wire() {
    let mapped = Endpoint { address: "::ffff:10.0.0.1".parse().unwrap(), port: 80 };
    let finding = judge_intercepted(&snapshot(entry(0x48, 0, &[(pod(), 8080)])), mapped, |_| Some(true));
    assert_eq!(finding.reason, Some(Reason::HostPort));
}

#[test]
fn a_hook_that_was_read_refutes_its_reasons_while_another_is_missing() {
    let mut without_maps = snapshot(empty());
    without_maps.lb.v4 = unavailable(Why::Permission);
    without_maps.sockets = observed(SocketTable::default());
    let finding = judged(&without_maps);
    assert_eq!((finding.status, finding.refutes), (Status::Unknown, vec![Reason::SkLookup]));
    let mut without_sockets = snapshot(empty());
    without_sockets.sockets = unavailable(Why::Failed);
    let finding = judged(&without_sockets);
    assert_eq!((finding.status, finding.reason), (Status::Unknown, Some(Reason::SocketsUnreadable)), "no steering was disproven");
    assert!(finding.refutes.contains(&Reason::HostPort) && !finding.refutes.contains(&Reason::SkLookup));
}
