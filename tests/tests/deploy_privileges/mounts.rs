//! The table of mounts and host namespaces in `deploy/README.md`: each one left out, with real Envoy in the box, and what
//! the table says is lost seen to be lost. With all of them nothing is: the tests beside this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::ensure;
use gwready_tests::{Agent, AgentBuilder, Envoy, Listener, Node, Thief, eventually, freezer, paths};

use crate::stand::{PATIENCE, Stand, steal};

/// Rows of the table, each with a test below that calls [`stated`].
const HELD: [&str; 9] =
    ["hostNetwork", "hostPID", "/etc/gwready", "/run/gwready", "/tmp", "/sys/fs/bpf", "/var/run/cilium", "/host/cgroup", "/var/log/pods"];

/// Name and third cell (what is lost) of each row.
fn table() -> Vec<(String, String)> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/README.md")).unwrap();
    let section = page.split("\n## Mounts and host namespaces\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cell = |row: &str, number: usize| row.split('|').nth(number).unwrap().trim().to_owned();
    rows.map(|row| (cell(row, 1).replace('`', ""), cell(row, 3))).collect()
}

/// The table says these words of the mount. The test that calls this has seen that they are true.
fn stated(mount: &str, words: &[&str]) {
    assert!(HELD.contains(&mount));
    let (_, cell) = table().into_iter().find(|(name, _)| name == mount).unwrap_or_else(|| panic!("no row {mount}"));
    for word in words {
        assert!(cell.contains(word), "{mount}: no {word:?} in {cell:?}");
    }
}

#[test]
fn every_row_has_its_test() {
    assert_eq!(table().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), HELD);
}

/// A folder that is there and empty: a mount that is missing.
fn nothing(node: &Node) -> PathBuf {
    let folder = node.dir().join("not-mounted");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn up(change: impl FnOnce(&Node, AgentBuilder) -> AgentBuilder) -> Stand {
    Stand::up(|node| change(node, Agent::quick(node)).start().unwrap())
}

#[test]
fn without_the_hosts_network_the_node_has_no_answer() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::quick(&node).under(&["unshare", "--net"]).start().unwrap();
    agent.wait_log("node DOWN reason=EnvoyNotRunning", PATIENCE).unwrap();
    assert!(agent.health_from_outside(node.addresses()[0]).is_err(), "nothing serves on the node's port");
    stated("hostNetwork", &["everything"]);
}

#[test]
fn without_the_hosts_processes_sockets_are_told_by_their_marks_alone() {
    let mut stand = up(|_, agent| agent.under(&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]));
    assert_eq!(stand.unknown(), ["Accepting QueuesUnreadable"]);
    for (program, attached) in [("socket_state", 1.0), ("signal_generate", 0.0), ("process_exit", 0.0)] {
        eventually(PATIENCE, || {
            let value = stand.agent.metric_value("gwready_ebpf_attached", &[("program", program)])?;
            ensure!((value - attached).abs() < f64::EPSILON && stand.agent.log_contains("kernel events"), "{program}: {value}");
            Ok(())
        })
        .unwrap();
    }
    let thief = steal(&stand);
    let told = stand.told_of_owner();
    assert!(told.contains("Unidentified") && !told.contains(&thief.pid().to_string()), "{told}");
    drop(thief);
    stand.envoy.as_mut().unwrap().kill().unwrap();
    stand.agent.wait_state("state=down", PATIENCE).unwrap();
    stated("hostPID", &["`Accepting`", "`QueuesUnreadable`", "`OwnedByEnvoy`", "`Unidentified`", "no signal and no exit"]);
}

#[test]
fn without_its_configuration_it_ends() {
    let node = Node::new().unwrap();
    let missing = nothing(&node).join("gwready.yaml");
    let mut command = node.command(paths::gwready().unwrap());
    let output = command.env_clear().args(["run", "--config"]).arg(&missing).output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    stated("/etc/gwready", &["exit code 78"]);
}

#[test]
fn without_its_state_a_restart_forgets_a_drain_and_a_bad_past() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let start = |folder: &str| {
        let folder = node.dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        // A node that was bad has to be good for as long as this before it is up.
        let agent = Agent::builder(&node).set("state_dir", text(&folder)).set("timing.min_up", "60s");
        agent.set("timing.resync", "200ms").start().unwrap()
    };
    let mut agent = start("kept");
    agent.wait_state("state=up", PATIENCE).unwrap();
    let drained = agent.command(&["drain", "--reason", "disk"]).unwrap().output().unwrap();
    assert!(drained.status.success(), "{drained:?}");
    agent.wait_state("state=drain reason=DrainRequested", PATIENCE).unwrap();
    agent.stop().unwrap();
    let mut agent = start("kept");
    agent.wait_state("state=drain reason=DrainRequested", PATIENCE).unwrap();
    agent.stop().unwrap();
    let mut agent = start("lost");
    agent.wait_state("state=up", PATIENCE).unwrap();

    envoy.kill().unwrap();
    agent.wait_state("state=down reason=EnvoyNotRunning", PATIENCE).unwrap();
    agent.stop().unwrap();
    envoy.start_again().unwrap();
    envoy.wait_serving().unwrap();
    let mut agent = start("lost again");
    agent.wait_state("state=up", PATIENCE).unwrap();
    let passes = |agent: &Agent| agent.metric_value("gwready_passes_total", &[("trigger", "tick")]);
    let enough = passes(&agent).unwrap();
    agent.stop().unwrap();
    let agent = start("lost");
    eventually(PATIENCE, || {
        let now = passes(&agent)?;
        ensure!(now > 3.0 * enough + 10.0, "{now} passes, {enough} were enough for the other");
        Ok(())
    })
    .unwrap();
    assert!(agent.state_line().unwrap().starts_with("state=down "), "{}", agent.log());
    stated("/run/gwready", &["forgets a drain", "first start"]);
}

