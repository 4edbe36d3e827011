//! Every word of the closed list of reasons: a scenario that produces it, and one that clears it.

use gwready_core::condition::{ConditionType, Status};
use gwready_core::facts::probes::{Acceptor, ProbeOutcome};
use gwready_core::facts::processes::RunState;
use gwready_core::facts::sockets::Listener;
use gwready_core::facts::steering::{ProxyLookup, TproxyRoutes};
use gwready_core::facts::{Reading, Why};
use gwready_core::lb::frontends::L7Frontend;
use gwready_core::lb::service::{Service, ServiceKey};
use gwready_core::net::{Endpoint, Family};
use gwready_core::policy::Policy;
use gwready_core::reason::Reason;

use super::faults::{self, CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER, NODE_PORT};
use super::node::{A, B, ENVOY, Node, by_envoy, lost, plain_socket, socket};
use super::watch::Watch;
use crate::kept;

/// Where the reason must stand, and what is seen of the node from the twentieth to the 25th second.
struct Scenario {
    on: ConditionType,
    status: Status,
    seen: Node,
}

fn fails(on: ConditionType, seen: Node) -> Scenario {
    Scenario { on, status: Status::False, seen }
}

fn unclear(on: ConditionType, change: impl FnOnce(&mut gwready_core::facts::Snapshot)) -> Scenario {
    let mut seen = Node::healthy();
    change(&mut seen.snapshot);
    Scenario { on, status: Status::Unknown, seen }
}

fn probed(outcome: ProbeOutcome, acceptor: Acceptor, failures: u32) -> Node {
    Node::healthy().probed("10.0.0.11:80", outcome, acceptor, failures)
}

/// An L7 frontend of a load balancer's address that sends its clients to proxy port 13000, where this socket listens.
fn proxied(picked: Option<Listener>, rule: &[Family], route: &[Family]) -> Node {
    let mut node = Node::healthy();
    let endpoint = Endpoint { address: "192.0.2.7".parse().unwrap(), port: 80 };
    let frontend = L7Frontend { endpoint, proxy_port: 13_000, routable: true, load_balancer: true };
    let window = node.snapshot.lb.l7.window().unwrap();
    node.snapshot.lb.l7 = Reading::Observed { value: vec![frontend], window };
    let proxies = vec![ProxyLookup { family: Family::Ipv4, port: 13_000, picked: picked.clone() }];
    node.snapshot.tproxy = Reading::Observed { value: TproxyRoutes { rule: rule.to_vec(), route: route.to_vec(), proxies }, window };
    match picked {
        Some(row) if row.mark == Some(0xb00) => node.listens(&row, &[ENVOY]),
        Some(row) => node.process(77, "python3").listens(&row, &[77]),
        None => node,
    }
}

/// An L7 entry of the node's own address and port that marks for a proxy port where nothing listens.
fn redirected() -> Node {
    let mut node = proxied(None, &[Family::Ipv4], &[Family::Ipv4]);
    if let Reading::Observed { value: table, .. } = &mut node.snapshot.lb.v4 {
        let row = Service { union: [0x32, 0xc8, 0, 0], count: 0, rev_nat: 7, flags: NODE_PORT, flags2: 0x04, quarantined: 0 };
        table.services.insert(ServiceKey::master(A.parse().unwrap(), 80, 6), row);
    }
    node
}

fn named_update_rejected() -> Node {
    Node::healthy().admin(|admin| {
        admin.listeners[0].error = Some("no".into());
        admin.listeners[0].rejected_ports = vec![80];
    })
}

fn restarting() -> Node {
    Node::healthy().owners(|owners| owners.envoy_starts = [5.0, 12.0, 19.0].map(super::watch::mono).to_vec())
}

fn aged(seconds: u64) -> Node {
    Node { agent_age: std::time::Duration::from_secs(seconds), ..Node::healthy() }
}

