//! The faults themselves: nodes that look fine to somebody and are not.

use gwready_core::facts::envoy::ServerState;
use gwready_core::facts::platform::Termination;
use gwready_core::facts::probes::{Acceptor, ProbeOutcome};
use gwready_core::facts::processes::RunState;
use gwready_core::facts::sockets::Listener;
use gwready_core::facts::{DrainRequest, Snapshot};
use gwready_core::netfilter::follow::follow;
use gwready_core::netfilter::ruleset::Ruleset;
use gwready_core::time::Mono;

use super::node::{ENVOY, Node, by_envoy, gateway, plain_socket, socket};
use super::rules::{self, rule};

pub const HOST_PORT: u8 = 0x48;
pub const NODE_PORT: u8 = 0x42;
pub const EXTERNAL_IP: u8 = 0x41;
pub const LOAD_BALANCER: u8 = 0x60;
pub const CLUSTER_IP: u8 = 0x00;

/// Faults 1, 3, 7: Envoy takes a Gateway's third port into its configuration and opens nothing for it.
pub fn third_port_not_bound() -> Node {
    let node = Node::healthy().asked("10.0.0.11:8443").picks("10.0.0.11:8443", None);
    node.admin(|admin| admin.listeners = vec![gateway("public", &[80, 443, 8443])])
}

/// The same Gateway when its third port is open.
pub fn third_port_bound() -> Node {
    let row = socket(8443, "0.0.0.0:8443");
    third_port_not_bound().listens(&row, &[ENVOY]).picks("10.0.0.11:8443", Some(&row)).answers("10.0.0.11:8443")
}

/// Fault 1: the same port, and Envoy says that it rejected the change.
pub fn change_rejected(sentence: &str) -> Node {
    third_port_not_bound().admin(|admin| {
        let mut refused = gateway("public", &[80, 443]);
        refused.error = Some(sentence.to_owned());
        refused.rejected_ports = vec![80, 443, 8443];
        admin.listeners = vec![refused];
        admin.updates_rejected = 4;
    })
}

/// Fault 3: Envoy may not bind a privileged port.
pub fn may_not_bind() -> Node {
    Node::healthy().closed(80).closed(443).with_process(ENVOY, |envoy| envoy.cap_effective = Some(0))
}

/// Faults 4 and 19: another proxy had port 80 first.
pub fn another_proxy() -> Node {
    let theirs = plain_socket(9, "0.0.0.0:80");
    let node = Node::healthy().closed(80).process(412, "nginx").in_pod(412, "web/nginx-1");
    node.listens(&theirs, &[412]).picks("10.0.0.11:80", Some(&theirs))
}

/// Fault 11: Envoy is LIVE and has no gateway listener.
pub fn no_listeners() -> Node {
    Node::healthy().closed(80).closed(443).admin(|admin| admin.listeners.clear())
}

/// Fault 12: ingress-nginx holds hostPort 80 in Cilium's map.
pub fn host_port() -> Node {
    let node = Node::healthy().frontend("10.0.0.11:80", HOST_PORT, &["10.42.1.7:80"]);
    node.pod("10.42.1.7", "kube-system/rke2-ingress-nginx-controller-x")
}

/// Fault 13: a service of this kind claims the node's address.
pub fn service(flags: u8) -> Node {
    Node::healthy().frontend("10.0.0.11:443", flags, &["10.42.1.9:8443"]).pod("10.42.1.9", "shop/legacy-0")
}

/// Fault 15: an sk_lookup program hands port 443 to a server on loopback.
pub fn steered() -> Node {
    let theirs = plain_socket(9, "127.0.0.1:8081");
    Node::healthy().process(77, "tubular").listens(&theirs, &[77]).picks("10.0.0.11:443", Some(&theirs)).steering(&[17])
}

/// Fault 16: a second process binds more closely than Envoy does.
pub fn shadowed(theirs: &Listener) -> Node {
    let node = Node::healthy().process(77, "python3");
    node.listens(theirs, &[77]).picks("10.0.0.11:80", Some(theirs))
}

