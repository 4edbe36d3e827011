//! The closed list of reasons: one word, the same in log, metric label, health body, JSON and docs file name.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($name:ident: $why:literal,)+) => {
        /// Why a condition is not plainly True. The order of the variants is the order of precedence: of several reasons
        /// that hold at once the first, most causal one is reported (DESIGN: "EnvoyNotRunning before NoListener before ProbeRefused").
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $(#[doc = $why] $name,)+
        }

        impl Reason {
            /// Every reason, most causal first.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word, as it stands in every output.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// One sentence for a person.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$name => $why,)+ }
            }
        }
    };
}

reasons! {
    Starting: "the agent has not yet seen enough to answer",
    Stale: "the socket table was not read within stale_after",
    EnvoyNotRunning: "no cilium-envoy process runs in this network namespace",
    EnvoyRestarting: "cilium-envoy started three times within 60 seconds",
    ProcessStopped: "the process that owns the listener is stopped, frozen, a zombie or stuck in the kernel",
    BindPermissionDenied: "cilium-envoy lacks the right to bind a privileged port",
    PortReservedByCilium: "Cilium's bind protection refuses the port because a service entry claims it",
    WildcardDrop: "a wildcard entry in Cilium's load-balancer map drops every port of the address that has no entry of its own",
    HostPort: "a HostPort entry in Cilium's load-balancer map takes the connections before any socket sees them",
    NodePort: "a NodePort entry in Cilium's load-balancer map takes the connections",
    ExternalIP: "an externalIPs entry in Cilium's load-balancer map takes the connections",
    LoadBalancerIP: "a LoadBalancer entry in Cilium's load-balancer map takes the connections",
    ClusterIP: "a ClusterIP entry in Cilium's load-balancer map takes the connections",
    RedirectedToProxy: "an L7 entry in Cilium's load-balancer map sends the connections to a proxy port that this Envoy does not serve",
    SkLookup: "an sk_lookup program steers the connections to a foreign socket",
    NetfilterRedirect: "a netfilter rule redirects the connections",
    NetfilterDrop: "a netfilter rule drops the connections",
    ForeignOwner: "another process than cilium-envoy owns the port",
    ShadowedAddress: "a more specific or device-bound socket of another process takes the address",
    SharedPort: "another process shares the port and gets a part of the connections",
    TwoEnvoys: "two cilium-envoy processes share the port",
    ListenerRejected: "Envoy rejected the listener",
    NoListener: "no socket listens on the port",
    LoopbackOnly: "the port is bound on loopback only",
    AddressesNotCovered: "no socket listens on this address of the node, though others are served",
    OutOfFileDescriptors: "the process that owns the listener has no file descriptors left",
    QueueStuck: "connections wait in the accept queue and none is accepted",
    WorkerStuck: "one worker of several does not accept its connections",
    ProxyPortForeign: "another process than cilium-envoy listens on an L7 proxy port",
    ProxyPortClosed: "nothing listens on an L7 proxy port",
    RuleMissing: "the routing rule for proxied traffic (fwmark 0x200/0xf00, table 2004) is missing",
    RouteMissing: "the local route for proxied traffic in table 2004 is missing",
    ProbeRefused: "the local probe was refused",
    ProbeReset: "the local probe was accepted and reset",
    ProbeTimeout: "the local probe got no answer in time",
    NotEnvoy: "the local probe was answered by another process",
    TlsFailed: "the TLS handshake of the local probe failed",
    UnexpectedStatus: "an explicit probe got another HTTP status than configured",
    UpdateRejected: "Envoy rejected an update of a listener and keeps serving the old one",
    XdsDisconnected: "Envoy is not connected to its control plane",
    CiliumAgentStale: "the cilium-agent's liveness stamp is old",
    Overloaded: "the accept queue is full, but moving",
    SocketsUnreadable: "the socket table could not be read",
    Unidentified: "the owner of the listener could not be identified",
    MapsUnreadable: "Cilium's load-balancer maps could not be read",
    MapLayoutUnknown: "Cilium's load-balancer maps have a layout this agent does not know",
    NoCiliumMaps: "Cilium's load-balancer maps do not exist",
    NetfilterUnclear: "a netfilter rule may take the connections",
    NetfilterUnreadable: "the netfilter rules could not be read",
    QueuesUnreadable: "the accept queues could not be read",
    NotProbed: "the local probe has not run",
    NotJudged: "the local probe cannot tell: no server name to ask for, or TLS passthrough",
    ProbeTranslated: "Cilium's socket load balancer translated the local probe, so it says nothing about the wire",
    AdminUnreachable: "Envoy's admin socket did not answer",
    RoutesUnreadable: "rules and routes could not be read",
    NoLivenessStamp: "the cilium-agent's liveness stamp could not be read",
    NotUsed: "no L7 frontend uses the path",
    EnvoyTerminating: "cilium-envoy was asked to terminate",
    EnvoyDraining: "cilium-envoy is draining",
    DrainRequested: "an operator asked for a drain",
}

impl Reason {
    /// The reason with this word, if it is one of the closed list.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_causal_reason_comes_first() {
        assert!(Reason::EnvoyNotRunning < Reason::NoListener);
        assert!(Reason::NoListener < Reason::ProbeRefused);
        assert!(Reason::HostPort < Reason::NotEnvoy);
        assert!(Reason::SkLookup < Reason::ForeignOwner);
    }

    #[test]
    fn words_round_trip() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_word(reason.as_str()), Some(*reason));
        }
    }
}