/// The scenario of each reason; none for the two that are about time alone ([`starting_and_stale_are_about_time`]).
fn scenario(reason: Reason) -> Option<Scenario> {
    use ConditionType as C;
    use Reason as R;
    let loopback = || Node::healthy().closed(80).listens(&socket(5, "127.0.0.1:80"), &[ENVOY]);
    let elsewhere = || Node::healthy().closed(80).listens(&socket(5, "10.0.0.99:80"), &[ENVOY]);
    let v4 = [Family::Ipv4];
    Some(match reason {
        R::Starting | R::Stale => return None,
        R::EnvoyNotRunning => fails(C::EnvoyLive, Node::healthy().without_envoy()),
        R::EnvoyRestarting => fails(C::EnvoyLive, restarting()),
        R::EnvoyTerminating => fails(C::EnvoyLive, faults::terminating(24)),
        R::EnvoyDraining => fails(C::EnvoyLive, faults::draining()),
        R::DrainRequested => fails(C::InService, faults::drained(None)),
        R::ProcessStopped => fails(C::Accepting, faults::envoy_in_state(RunState::Stopped)),
        R::BindPermissionDenied => fails(C::Listening, faults::may_not_bind()),
        R::PortReservedByCilium => fails(C::Listening, Node::healthy().closed(80).surrogate(80, NODE_PORT)),
        R::ListenerRejected => fails(C::Listening, faults::change_rejected("no")),
        R::NoListener => fails(C::Listening, Node::healthy().closed(80)),
        R::LoopbackOnly => fails(C::Listening, loopback()),
        R::AddressesNotCovered => fails(C::Listening, elsewhere()),
        R::WildcardDrop => fails(C::NotIntercepted, Node::healthy().wildcard(A)),
        R::HostPort => fails(C::NotIntercepted, faults::host_port()),
        R::NodePort => fails(C::NotIntercepted, faults::service(NODE_PORT)),
        R::ExternalIP => fails(C::NotIntercepted, faults::service(EXTERNAL_IP)),
        R::LoadBalancerIP => fails(C::NotIntercepted, faults::service(LOAD_BALANCER)),
        R::ClusterIP => fails(C::NotIntercepted, faults::service(CLUSTER_IP)),
        R::RedirectedToProxy => fails(C::NotIntercepted, redirected()),
        R::SkLookup => fails(C::NotIntercepted, faults::steered()),
        R::NetfilterRedirect => fails(C::NotIntercepted, faults::redirected_by_rule()),
        R::NetfilterDrop => fails(C::NotIntercepted, faults::firewalled()),
        R::ForeignOwner => fails(C::OwnedByEnvoy, faults::another_proxy()),
        R::ShadowedAddress => fails(C::OwnedByEnvoy, faults::shadowed(&plain_socket(9, "10.0.0.11:80"))),
        R::SharedPort => fails(C::OwnedByEnvoy, faults::shared()),
        R::TwoEnvoys => fails(C::OwnedByEnvoy, faults::two_envoys()),
        R::OutOfFileDescriptors => fails(C::Accepting, faults::no_descriptors()),
        R::QueueStuck => fails(C::Accepting, Node::healthy().queue(80, 7)),
        R::WorkerStuck => fails(C::Accepting, faults::workers(2)),
        R::Overloaded => Scenario { status: Status::True, ..fails(C::Accepting, Node::healthy().queue(80, 129)) },
        R::ProxyPortForeign => fails(C::TproxyPath, proxied(Some(plain_socket(13, "127.0.0.1:13000")), &v4, &v4)),
        R::ProxyPortClosed => fails(C::TproxyPath, proxied(None, &v4, &v4)),
        R::RuleMissing => fails(C::TproxyPath, proxied(Some(socket(13, "127.0.0.1:13000")), &[], &v4)),
        R::RouteMissing => fails(C::TproxyPath, proxied(Some(socket(13, "127.0.0.1:13000")), &v4, &[])),
        R::NotUsed => Scenario { status: Status::True, ..fails(C::TproxyPath, Node::healthy()) },
        R::ProbeRefused => fails(C::Responding, probed(ProbeOutcome::Refused, Acceptor::Unknown, 3)),
        R::ProbeReset => fails(C::Responding, probed(ProbeOutcome::Reset, by_envoy(), 3)),
        R::ProbeTimeout => fails(C::Responding, probed(ProbeOutcome::Timeout, by_envoy(), 3)),
        R::NotEnvoy => fails(C::Responding, faults::probe_answered_by_another()),
        R::TlsFailed => fails(C::Responding, faults::probe_failed(443, ProbeOutcome::TlsFailed("alert 40".into()), 3)),
        R::UnexpectedStatus => {
            let outcome = ProbeOutcome::Answered { status: 404, server: Some("envoy".into()) };
            fails(C::Responding, probed(outcome, by_envoy(), 3).with_probe("10.0.0.11:80", |probe| probe.expect_status = vec![200]))
        }
        R::UpdateRejected => fails(C::ConfigCurrent, named_update_rejected()),
        R::XdsDisconnected => fails(C::ConfigCurrent, Node::healthy().admin(|admin| admin.control_plane_connected = Some(false))),
        R::CiliumAgentStale => fails(C::CiliumAgentAlive, aged(11)),
        R::SocketsUnreadable => unclear(C::Listening, |snapshot| snapshot.sockets = lost(Why::Failed, "EMFILE")),
        R::QueuesUnreadable => unclear(C::Accepting, |snapshot| snapshot.sockets = lost(Why::Failed, "EMFILE")),
        R::Unidentified => unclear(C::OwnedByEnvoy, |snapshot| snapshot.owners = lost(Why::Permission, "ptrace")),
        R::MapsUnreadable => unclear(C::NotIntercepted, |snapshot| snapshot.lb.v4 = lost(Why::Permission, "EPERM")),
        R::MapLayoutUnknown => unclear(C::NotIntercepted, |snapshot| snapshot.lb.v4 = lost(Why::Layout, "value of 16 bytes")),
        R::NoCiliumMaps => unclear(C::NotIntercepted, |snapshot| snapshot.lb.v4 = lost(Why::Absent, "no such pin")),
        R::NetfilterUnclear => Scenario { status: Status::Unknown, ..fails(C::NotIntercepted, faults::guarded_by_quota()) },
        R::NetfilterUnreadable => unclear(C::NotIntercepted, |snapshot| snapshot.netfilter = lost(Why::Permission, "EPERM")),
        R::NotProbed => unclear(C::Responding, |snapshot| snapshot.probes = lost(Why::Failed, "no socket")),
        R::NotJudged => Scenario {
            status: Status::Unknown,
            ..fails(C::Responding, probed(ProbeOutcome::NotJudgeable("passthrough".into()), by_envoy(), 0))
        },
        R::ProbeTranslated => {
            Scenario { status: Status::Unknown, ..fails(C::Responding, probed(ProbeOutcome::Timeout, Acceptor::Elsewhere, 9)) }
        }
        R::AdminUnreachable => unclear(C::ConfigCurrent, |snapshot| snapshot.envoy = lost(Why::Absent, "no socket")),
        R::RoutesUnreadable => unclear(C::TproxyPath, |snapshot| snapshot.lb.l7 = lost(Why::Permission, "EPERM")),
        R::NoLivenessStamp => unclear(C::CiliumAgentAlive, |snapshot| snapshot.cilium_agent = lost(Why::Absent, "no such pin")),
    })
}