/// Fault 17: a second process joins Envoy's group and gets 25 of 60.
pub fn shared() -> Node {
    let (ours, theirs) = (socket(80, "0.0.0.0:80"), plain_socket(9, "0.0.0.0:80"));
    let mut node = Node::healthy().process(77, "python3").listens(&theirs, &[77]).picks("10.0.0.11:80", Some(&ours));
    for client in 1..60 {
        node = node.also_picks("10.0.0.11:80", Some(if client < 35 { &ours } else { &theirs }));
    }
    node
}

/// Fault 18: an older cilium-envoy is still in the group.
pub fn two_envoys() -> Node {
    Node::healthy().process(64, "cilium-envoy").listens(&socket(8, "0.0.0.0:80"), &[64])
}

/// Fault 28: four workers of port 80, one with this queue, the others empty.
pub fn workers(stuck: u32) -> Node {
    let mut node = Node::healthy();
    for id in [81, 82, 83] {
        node = node.listens(&socket(id, "0.0.0.0:80"), &[ENVOY]);
    }
    let rows = |snapshot: &mut Snapshot| {
        let gwready_core::facts::Reading::Observed { value: table, .. } = &mut snapshot.sockets else { panic!("no sockets") };
        table.listeners.iter_mut().filter(|row| row.id.inode == 82).for_each(|row| row.queue_length = stuck);
    };
    rows(&mut node.snapshot);
    node
}

/// Fault 29: the process behind the sockets is in this state.
pub fn envoy_in_state(state: RunState) -> Node {
    Node::healthy().with_process(ENVOY, |envoy| envoy.state = state)
}

/// Fault 33: no descriptor is left, and clients wait.
pub fn no_descriptors() -> Node {
    Node::healthy().queue(80, 3).queue(443, 3).with_process(ENVOY, |envoy| envoy.open_files = Some(1024))
}

/// Fault 36: somebody called /healthcheck/fail.
pub fn draining() -> Node {
    Node::healthy().admin(|admin| admin.state = ServerState::Draining)
}

/// Fault 37: a TERM was sent to Envoy's starter at this second.
pub fn terminating(second: u64) -> Node {
    let mut node = Node::healthy();
    node.snapshot.terminating = Some(Termination { pid: 99, at: Mono(second * 1_000_000_000) });
    node
}

/// Fault 38: an operator asked for a drain.
pub fn drained(until_unix_ms: Option<u64>) -> Node {
    let mut node = Node::healthy();
    node.snapshot.drain =
        Some(DrainRequest { by: "uid 0".into(), reason: "kernel update".into(), asked_unix_ms: 1_800_000_015_000, until_unix_ms });
    node
}

/// The last probe of port 80 or 443 ended like this, for so many times in a row; Envoy had accepted it.
pub fn probe_failed(port: u16, outcome: ProbeOutcome, failures: u32) -> Node {
    Node::healthy().probed(&format!("10.0.0.11:{port}"), outcome, by_envoy(), failures)
}

/// The last probe of port 80 was answered by another process.
pub fn probe_answered_by_another() -> Node {
    let node = Node::healthy().process(412, "nginx").owners(|owners| {
        let holders = gwready_core::facts::processes::Holders::Known { pids: vec![412], complete: true };
        owners.holders.insert(9002, holders);
    });
    let outcome = ProbeOutcome::Answered { status: 404, server: Some("nginx".into()) };
    node.probed("10.0.0.11:80", outcome, Acceptor::Local { inode: 9002, mark: Some(0), listener: None }, 0)
}

/// A node with these rules: what they do with each endpoint is followed, not given.
pub fn ruled(rules: &Ruleset) -> Node {
    let path = |at: &str| follow(rules, &rules::to(at));
    Node::healthy().netfilter("10.0.0.11:80", path("10.0.0.11:80")).netfilter("10.0.0.11:443", path("10.0.0.11:443"))
}

/// A left-over nat rule that sends port 443 to another program.
pub fn redirected_by_rule() -> Node {
    ruled(&rules::nat([rule().dport(443).redirect(Some(15_001))]))
}

/// A firewall that opens SSH alone.
pub fn firewalled() -> Node {
    ruled(&rules::input("drop", [rule().ct_state(2 | 4).accept(), rule().iifname("lo").accept(), rule().dport(22).accept()]))
}

/// A quota that may be used up guards port 443.
pub fn guarded_by_quota() -> Node {
    ruled(&rules::input("accept", [rule().dport(443).mystery().drop()]))
}
