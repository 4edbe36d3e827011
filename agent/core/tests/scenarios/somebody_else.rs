//! Faults by which somebody else gets the connection.

use gwready_core::condition::{ConditionType, Status};
use gwready_core::facts::processes::Readable;
use gwready_core::netfilter::xt::{NatRange, XtTarget};
use gwready_core::reason::Reason;

use super::faults::{
    CLUSTER_IP, EXTERNAL_IP, HOST_PORT, LOAD_BALANCER, NODE_PORT, another_proxy, firewalled, guarded_by_quota, host_port,
    probe_answered_by_another, redirected_by_rule, ruled, service, shadowed, shared, steered, two_envoys,
};
use super::node::{A, B, ENVOY, Node, plain_socket, socket};
use super::rules::{self, ip, rule, ruleset, table};
use super::watch::Watch;
use crate::kept;

#[test]
fn fault_12_a_host_port_takes_the_packets_before_envoys_intact_socket_sees_them() {
    let watch = Watch::turned(&host_port());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443",
        &["10.0.0.11:80 down HostPort", "10.0.0.11:443 up"],
        "WARN node DOWN reason=HostPort port=80 family=ipv4 addresses=10.0.0.11 thief=\"pod kube-system/rke2-ingress-nginx-controller-x (10.42.1.7:80)\" entry=10.0.0.11:80/6 kind=HostPort outcome=\"dnat 10.42.1.7:80\" up_for=10s",
    );
    kept!(watch);
    for kind in [ConditionType::Listening, ConditionType::OwnedByEnvoy, ConditionType::Responding] {
        assert_eq!(watch.front(kind, 80).status, Status::True, "{kind} looks perfect");
    }
}

#[test]
fn fault_12_on_one_of_two_addresses_only_that_address_leaves() {
    let mut watch = Watch::of(&Node::with(&[A, B]));
    watch.sees(20.0, &Node::with(&[A, B]).frontend("10.0.0.11:80", HOST_PORT, &["10.42.1.7:80"]));
    assert_eq!(watch.health(Some(A)), "state=down node=worker-1 address=10.0.0.11 reason=HostPort port=80 ports=80,443");
    assert_eq!(watch.health(Some(B)), "state=up node=worker-1 address=10.0.0.12 ports=80,443");
    assert_eq!(watch.health(None), "state=up node=worker-1 address=all partial=1 ports=80,443");
    assert_eq!(
        watch.log(),
        "WARN node UP partial=1 of=2 reason=HostPort port=80 family=ipv4 addresses=10.0.0.11 thief=10.42.1.7:80 entry=10.0.0.11:80/6 kind=HostPort outcome=\"drop 134\""
    );
    watch.sees(30.0, &Node::with(&[A, B])).sees(32.0, &Node::with(&[A, B]));
    assert_eq!(watch.log(), "INFO node UP back=10.0.0.11 partial=0");
    kept!(watch);
}

#[test]
fn fault_13_a_service_claims_the_nodes_address() {
    let cases = [
        (
            NODE_PORT,
            "NodePort",
            "WARN node DOWN reason=NodePort port=443 family=ipv4 addresses=10.0.0.11 thief=\"pod shop/legacy-0 (10.42.1.9:8443)\" entry=10.0.0.11:443/6 kind=NodePort outcome=\"dnat 10.42.1.9:8443\" up_for=10s",
        ),
        (
            EXTERNAL_IP,
            "ExternalIP",
            "WARN node DOWN reason=ExternalIP port=443 family=ipv4 addresses=10.0.0.11 thief=\"pod shop/legacy-0 (10.42.1.9:8443)\" entry=10.0.0.11:443/6 kind=ExternalIP outcome=\"dnat 10.42.1.9:8443\" up_for=10s",
        ),
        (
            LOAD_BALANCER,
            "LoadBalancerIP",
            "WARN node DOWN reason=LoadBalancerIP port=443 family=ipv4 addresses=10.0.0.11 thief=\"pod shop/legacy-0 (10.42.1.9:8443)\" entry=10.0.0.11:443/6 kind=LoadBalancer outcome=\"dnat 10.42.1.9:8443\" up_for=10s",
        ),
        (
            CLUSTER_IP,
            "ClusterIP",
            "WARN node DOWN reason=ClusterIP port=443 family=ipv4 addresses=10.0.0.11 thief=\"pod shop/legacy-0 (10.42.1.9:8443)\" entry=10.0.0.11:443/6 kind=ClusterIP outcome=\"drop 174\" up_for=10s",
        ),
    ];
    for (flags, reason, log) in cases {
        let watch = Watch::turned(&service(flags));
        watch.told(
            &format!("state=down node=worker-1 address=10.0.0.11 reason={reason} port=443 ports=80,443"),
            &["10.0.0.11:80 up", &format!("10.0.0.11:443 down {reason}")],
            log,
        );
        kept!(watch, reason);
    }
}