/// A healthy node that turns into the scenario's. Queues are judged by many readings; a full one is overload only while it is young.
fn watch(scenario: &Scenario) -> Watch {
    let mut watch = Watch::of(&Node::healthy());
    match (scenario.on, scenario.status) {
        (ConditionType::Accepting, Status::False) => watch.keeps_seeing(20.0, 25.0, &scenario.seen),
        (ConditionType::Accepting, Status::True) => watch.keeps_seeing(20.0, 20.5, &scenario.seen),
        _ => watch.sees(20.0, &scenario.seen).sees(25.0, &scenario.seen),
    };
    watch
}

/// What the reason stands on among the published conditions.
fn stands_on(watch: &Watch, reason: Reason) -> Vec<(ConditionType, Status)> {
    watch.verdict().conditions.iter().filter(|c| c.reason == Some(reason)).map(|c| (c.kind, c.status)).collect()
}

#[test]
fn is_produced_and_cleared() {
    for &reason in Reason::ALL {
        let Some(scenario) = scenario(reason) else { continue };
        let mut watch = watch(&scenario);
        let stands = stands_on(&watch, reason);
        assert!(stands.contains(&(scenario.on, scenario.status)), "{reason} is not there: {:?} {stands:?}", watch.reasons());
        kept!(watch, reason);
        if reason == Reason::NotUsed {
            let used = proxied(Some(socket(13, "127.0.0.1:13000")), &[Family::Ipv4], &[Family::Ipv4]);
            assert!(!watch.sees(30.0, &used).reasons().contains(&reason));
        } else {
            let mended = if reason == Reason::ListenerRejected { faults::third_port_bound() } else { Node::healthy() };
            watch.sees(31.0, &mended).sees(33.0, &mended);
            assert!(!watch.reasons().contains(&reason), "{reason} does not go away");
            assert_eq!(watch.node(), "up", "after {reason}");
        }
    }
}

