//! Configuration fine, request not: what must not take a node out, and what may if the operator asks for it.

use gwready_core::facts::probes::{ProbeOutcome, ProbeResult};

use super::faults::probe_failed;
use super::node::{Node, by_envoy, endpoint};
use super::watch::Watch;
use crate::kept;

fn answered(status: u16) -> ProbeOutcome {
    ProbeOutcome::Answered { status, server: Some("envoy".into()) }
}

#[test]
fn fault_43_and_45_no_status_of_envoys_own_takes_a_node_out() {
    for status in [200, 400, 404, 426, 431, 500, 503] {
        let watch = Watch::turned(&probe_failed(80, answered(status), 0));
        assert_eq!(watch.node(), "up", "{status}");
        if status == 404 {
            kept!(watch);
        }
    }
}

fn explicit(status: u16, failures: u32) -> Node {
    let mut node = Node::healthy();
    if let gwready_core::facts::Reading::Observed { value: table, .. } = &mut node.snapshot.probes {
        table.results.push(ProbeResult {
            endpoint: endpoint("10.0.0.11:80"),
            outcome: answered(status),
            acceptor: by_envoy(),
            at: super::watch::mono(1.0),
            failures,
            never_passed: false,
            server_name: None,
            expect_status: vec![200, 204],
            explicit: "shop.example/ready".into(),
        });
    }
    node
}

#[test]
fn fault_43_missing_routes_are_seen_by_a_probe_that_the_operator_configured() {
    let mut watch = Watch::of(&explicit(204, 0));
    assert_eq!(watch.sees(20.0, &explicit(404, 2)).node(), "up");
    watch.sees(22.0, &explicit(404, 3));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=UnexpectedStatus port=80 ports=80,443",
        &["10.0.0.11:80 down UnexpectedStatus", "10.0.0.11:443 up"],
        "WARN node DOWN reason=UnexpectedStatus port=80 family=ipv4 addresses=10.0.0.11 failures=3 probe=shop.example/ready probed=10.0.0.11:80 status=404 up_for=12s",
    );
    kept!(watch);
}

#[test]
fn fault_45_no_healthy_upstream_counts_only_for_a_probe_that_asks_for_the_upstream() {
    assert_eq!(Watch::turned(&probe_failed(80, answered(503), 0)).node(), "up");
    let watch = Watch::turned(&explicit(503, 3));
    assert_eq!(watch.node(), "down UnexpectedStatus 80");
    kept!(watch);
}
