//! What to do about each reason: one line here, the whole way in `docs/conditions/<Reason>.md`.

use crate::reason::Reason;

/// The page of a reason and the first thing to do, e.g. `docs/conditions/HostPort.md: free the hostPort …`.
#[must_use]
pub fn render_fix(reason: Reason) -> String {
    format!("docs/conditions/{reason}.md: {}", first_step(reason))
}

/// The first thing to do, one line.
#[must_use]
pub const fn first_step(reason: Reason) -> &'static str {
    use Reason as R;
    match reason {
        R::Starting => "wait: the first whole pass takes about a second",
        R::Stale => "look for an ERROR line of the observer thread, and at the node's load",
        R::EnvoyNotRunning => "kubectl -n kube-system get pods -l k8s-app=cilium-envoy -o wide",
        R::EnvoyRestarting => "kubectl -n kube-system logs --previous of this node's cilium-envoy pod",
        R::ProcessStopped => "look at the process state (T, D, Z or frozen) of the pid in the evidence",
        R::BindPermissionDenied => "give cilium-envoy NET_BIND_SERVICE (envoy.securityContext.capabilities.keepCapNetBindService)",
        R::PortReservedByCilium => "a service entry claims the port: cilium-dbg bpf lb list",
        R::WildcardDrop => "cilium-dbg bpf lb list shows the wildcard entry of this address; remove the service that owns it",
        R::HostPort => "free the hostPort: move the named pod to another hostPort or off this node",
        R::NodePort => "give the named service another nodePort",
        R::ExternalIP => "take this node's address out of the service's externalIPs",
        R::LoadBalancerIP => "the load balancer pool must not hold a node address: change the service's address",
        R::ClusterIP => "a service's clusterIP is this node's address: change the service",
        R::RedirectedToProxy => "cilium-dbg bpf lb list shows the L7 entry and its proxy port",
        R::SkLookup => "bpftool link show names the sk_lookup program and its owner: stop it",
        R::NetfilterRedirect => "nft list ruleset or iptables-save shows the rule; stop what installs it",
        R::NetfilterDrop => "nft list ruleset or iptables-save shows the rule; open the port",
        R::ForeignOwner => "stop the named process or move it to another port, then restart cilium-envoy if it gave up",
        R::ShadowedAddress => "stop the named process: its bind is more specific than Envoy's",
        R::SharedPort => "stop the named process: it shares the port by SO_REUSEPORT and takes a part of the clients",
        R::TwoEnvoys => "one of the two must go: an old pod, a second DaemonSet, or Envoy inside the cilium-agent",
        R::ListenerRejected => "Envoy's sentence names the cause: fix the Gateway, its secret or its port",
        R::NoListener => "does a Gateway with this port exist, and does host-network mode select this node?",
        R::LoopbackOnly => "Envoy must bind all addresses: check the gateway host-network settings of Cilium",
        R::AddressesNotCovered => "check the families and addresses that Cilium serves on this node",
        R::OutOfFileDescriptors => "raise the limit of open files of the named process, or find its leak",
        R::QueueStuck => "Envoy accepts nothing: look at its CPU, its overload manager and its log",
        R::WorkerStuck => "one Envoy worker hangs: take a stack of it, then restart the pod",
        R::ProxyPortForeign => "stop the named process: it took an L7 proxy port",
        R::ProxyPortClosed => "kubectl -n kube-system logs of this node's cilium agent: search for proxy port",
        R::RuleMissing => "ip rule must have fwmark 0x200/0xf00 lookup 2004: restart the cilium agent of this node",
        R::RouteMissing => "ip route show table 2004 must have local default dev lo: restart the cilium agent of this node",
        R::ProbeRefused => "does Envoy run and listen? if so look for netfilter rules on loopback",
        R::ProbeReset => "Envoy closed without an answer: look at its overload manager and connection limits",
        R::ProbeTimeout => "Envoy did not answer in time: look at its CPU and its log",
        R::NotEnvoy => "the named process answers in Envoy's place: stop it",
        R::TlsFailed => "check the certificate in the Gateway's secret; if another condition names a process, stop that first",
        R::UnexpectedStatus => "the configured probe got another status: check the route and its backend, or the probe",
        R::UpdateRejected => "Envoy's sentence names the cause; the old configuration still serves",
        R::XdsDisconnected => "Envoy has lost the cilium agent: kubectl -n kube-system get pods -l k8s-app=cilium -o wide",
        R::CiliumAgentStale => "the cilium agent of this node hangs or is gone",
        R::Overloaded => "more clients than Envoy takes: look at its CPU, add nodes",
        R::SocketsUnreadable => "the agent needs netlink sock_diag: check its seccomp profile and kernel",
        R::Unidentified => "if the detail names another program stop it, else give the agent hostPID and CAP_SYS_PTRACE",
        R::MapsUnreadable => "give the agent CAP_BPF (or CAP_SYS_ADMIN) and mount /sys/fs/bpf",
        R::MapLayoutUnknown => "this Cilium is newer than the agent knows: upgrade gwready",
        R::NoCiliumMaps => "is Cilium up on this node, and /sys/fs/bpf mounted into the agent?",
        R::NetfilterUnclear => "nft list ruleset: a rule on the port could not be decided",
        R::NetfilterUnreadable => "give the agent CAP_NET_ADMIN",
        R::QueuesUnreadable => "the agent needs netlink sock_diag with socket memory",
        R::NotProbed => "probes are off, have not run yet, or could not: the message says which",
        R::NotJudged => "the message says what is missing: a server name (probe.sni), or CAP_SYS_PTRACE to tell who answered",
        R::ProbeTranslated => "nothing to do: the probe can't tell here, the other conditions do",
        R::AdminUnreachable => "if Envoy runs, mount its admin socket (envoy.admin_socket) into the agent",
        R::RoutesUnreadable => "the message says what could not be read: routes need rtnetlink, L7 frontends need the maps of Cilium",
        R::NoLivenessStamp => "give the agent CAP_BPF and mount /sys/fs/bpf",
        R::NotUsed => "nothing to do",
        R::EnvoyTerminating => "nothing to do if a restart is under way",
        R::EnvoyDraining => "nothing to do if a restart is under way; else call /healthcheck/ok on Envoy's admin socket",
        R::DrainRequested => "gwready undrain on this node ends it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_one_printable_line_that_fits_a_sentence() {
        for reason in Reason::ALL {
            let fix = render_fix(*reason);
            assert!(fix.starts_with(&format!("docs/conditions/{}.md: ", reason.as_str())));
            assert_eq!(super::super::text::clean_sentence(&fix), fix, "{reason} is cut or changed");
            assert!(!fix.contains('"'), "{reason}");
        }
    }
}
