//! Every metric family: name, type, labels, meaning. The order is the order of the output and of `docs/metrics.md`.

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; samples end in `_total`.
    Counter,
    /// Any value.
    Gauge,
    /// Buckets, sum and count.
    Histogram,
    /// Constant 1 with labels; samples end in `_info`.
    Info,
}

/// One family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name without the suffix that the type adds.
    pub family: &'static str,
    /// Type.
    pub kind: Kind,
    /// Label names, in order.
    pub labels: &'static [&'static str],
    /// Meaning.
    pub help: &'static str,
}

impl Metric {
    /// Name of its samples.
    #[must_use]
    pub fn name(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{suffix}", self.family)
    }
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $family:literal [$($label:literal),*] $help:literal,)+) => {
        $(#[doc = $help] pub const $constant: Metric = Metric { family: $family, kind: Kind::$kind, labels: &[$($label),*], help: $help };)+

        /// All of them.
        pub const METRICS: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    NODE_STATE: Gauge "gwready_node_state" ["state"] "Verdict of the node, 1 for the current state",
    PORT_STATE: Gauge "gwready_port_state" ["port", "state"] "Verdict of a port over all judged addresses, 1 for the current state",
    ADDRESS_STATE: Gauge "gwready_address_state" ["address", "state"] "Verdict of a judged address, 1 for the current state; from the 33rd on the worst as address other",
    CONDITION_STATUS: Gauge "gwready_condition_status" ["type", "port", "family", "status"] "Status of a condition, 1 for the current one; port and family are empty for the node",
    CONDITION_REASON: Gauge "gwready_condition_reason" ["type", "port", "family", "reason"] "1 for the current reason of a condition that is not plainly true",
    TRANSITIONS: Counter "gwready_transitions" ["from", "to", "reason"] "Changes of the node's verdict, reason is empty when up; from up to up: one of its addresses left or came back",
    NOT_UP_SECONDS: Counter "gwready_not_up_seconds" ["reason"] "Time that the node was not up, by reason",
    LISTENER_SOCKETS: Gauge "gwready_listener_sockets" ["port", "family", "owner"] "Listening sockets of the expected ports, by owner: envoy, foreign, unknown",
    ACCEPT_QUEUE_LENGTH: Gauge "gwready_accept_queue_length" ["port", "family"] "Connections that wait in the accept queue of the worst socket",
    ACCEPT_QUEUE_LIMIT: Gauge "gwready_accept_queue_limit" ["port", "family"] "Limit of the accept queue of the worst socket",
    ACCEPT_QUEUE_DROPS: Counter "gwready_accept_queue_drops" ["port", "family"] "Connections dropped by the kernel because an accept queue was full, since the agent started",
    CONNECTIONS_ESTABLISHED: Counter "gwready_connections_established" ["port"] "Connections that were established; absent where they can't be told apart by network namespace",
    PASS_DURATION: Histogram "gwready_pass_duration_seconds" [] "Time from the begin of a pass to its published verdict",
    EVENT_TO_VERDICT: Histogram "gwready_event_to_verdict_seconds" [] "Time from a kernel event to the published verdict",
    PASSES: Counter "gwready_passes" ["trigger"] "Passes, by what caused them",
    OBSERVATION_AGE: Gauge "gwready_observation_age_seconds" ["source"] "Age of the last good read of a source; absent while it can't be read",
    OBSERVATION_FAILURES: Counter "gwready_observation_failures" ["source", "reason"] "Reads of a source that failed",
    HEALTH_REQUESTS: Counter "gwready_health_requests" ["protocol", "state"] "Requests on the health port, by HTTP version and answered state; none: an answer without a state",
    EBPF_ATTACHED: Gauge "gwready_ebpf_attached" ["program"] "1 for an eBPF program that is attached",
    DATAPATH_DROPS: Counter "gwready_datapath_drops" ["reason"] "Packets dropped by Cilium's datapath on this node, from cilium_metrics",
    TLS_NOT_AFTER: Gauge "gwready_tls_certificate_not_after_seconds" ["port", "name"] "Expiry of the certificate that the TLS probe was shown, seconds since the Unix epoch",
    BUILD: Info "gwready_build" ["version"] "Version of the agent",
    PROCESS_CPU: Counter "process_cpu_seconds" [] "User and system CPU time of the agent",
    PROCESS_RESIDENT: Gauge "process_resident_memory_bytes" [] "Resident memory of the agent",
    PROCESS_VIRTUAL: Gauge "process_virtual_memory_bytes" [] "Virtual memory of the agent",
    PROCESS_OPEN_FDS: Gauge "process_open_fds" [] "Open file descriptors of the agent",
    PROCESS_MAX_FDS: Gauge "process_max_fds" [] "Limit of open file descriptors of the agent",
    PROCESS_START_TIME: Gauge "process_start_time_seconds" [] "Start of the agent, seconds since the Unix epoch",
    PROCESS_THREADS: Gauge "process_threads" [] "Threads of the agent",
}
