//! What the owner source needs to know. Plain values; must not read anything.

use std::path::PathBuf;
use std::time::Duration;

/// Paths and limits of the owner source.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `host.proc`: a procfs of the node's pid namespace.
    pub proc_root: PathBuf,
    /// `host.cgroup`: the cgroup v2 mount, or the folder with the v1 hierarchies.
    pub cgroup_root: PathBuf,
    /// `host.pod_logs`: the kubelet's pod log folders.
    pub pod_logs: PathBuf,
    /// Base name of the Envoy executable.
    pub envoy_exe: String,
    /// How long the first read waits for the first walk, so that the first pass can answer.
    pub first_walk: Duration,
    /// How long one walk of /proc may take; what it has not seen by then counts as not searched.
    pub walk_deadline: Duration,
    /// Time within a read for looking at new processes while there is no Envoy.
    pub scan_time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            proc_root: PathBuf::from("/proc"),
            cgroup_root: PathBuf::from("/sys/fs/cgroup"),
            pod_logs: PathBuf::from("/var/log/pods"),
            envoy_exe: "cilium-envoy".to_owned(),
            first_walk: Duration::from_millis(500),
            walk_deadline: Duration::from_secs(10),
            scan_time: Duration::from_millis(1),
        }
    }
}
