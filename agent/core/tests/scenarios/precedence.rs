//! Several faults at once: the most causal reason is reported, for the ports for which it holds, in one state.

use gwready_core::condition::ConditionType;
use gwready_core::facts::probes::{Acceptor, ProbeOutcome};
use gwready_core::facts::processes::RunState;
use gwready_core::facts::steering::NetfilterPath;
use gwready_core::policy::{Policy, Requirement};
use gwready_core::reason::Reason;

use super::faults::{self, HOST_PORT, NODE_PORT};
use super::node::{A, B, ENVOY, Node, plain_socket, socket};
use super::watch::Watch;
use crate::kept;

/// Port 80 refused: what the probe sees of most faults, seconds after their cause.
fn refused(node: Node) -> Node {
    node.probed("10.0.0.11:80", ProbeOutcome::Refused, Acceptor::Unknown, 3)
}

#[test]
fn a_cause_is_reported_before_what_follows_from_it() {
    let drop = || NetfilterPath::Dropped { rule: "inet filter input handle 2".into() };
    let thief = || plain_socket(9, "10.0.0.11:80");
    let table = [
        ("no process, so no listener, so refused", refused(Node::healthy().without_envoy()), "down EnvoyNotRunning"),
        ("no listener, so refused", refused(Node::healthy().closed(80)), "down NoListener 80"),
        (
            "no right to bind, so rejected",
            faults::may_not_bind().admin(|admin| admin.listeners[0].error = Some("no".into())),
            "down BindPermissionDenied 80,443",
        ),
        ("rows ahead of netfilter", faults::host_port().netfilter("10.0.0.11:80", drop()), "down HostPort 80"),
        ("netfilter ahead of the socket", faults::shadowed(&thief()).netfilter("10.0.0.11:80", drop()), "down NetfilterDrop 80"),
        (
            "rows ahead of a thief's socket",
            faults::shadowed(&thief()).frontend("10.0.0.11:80", HOST_PORT, &["10.42.1.7:80"]),
            "down HostPort 80",
        ),
        ("a wildcard entry is looked at only where there is no row", faults::host_port().wildcard(A), "down WildcardDrop 443"),
        (
            "stopped, so no answer",
            faults::probe_failed(80, ProbeOutcome::Timeout, 9).with_process(ENVOY, |envoy| envoy.state = RunState::Stopped),
            "down ProcessStopped 80,443",
        ),
        (
            "restarting, so not there",
            Node::healthy().without_envoy().owners(|owners| {
                owners.envoy_starts = [5.0, 12.0, 19.0].map(super::watch::mono).to_vec();
            }),
            "down EnvoyNotRunning",
        ),
        (
            "two envoys, one of them with a thief",
            faults::two_envoys().process(77, "python3").listens(&plain_socket(9, "0.0.0.0:80"), &[77]),
            "down SharedPort 80",
        ),
    ];
    for (what, node, expected) in table {
        let watch = Watch::turned(&node);
        assert_eq!(watch.node(), expected, "{what}");
        kept!(watch, what.replace(", ", "_").replace([' ', '\''], "_"));
    }
}

#[test]
fn down_beats_drain_and_a_drain_shows_through_when_it_is_mended() {
    let mut watch = Watch::turned(&faults::drained(None));
    let both = faults::drained(None).closed(443);
    assert_eq!(watch.sees(21.0, &both).node(), "down NoListener 443");
    assert_eq!(watch.sees(22.0, &faults::drained(None)).node(), "drain DrainRequested", "a drain is not waited for");
    kept!(watch);
}

#[test]
fn of_two_drains_envoys_own_is_named() {
    let both = faults::drained(None).admin(|admin| admin.state = gwready_core::facts::envoy::ServerState::Draining);
    let watch = Watch::turned(&both);
    assert_eq!(watch.node(), "drain EnvoyDraining");
    kept!(watch);
    let terminating = Node {
        snapshot: gwready_core::facts::Snapshot { terminating: faults::terminating(20).snapshot.terminating, ..both.snapshot },
        ..Node::healthy()
    };
    assert_eq!(Watch::turned(&terminating).node(), "drain EnvoyTerminating");
}

#[test]
fn ports_are_listed_for_the_reported_reason_only() {
    let node = Node::healthy().closed(80).frontend("10.0.0.11:443", NODE_PORT, &["10.42.1.9:8443"]);
    let watch = Watch::turned(&node);
    assert_eq!(watch.health(Some(A)), "state=down node=worker-1 address=10.0.0.11 reason=NodePort port=443 ports=80,443");
    assert_eq!(watch.ports(), ["10.0.0.11:80 down NoListener", "10.0.0.11:443 down NodePort"], "each port keeps its own");
    assert_eq!(
        watch.body(Some(A), Some(80)).lines().next(),
        Some("state=down node=worker-1 address=10.0.0.11 reason=NoListener port=80 ports=80")
    );
    kept!(watch);
}