/// `gwready live` with this folder for sockets.
fn live(node: &Node, folder: &Path) -> Output {
    let mut command = node.command(paths::gwready().unwrap());
    command.env_clear().env("TMPDIR", folder).arg("live").output().unwrap()
}

#[test]
fn without_its_own_folder_it_ends() {
    let node = Node::new().unwrap();
    let folder = nothing(&node);
    let mut agent = Agent::quick(&node).env("TMPDIR", text(&folder)).start().unwrap();
    agent.wait_state("state=down", PATIENCE).unwrap();
    assert!(live(&node, &folder).status.success());
    agent.stop().unwrap();
    let missing = node.dir().join("no-folder");
    let mut agent = Agent::quick(&node).env("TMPDIR", text(&missing)).start().unwrap();
    assert_eq!(agent.process().wait_exit(PATIENCE).unwrap().code(), Some(2), "{}", agent.log());
    assert!(agent.log_contains("cannot prepare the folder of the probe socket"), "{}", agent.log());
    assert!(!live(&node, &missing).status.success());
    stated("/tmp", &["exit code 2"]);
}

#[test]
fn without_bpffs_interception_and_ciliums_agent_are_unknown() {
    let stand = up(|node, agent| agent.set("cilium.bpffs", text(&nothing(node))));
    assert_eq!(stand.unknown(), ["NotIntercepted NoCiliumMaps", "TproxyPath RoutesUnreadable", "CiliumAgentAlive NoLivenessStamp"]);
    stated("/sys/fs/bpf", &["`NotIntercepted`", "`NoCiliumMaps`", "`CiliumAgentAlive`", "`TproxyPath`"]);
}

fn without_run_folder(node: &Node, agent: AgentBuilder) -> AgentBuilder {
    let folder = nothing(node);
    agent.set("cilium.run_dir", text(&folder)).set("envoy.admin_socket", text(&folder.join("admin.sock")))
}

#[test]
fn without_ciliums_run_folder_envoys_own_word_is_lost() {
    let mut stand = up(without_run_folder);
    assert_eq!(stand.unknown(), ["EnvoyLive AdminUnreachable", "ConfigCurrent AdminUnreachable"]);
    let envoy = stand.envoy.as_mut().unwrap();
    envoy.set_listeners(&[Listener::gateway(), Listener::http(8080)]).unwrap();
    envoy.wait_serving().unwrap();
    let line = stand.agent.wait_state("state=up", PATIENCE).unwrap();
    assert!(line.ends_with(" ports=80,443"), "8080 is not learnt: {line}");
    stated("/var/run/cilium", &["`EnvoyLive`", "`ConfigCurrent`", "`AdminUnreachable`", "not learnt"]);
}

#[test]
fn without_ciliums_run_folder_a_rejected_listener_is_told_as_none() {
    for (hidden, reason) in [(false, "ListenerRejected"), (true, "NoListener")] {
        let node = Node::new().unwrap();
        let broken = Listener { broken: true, ..Listener::gateway() };
        let _envoy = Envoy::builder(&node).listeners(vec![broken]).start_unserved().unwrap();
        let agent = Agent::quick(&node);
        let mut agent = if hidden { without_run_folder(&node, agent) } else { agent }.start().unwrap();
        agent.wait_state(&format!("state=down reason={reason}"), PATIENCE).unwrap();
    }
    stated("/var/run/cilium", &["`ListenerRejected`", "`NoListener`"]);
}

#[test]
fn without_the_cgroups_a_frozen_envoy_is_told_by_its_silence_alone() {
    let mut stand = up(|node, agent| agent.set("host.cgroup", text(&nothing(node))));
    // The last kind is version 2, whose frozen processes look asleep.
    let kind = freezer::count().unwrap() - 1;
    let frozen = freezer::freeze(kind, stand.envoy.as_ref().unwrap().pid().unwrap()).unwrap();
    let line = stand.agent.wait_state("state=down", PATIENCE).unwrap();
    assert!(!line.contains("ProcessStopped"), "{line}");
    drop(frozen);
    stand.agent.wait_state("state=up", PATIENCE).unwrap();
    assert!(!stand.agent.log_contains("ProcessStopped"), "{}", stand.agent.log());
    stated("/host/cgroup", &["`ProcessStopped`", "freezer", "version 2"]);
}

const POD_UID: &str = "8ea7bbd2-4c3b-4f8e-9d57-0a1b2c3d4e5f";

#[test]
fn without_the_pod_logs_a_thief_is_named_by_its_pods_uid() {
    for (hidden, named) in [(false, "pod shop/thief-0"), (true, POD_UID)] {
        let node = Node::builder().without_ipv6().build().unwrap();
        fs::create_dir_all(node.pod_logs().join(format!("shop_thief-0_{POD_UID}"))).unwrap();
        let _envoy = Envoy::start(&node).unwrap();
        let thief = Thief::at(&node, node.addresses()[0], 80).reuseport().start().unwrap();
        let _pod = freezer::place(&format!("pod{POD_UID}"), thief.pid()).unwrap();
        let agent = Agent::quick(&node);
        let mut agent = if hidden { agent.set("host.pod_logs", text(&nothing(&node))) } else { agent }.start().unwrap();
        agent.wait_state_of(node.addresses()[0], "state=down reason=ShadowedAddress", PATIENCE).unwrap();
        eventually(PATIENCE, || {
            let (_, status) = agent.admin("/status")?;
            ensure!(status.contains(named), "no {named:?} in {status}");
            ensure!(hidden != status.contains("thief-0"), "{status}");
            Ok(())
        })
        .unwrap();
    }
    stated("/var/log/pods", &["UID"]);
}