#[test]
fn starting_and_stale_are_about_time() {
    let mut watch = Watch::start(Policy::default());
    assert_eq!(stands_on(watch.sees(1.0, &Node { snapshot: Default::default(), ..Node::healthy() }), Reason::Starting).len(), 1);
    kept!(watch, "Starting");
    assert!(!watch.sees(2.0, &Node::healthy()).reasons().contains(&Reason::Starting));
    kept!(watch, "Starting_is_over");
    assert_eq!(stands_on(watch.sees_nothing_new(8.0, 2.0, &Node::healthy()), Reason::Stale), [(ConditionType::Observed, Status::False)]);
    kept!(watch, "Stale");
    assert!(!watch.sees(9.0, &Node::healthy()).sees(11.0, &Node::healthy()).reasons().contains(&Reason::Stale));
}

/// What each reason makes of the whole node, if it holds for everything that clients could use.
#[test]
fn a_false_takes_the_node_out_unless_its_condition_is_advisory_and_an_unknown_takes_out_nobody_within_hold() {
    for &reason in Reason::ALL {
        let Some(scenario) = scenario(reason) else { continue };
        let watch = watch(&scenario);
        let advisory = matches!(scenario.on, ConditionType::ConfigCurrent | ConditionType::CiliumAgentAlive | ConditionType::TproxyPath);
        let drains = matches!(reason, Reason::EnvoyDraining | Reason::EnvoyTerminating | Reason::DrainRequested);
        let sockets_gone = matches!(reason, Reason::SocketsUnreadable | Reason::QueuesUnreadable);
        let expected = match scenario.status {
            Status::False if drains => format!("drain {reason}"),
            Status::False if !advisory => format!("down {reason}"),
            // Sockets that are not read for longer than stale_after are Stale before hold is over.
            Status::Unknown if sockets_gone => "down Stale".to_owned(),
            _ => "up".to_owned(),
        };
        assert!(watch.node().starts_with(&expected), "{reason}: {} instead of {expected}", watch.node());
    }
}

#[test]
fn a_condition_that_is_true_is_silent_in_the_body() {
    let watch = Watch::of(&Node::with(&[A, B]));
    assert_eq!(watch.body(None, None), "state=up node=worker-1 address=all ports=80,443\n");
    kept!(watch);
}