#[test]
fn a_node_with_different_faults_on_each_address_names_the_most_causal_with_all_its_ports() {
    let row = socket(80, "0.0.0.0:80");
    let node = Node::with(&[A, B]).closed(443).frontend("10.0.0.11:80", HOST_PORT, &["10.42.1.7:80"]).picks("10.0.0.12:80", Some(&row));
    let mut watch = Watch::of(&Node::with(&[A, B]));
    watch.sees(20.0, &node);
    assert_eq!(watch.node(), "down HostPort 80");
    assert_eq!(watch.health(Some(B)), "state=down node=worker-1 address=10.0.0.12 reason=NoListener port=443 ports=80,443");
    assert_eq!(
        watch.body(None, Some(443)).lines().next(),
        Some("state=down node=worker-1 address=all reason=NoListener port=443 ports=443")
    );
    assert_eq!(watch.body(None, Some(80)).lines().next(), Some("state=up node=worker-1 address=all partial=1 ports=80"));
    kept!(watch);
}

#[test]
fn one_address_down_and_one_draining_is_a_node_that_drains() {
    let node = faults::drained(None).snapshot.drain;
    let mut both = Node::with(&[A, B]).frontend("10.0.0.11:80", HOST_PORT, &["10.42.1.7:80"]);
    both.snapshot.drain = node;
    let mut watch = Watch::of(&Node::with(&[A, B]));
    watch.sees(20.0, &both);
    assert_eq!(watch.node(), "drain DrainRequested");
    assert_eq!(watch.health(Some(A)), "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443");
    assert_eq!(watch.health(Some(B)), "state=drain node=worker-1 address=10.0.0.12 reason=DrainRequested ports=80,443");
    kept!(watch);
}

#[test]
fn an_advisory_fault_never_hides_or_replaces_a_required_one() {
    let both = faults::host_port().admin(|admin| admin.control_plane_connected = Some(false));
    assert_eq!(Watch::turned(&both).node(), "down HostPort 80");
    let mut policy = Policy::default();
    policy.require.insert(ConditionType::ConfigCurrent, Requirement::Required);
    let mut watch = Watch::with(policy, &Node::healthy());
    assert_eq!(watch.sees(20.0, &both).node(), "down HostPort 80", "nor does it when it is required");
    assert_eq!(
        watch.sees(21.0, &Node::healthy().admin(|admin| admin.control_plane_connected = Some(false))).node(),
        "down XdsDisconnected"
    );
    kept!(watch);
}

/// The list itself: groups in the order in which a packet, or a cause, meets them.
#[test]
fn the_list_of_reasons_is_in_causal_order() {
    use Reason as R;
    let groups: [&[Reason]; 8] = [
        &[R::Starting, R::Stale],
        &[R::EnvoyNotRunning, R::EnvoyRestarting, R::ProcessStopped],
        &[R::BindPermissionDenied, R::PortReservedByCilium],
        &[R::WildcardDrop, R::HostPort, R::NodePort, R::ExternalIP, R::LoadBalancerIP, R::ClusterIP, R::RedirectedToProxy, R::SkLookup],
        &[R::ForeignOwner, R::ShadowedAddress, R::SharedPort, R::TwoEnvoys],
        &[R::ListenerRejected, R::NoListener, R::LoopbackOnly, R::AddressesNotCovered],
        &[R::OutOfFileDescriptors, R::QueueStuck, R::WorkerStuck],
        &[R::ProbeRefused, R::ProbeReset, R::ProbeTimeout, R::NotEnvoy, R::TlsFailed, R::UnexpectedStatus],
    ];
    for pair in groups.windows(2) {
        for (earlier, later) in pair[0].iter().flat_map(|earlier| pair[1].iter().map(move |later| (earlier, later))) {
            assert!(earlier < later, "{earlier} comes before {later}");
        }
    }
    let drains = [R::EnvoyTerminating, R::EnvoyDraining, R::DrainRequested];
    let unknowns = [R::SocketsUnreadable, R::Unidentified, R::MapsUnreadable, R::NotJudged, R::AdminUnreachable];
    assert!(unknowns.iter().all(|unknown| groups.iter().copied().flatten().all(|fault| fault < unknown)), "proof before missing evidence");
    assert!(drains.is_sorted() && drains.iter().all(|drain| unknowns.iter().all(|unknown| unknown < drain)));
}
