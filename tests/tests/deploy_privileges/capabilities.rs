//! The table of capabilities: each one left out. The capabilities that the agent may ever have are set as a container
//! runtime sets them: by the bounding set.

use std::process::Command;

use gwready_tests::Node;
use gwready_tests::process::{Place, Process};

use crate::stand::{PATIENCE, Stand, agent, granted, steal, without};

#[test]
fn with_the_charts_capabilities_nothing_is_hidden() {
    let stand = Stand::with(&granted());
    assert_eq!(stand.unknown(), Vec::<String>::new(), "{}", stand.status());
    assert!(stand.programs().iter().all(|attached| *attached), "{}", stand.agent.log());
    assert!(!stand.agent.log_contains("cannot be observed"), "{}", stand.agent.log());
    assert_eq!(stand.agent.admin("/readyz").unwrap().0, 200);
}

/// Since Linux 5.19 maps that are pinned can be read without CAP_BPF by whoever may open the file.
fn pinned_maps_are_files() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    (major, minor) >= (5, 19)
}

#[test]
fn without_bpf_events_are_lost_and_on_old_kernels_the_maps() {
    let stand = Stand::without("BPF");
    assert!(stand.programs().iter().all(|attached| !attached), "{}", stand.agent.log());
    let expected: &[&str] =
        if pinned_maps_are_files() { &[] } else { &["NotIntercepted MapsUnreadable", "CiliumAgentAlive NoLivenessStamp"] };
    assert_eq!(stand.unknown(), expected);
    assert!(stand.agent.log_contains("CAP_BPF is missing"));
}

#[test]
fn without_perfmon_events_alone_are_lost() {
    let stand = Stand::without("PERFMON");
    assert_eq!(stand.unknown(), Vec::<String>::new());
    assert!(stand.programs().iter().all(|attached| !attached), "{}", stand.agent.log());
}

#[test]
fn without_net_admin_marks_and_netfilter_are_lost() {
    let stand = Stand::without("NET_ADMIN");
    assert_eq!(stand.unknown(), ["NotIntercepted NetfilterUnreadable"]);
    assert!(stand.agent.log_contains("CAP_NET_ADMIN is missing"));
}

#[test]
fn without_sys_ptrace_a_stronger_thief_is_not_found() {
    let stand = Stand::with(&granted());
    let thief = steal(&stand);
    let told = stand.told_of_owner();
    assert!(told.contains("ShadowedAddress") && told.contains(&thief.pid().to_string()), "{told}");
    drop((thief, stand));
    let stand = Stand::without("SYS_PTRACE");
    let _thief = steal(&stand);
    let told = stand.told_of_owner();
    assert!(told.contains("Unidentified"), "{told}");
}

/// A program of another user has port 80, and there is no Envoy. What the agent with these capabilities says of it.
fn told_of_nobodys_program(capabilities: &[String]) -> (i32, String) {
    let node = Node::new().unwrap();
    node.space().set_sysctl("net/ipv4/ip_unprivileged_port_start", "80").unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "socat", "-d", "-d", "TCP4-LISTEN:80,fork", "PIPE"]).current_dir("/");
    let mut program = Process::start(node.space(), command, &node.dir().join("program.log"), Place::Plain).unwrap();
    program.wait_log("listening on", PATIENCE).unwrap();
    let mut agent = agent(&node, capabilities);
    agent.wait_state("state=down", PATIENCE).unwrap();
    let stand = Stand { agent, envoy: None, node: node.clone() };
    (program.pid(), stand.told_of_owner())
}

#[test]
fn without_dac_read_search_the_program_of_another_user_is_not_found() {
    let (pid, told) = told_of_nobodys_program(&granted());
    assert!(told.contains("ForeignOwner") && told.contains(&pid.to_string()), "{told}");
    let (_, told) = told_of_nobodys_program(&without("DAC_READ_SEARCH"));
    assert!(told.contains("Unidentified"), "{told}");
}
