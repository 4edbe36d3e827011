//! The agent without one or all of its capabilities: a healthy node stays in the pool, the agent says what it lacks, and
//! what can still be seen is seen. And which of its threads have any at all.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Result, ensure};
use gwready_tests::lbmaps::LbMaps;
use gwready_tests::node::node_v4;
use gwready_tests::{Agent, Envoy, Node, Thief, eventually, paths};

const SOON: Duration = Duration::from_secs(15);
const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// An agent whose capabilities are cut down by setpriv, e.g. `-net_admin`, with a folder of its own for its probe socket.
fn start_without(node: &Node, bounding: &str) -> Agent {
    let temporary = node.dir().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let bounding = format!("--bounding-set={bounding}");
    let builder = Agent::quick(node).env("TMPDIR", temporary.to_str().unwrap());
    let mut agent = builder.under(&["setpriv", &bounding, "--inh-caps=-all"]).start().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
    agent
}

/// Exit code and words of `gwready ready` of this agent.
fn ready(node: &Node) -> (Option<i32>, String) {
    let mut command = node.command(paths::gwready().unwrap());
    let output = command.env_clear().env("TMPDIR", node.dir().join("tmp")).arg("ready").output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

fn not_visible(agent: &Agent) -> String {
    let (_, body) = agent.admin("/status").unwrap();
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    document["not_visible"].to_string()
}

/// `ready` says the same as `/readyz`: fine, or what is missing.
fn wait_ready(agent: &Agent, node: &Node, fine: bool) -> String {
    eventually(SOON, || {
        let (status, body) = agent.admin("/readyz")?;
        let (code, words) = ready(node);
        ensure!((status == 200) == fine && (code == Some(0)) == fine, "/readyz {status} {body}, ready {code:?} {words}");
        Ok(words)
    })
    .unwrap()
}

/// A thief on one address is seen and named by pid, and cleared.
fn theft_is_seen(node: &Node, agent: &mut Agent) {
    let second: IpAddr = node_v4(2).into();
    let thief = Thief::at(node, second, 80).reuseport().start().unwrap();
    agent.wait_state_of(second, "state=down reason=ShadowedAddress port=80", SOON).unwrap();
    let line = agent.wait_log("reason=ShadowedAddress", SOON).unwrap();
    assert!(line.contains(&format!("thief=thief[{}]", thief.pid())), "{line}");
    drop(thief);
    agent.wait_state_of(second, "state=up", SOON).unwrap();
}

#[test]
fn without_net_admin_marks_are_unknown_and_thefts_are_seen() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = start_without(&node, "-net_admin");
    assert!(not_visible(&agent).contains("CAP_NET_ADMIN"), "{}", not_visible(&agent));
    theft_is_seen(&node, &mut agent);
}

#[test]
fn without_bpf_and_perfmon_polling_goes_on_and_says_so() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    // CAP_SYS_ADMIN stands for both in the kernel's checks.
    let mut agent = start_without(&node, "-bpf,-perfmon,-sys_admin");
    let words = not_visible(&agent);
    assert!(words.contains("CAP_BPF") && words.contains("CAP_PERFMON"), "{words}");
    let line = agent.wait_log("kernel events are missing, polling goes on", SOON).unwrap();
    assert!(line.contains("WARN"), "{line}");
    theft_is_seen(&node, &mut agent);
    envoy.kill().unwrap();
    agent.wait_state("state=down reason=EnvoyNotRunning", SOON).unwrap();
}

#[test]
fn without_sys_ptrace_an_envoy_with_cilium_s_marks_is_known_by_them() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let agent = &mut start_without(&node, "-sys_ptrace");
    assert!(not_visible(agent).contains("CAP_SYS_PTRACE"), "{}", not_visible(agent));
    let owner = agent.metric_value("gwready_condition_status", &[("type", "OwnedByEnvoy"), ("port", "80"), ("status", "true")]).unwrap();
    assert!((owner - 1.0).abs() < f64::EPSILON);
    envoy.kill().unwrap();
    agent.wait_state("state=down", SOON).unwrap();
    envoy.start_again().unwrap();
    envoy.wait_serving().unwrap();
    agent.wait_state("state=up", SOON).unwrap();
}

#[test]
fn without_any_a_healthy_node_stays_up_and_readyz_tells() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let mut agent = start_without(&node, "-all");
    let words = wait_ready(&agent, &node, false);
    assert!(words.contains("OwnedByEnvoy"), "{words}");
    for name in ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_SYS_PTRACE"] {
        assert!(agent.log_contains(name), "{name} is not in the log:\n{}", agent.log());
    }
    let one = agent.metric_value("gwready_condition_status", &[("type", "OwnedByEnvoy"), ("port", "80"), ("status", "unknown")]).unwrap();
    assert!((one - 1.0).abs() < f64::EPSILON, "unknown, not a guess");
    agent.wait_state("state=up", SOON).unwrap();
    envoy.kill().unwrap();
    agent.wait_state("state=down", SOON).unwrap();
}

#[test]
fn with_everything_the_agent_is_ready() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    // Without Cilium's maps interception can't be judged, which it says too.
    let agent = start_without(&node, "+all");
    assert!(wait_ready(&agent, &node, false).contains("NoCiliumMaps"));
    drop(agent);
    let _maps = node.enter(|| LbMaps::create(&node.bpffs(), 1_000)).unwrap();
    let agent = start_without(&node, "+all");
    assert_eq!(wait_ready(&agent, &node, true), "ok\n");
}

/// Name of each thread with its effective capabilities.
fn threads(pid: i32) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        let all = ["CapEff:", "CapPrm:", "CapInh:"].map(|name| u64::from_str_radix(&field(name), 16).unwrap_or(u64::MAX));
        found.insert(field("Name:"), all.into_iter().fold(0, |one, other| one | other));
    }
    Ok(found)
}

#[test]
fn only_threads_that_read_the_system_keep_capabilities() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mut agent = Agent::start_up(&node).unwrap();
    let thief = Thief::at(&node, ANY_V4, 80).reuseport().start().unwrap();
    agent.wait_state("state=up partial=2", SOON).unwrap();
    drop(thief);
    let threads = threads(agent.pid()).unwrap();
    let with: Vec<&String> = threads.iter().filter(|(_, caps)| **caps != 0).map(|(name, _)| name).collect();
    assert!(with.iter().any(|name| *name == "observer"), "{threads:?}");
    let reads = |name: &str| name == "observer" || name == "gwready-owners" || name == "gwready-netfilt";
    assert!(with.iter().all(|name| reads(name)), "{threads:?}");
    assert!(threads.len() > with.len() && threads.get("gwready") == Some(&0), "{threads:?}");
}