#[test]
fn fault_13_a_service_without_backends_refuses_the_clients() {
    let watch = Watch::turned(&Node::healthy().frontend("10.0.0.11:443", LOAD_BALANCER, &[]));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=LoadBalancerIP port=443 ports=80,443",
        &["10.0.0.11:80 up", "10.0.0.11:443 down LoadBalancerIP"],
        "WARN node DOWN reason=LoadBalancerIP port=443 family=ipv4 addresses=10.0.0.11 entry=10.0.0.11:443/6 kind=LoadBalancer outcome=reject up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_13b_a_wildcard_entry_drops_every_port_from_outside() {
    let watch = Watch::turned(&Node::healthy().wildcard(A));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=WildcardDrop port=80,443 ports=80,443",
        &["10.0.0.11:80 down WildcardDrop", "10.0.0.11:443 down WildcardDrop"],
        "WARN node DOWN reason=WildcardDrop port=80,443 family=ipv4 addresses=10.0.0.11 entry=10.0.0.11:0/0 kind=wildcard outcome=\"drop 158\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_13b_cilium_1_18_does_not_look_at_the_wildcard_entry() {
    let mut node = Node::healthy().wildcard(A);
    if let gwready_core::facts::Reading::Observed { value: agent, .. } = &mut node.snapshot.cilium_agent {
        agent.version = Some((1, 18));
    }
    let watch = Watch::turned(&node);
    assert_eq!(watch.node(), "up");
    kept!(watch);
}

#[test]
fn fault_14_a_nat_rule_takes_the_connections_ahead_of_the_socket() {
    let watch = Watch::turned(&redirected_by_rule());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NetfilterRedirect port=443 ports=80,443",
        &["10.0.0.11:80 up", "10.0.0.11:443 down NetfilterRedirect"],
        "WARN node DOWN reason=NetfilterRedirect port=443 family=ipv4 addresses=10.0.0.11 thief=10.0.0.11:15001 place=\"table ip nat, chain PREROUTING, handle 1\" rule=\"tcp dport 443 redirect to :15001\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_14_a_firewall_drops_every_client_and_names_its_policy() {
    let watch = Watch::turned(&firewalled());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NetfilterDrop port=80,443 ports=80,443",
        &["10.0.0.11:80 down NetfilterDrop", "10.0.0.11:443 down NetfilterDrop"],
        "WARN node DOWN reason=NetfilterDrop port=80,443 family=ipv4 addresses=10.0.0.11 place=\"table inet filter, chain input\" rule=\"policy drop\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_14_portmap_takes_a_host_port() {
    let dnat = rule().dport(80).target(XtTarget::Dnat(NatRange {
        flags: 3,
        addresses: Some((ip("10.42.1.7"), ip("10.42.1.7"))),
        ports: Some((80, 80)),
    }));
    let rules = ruleset([table("ip nat")
        .chain("CNI-DN-0b1a9d7f1c2e", [dnat])
        .chain("CNI-HOSTPORT-DNAT", [rule().dport(80).jump("CNI-DN-0b1a9d7f1c2e")])
        .base("PREROUTING", "nat prerouting -100", [rule().fib_local().jump("CNI-HOSTPORT-DNAT")])]);
    let watch = Watch::turned(&ruled(&rules));
    let condition = watch.front(ConditionType::NotIntercepted, 80);
    assert_eq!(condition.evidence["thief"], "10.42.1.7:80");
    assert_eq!(condition.evidence["place"], "table ip nat, chain CNI-DN-0b1a9d7f1c2e, handle 1");
    assert!(
        condition.message.starts_with("a netfilter rule sends connections for 10.0.0.11:80 to 10.42.1.7:80: "),
        "{}",
        condition.message
    );
    kept!(watch);
}

