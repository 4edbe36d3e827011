//! The processes whose end is the end of an owner: its parents up to the init of its container. Their signals announce it
//! (`facts` of the eBPF side). Must not climb out of the container.

use gwready_core::decode::cgroup::{Place, parse_proc_cgroup};

use super::procfs_root::{ProcRoot, ProcessDir};

/// Deeper than any container's chain; a bound for a tree that changes while it is read.
const DEEPEST: usize = 16;

/// `pid` and its parents, nearest first, up to the init of its container. Outside of a container only a starter belongs to it:
/// a TERM to a shell or to a service manager is not one to Envoy.
pub(super) fn ancestors(root: &ProcRoot, pid: u32, envoy_exe: &str) -> Vec<u32> {
    let mut chain = Vec::new();
    let Ok(mut current) = root.process(pid) else { return chain };
    chain.push(pid);
    let home = container(&current);
    while chain.len() < DEEPEST {
        let Ok(status) = current.status() else { break };
        // The init of the container's pid namespace; with hostPID there is none, and the container id ends the chain.
        if status.own_pid == Some(1) || status.parent <= 1 || chain.contains(&status.parent) {
            break;
        }
        let Ok(parent) = root.process(status.parent) else { break };
        let starter = parent.exe().get().is_some_and(|exe| exe.strip_prefix(envoy_exe) == Some("-starter"));
        let same_container = home.is_some() && container(&parent) == home;
        if !starter && !same_container {
            break;
        }
        chain.push(status.parent);
        current = parent;
    }
    chain
}

fn container(process: &ProcessDir) -> Option<String> {
    let Place { container_id, .. } = parse_proc_cgroup(&process.read("cgroup").ok()?).place();
    container_id
}