#[test]
fn fault_14_a_rule_that_cannot_be_decided_is_told_and_takes_nobody_out() {
    let watch = Watch::turned(&guarded_by_quota());
    watch.stays_up_but_says(watch.front(ConditionType::NotIntercepted, 443), Status::Unknown, Reason::NetfilterUnclear);
    kept!(watch);
}

#[test]
fn a_ban_list_takes_nobody_out_and_is_shown() {
    let banned = rules::set("banned", 4, vec![rules::element(&[198, 51, 100, 7])]);
    let rules = ruleset([table("ip f").set(banned).base("in", "filter input 0", [rule().saddr_in("banned").drop()])]);
    let watch = Watch::turned(&ruled(&rules));
    assert_eq!(watch.node(), "up");
    let condition = watch.front(ConditionType::NotIntercepted, 443);
    assert_eq!(condition.status, Status::True);
    assert_eq!(condition.evidence["some_clients"], "others are dropped: ip saddr @banned drop (table ip f, chain in, handle 1)");
    kept!(watch);
}

#[test]
fn fault_15_an_sk_lookup_program_steers_the_port_to_a_socket_on_loopback() {
    let watch = Watch::turned(&steered());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=SkLookup port=443 ports=80,443",
        &["10.0.0.11:80 up", "10.0.0.11:443 down SkLookup"],
        "WARN node DOWN reason=SkLookup port=443 family=ipv4 addresses=10.0.0.11 thief=\"127.0.0.1:8081 (inode 9)\" programs=17 up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_16_a_second_process_binds_the_address_and_takes_all_of_it() {
    let watch = Watch::turned(&shadowed(&plain_socket(9, "10.0.0.11:80")));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ShadowedAddress port=80 ports=80,443",
        &["10.0.0.11:80 down ShadowedAddress", "10.0.0.11:443 up"],
        "WARN node DOWN reason=ShadowedAddress port=80 family=ipv4 addresses=10.0.0.11 thief=python3[77] up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_16_a_second_process_binds_the_device_and_takes_all_of_it() {
    let mut theirs = plain_socket(9, "0.0.0.0:80");
    theirs.bound_if = 2;
    let watch = Watch::turned(&shadowed(&theirs));
    assert_eq!(watch.node(), "down ShadowedAddress 80");
    assert!(watch.front(ConditionType::OwnedByEnvoy, 80).message.contains("SO_BINDTODEVICE"));
    kept!(watch);
}

#[test]
fn fault_17_a_second_process_shares_the_port_and_gets_25_of_60() {
    let watch = Watch::turned(&shared());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=SharedPort port=80 ports=80,443",
        &["10.0.0.11:80 down SharedPort", "10.0.0.11:443 up"],
        "WARN node DOWN reason=SharedPort port=80 family=ipv4 addresses=10.0.0.11 thief=python3[77] share=25/60 up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_17_a_member_of_the_group_that_got_nobody_yet_is_a_thief_already() {
    let node = Node::healthy().process(77, "python3").listens(&plain_socket(9, "0.0.0.0:80"), &[77]);
    let watch = Watch::turned(&node);
    assert_eq!(watch.node(), "down SharedPort 80");
    assert_eq!(watch.front(ConditionType::OwnedByEnvoy, 80).evidence["share"], "0/1");
    kept!(watch);
}

#[test]
fn fault_18_a_left_over_envoy_is_still_in_the_group() {
    let watch = Watch::turned(&two_envoys());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=TwoEnvoys port=80 ports=80,443",
        &["10.0.0.11:80 down TwoEnvoys", "10.0.0.11:443 up"],
        "WARN node DOWN reason=TwoEnvoys port=80 family=ipv4 addresses=10.0.0.11 pids=\"64 100\" up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_18_generations_of_sockets_in_one_envoy_are_one_owner() {
    let node = Node::healthy().listens(&socket(8, "0.0.0.0:80"), &[ENVOY]);
    let watch = Watch::turned(&node);
    assert_eq!(watch.node(), "up");
    kept!(watch);
}

#[test]
fn fault_19_another_proxy_answers_404_and_that_is_not_healthy() {
    let outcome = gwready_core::facts::probes::ProbeOutcome::Answered { status: 404, server: Some("nginx".into()) };
    let accepted = gwready_core::facts::probes::Acceptor::Local { inode: 9, mark: Some(0), listener: None };
    let watch = Watch::turned(&another_proxy().probed("10.0.0.11:80", outcome, accepted, 0));
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=ForeignOwner port=80 ports=80,443",
        &["10.0.0.11:80 down ForeignOwner", "10.0.0.11:443 up"],
        "WARN node DOWN reason=ForeignOwner port=80 family=ipv4 addresses=10.0.0.11 thief=\"pod web/nginx-1 (nginx[412])\" up_for=10s",
    );
    kept!(watch);
    assert_eq!(watch.front(ConditionType::Responding, 80).reason, Some(Reason::NotEnvoy), "a consequence, not the reported cause");
}

#[test]
fn fault_19_where_only_the_answer_shows_it_one_probe_is_enough() {
    let watch = Watch::turned(&probe_answered_by_another());
    watch.told(
        "state=down node=worker-1 address=10.0.0.11 reason=NotEnvoy port=80 ports=80,443",
        &["10.0.0.11:80 down NotEnvoy", "10.0.0.11:443 up"],
        "WARN node DOWN reason=NotEnvoy port=80 family=ipv4 addresses=10.0.0.11 thief=nginx[412] probed=10.0.0.11:80 up_for=10s",
    );
    kept!(watch);
}

#[test]
fn fault_22_embedded_and_standalone_envoys_are_known_by_their_executable() {
    for (parent, name) in [(1, None), (55, Some("cilium-agent")), (99, Some("cilium-envoy-starter"))] {
        let node = Node::healthy().with_process(ENVOY, |envoy| {
            envoy.parent = parent;
            envoy.parent_name = name.map(str::to_owned);
            envoy.comm = "wrk:worker_0".into();
        });
        let watch = Watch::of(&node);
        assert_eq!(watch.front(ConditionType::OwnedByEnvoy, 80).evidence["owner"], "cilium-envoy[100]", "{name:?}");
        kept!(watch, name.unwrap_or("standalone"));
    }
}

#[test]
fn fault_22_a_borrowed_name_is_no_envoy() {
    let node = another_proxy().with_process(412, |thief| thief.comm = "cilium-envoy".into());
    let watch = Watch::turned(&node);
    assert_eq!(watch.node(), "down ForeignOwner 80");
    assert!(watch.log().contains("(calls itself cilium-envoy)"), "{}", watch.log());
    kept!(watch);
}

#[test]
fn fault_22_where_executables_are_hidden_the_sockets_own_marks_identify() {
    let node = Node::healthy().with_process(ENVOY, |envoy| envoy.exe = Readable::Hidden("needs ptrace access".into()));
    let watch = Watch::of(&node);
    assert_eq!(watch.front(ConditionType::OwnedByEnvoy, 443).status, Status::True);
    kept!(watch);
}
