//! The table of capabilities in `deploy/README.md`: the chart's set lets the agent see everything, and what is lost without
//! each one is what the table says. The capabilities that the agent may ever have are set as a container runtime sets them:
//! by the bounding set. The table of mounts below it: see `mounts`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod mounts;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gwready_tests::lbmaps::LbMaps;
use gwready_tests::process::{Place, Process};
use gwready_tests::{Agent, Envoy, Node, Thief, eventually};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// The chart's list.
fn granted() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/helm/gwready/values.yaml");
    let values: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    values["capabilities"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn without(capability: &str) -> Vec<String> {
    let list: Vec<String> = granted().into_iter().filter(|name| name != capability).collect();
    assert_eq!(list.len() + 1, granted().len(), "{capability} is in the chart");
    list
}

fn agent(node: &Node, capabilities: &[String]) -> Agent {
    let bounding = capabilities.iter().fold("--bounding-set=-all".to_owned(), |set, name| format!("{set},+{}", name.to_lowercase()));
    Agent::builder(node).under(&["setpriv", &bounding, "--inh-caps=-all", "--no-new-privs"]).start().unwrap()
}

/// A node as Cilium leaves it, with an agent that has only these capabilities.
struct Stand {
    agent: Agent,
    envoy: Option<Envoy>,
    node: Node,
}

impl Stand {
    fn with(capabilities: &[String]) -> Self {
        Self::up(|node| agent(node, capabilities))
    }

    fn up(start: impl FnOnce(&Node) -> Agent) -> Self {
        let node = Node::new().unwrap();
        node.enter(|| {
            let mut maps = LbMaps::create(&node.bpffs(), 1024)?;
            maps.stamp(gwready::clock::mono().0)
        })
        .unwrap();
        let envoy = Envoy::start(&node).unwrap();
        let mut stand = Self { agent: start(&node), envoy: Some(envoy), node };
        // Whatever it lacks, its own want of sight never takes the node out.
        stand.agent.wait_state("state=up", PATIENCE).unwrap();
        stand
    }

    fn without(capability: &str) -> Self {
        Self::with(&without(capability))
    }

    fn status(&self) -> Value {
        let output = self.agent.command(&["status", "--json"]).unwrap().output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Type and reason of every condition that is Unknown for want of sight.
    fn unknown(&self) -> Vec<String> {
        let status = self.status();
        let unknown = status["conditions"].as_array().unwrap().iter().filter(|condition| condition["status"] == "unknown");
        let mut words: Vec<String> = unknown
            .filter(|condition| !["NotJudged", "NotProbed", "ProbeTranslated"].contains(&condition["reason"].as_str().unwrap()))
            .map(|condition| format!("{} {}", condition["type"].as_str().unwrap(), condition["reason"].as_str().unwrap()))
            .collect();
        words.dedup();
        words
    }

    /// Whether each eBPF program is attached, once the agent has tried.
    fn programs(&self) -> Vec<bool> {
        eventually(PATIENCE, || {
            let metrics = self.agent.metrics()?;
            let lines = metrics.lines().filter(|line| line.starts_with("gwready_ebpf_attached{"));
            let attached: Vec<bool> = lines.map(|line| !line.ends_with(" 0") && !line.ends_with(" 0.0")).collect();
            anyhow::ensure!(!attached.is_empty(), "no such series yet");
            Ok(attached)
        })
        .unwrap()
    }

    /// What the agent says about a port that is not Envoy's alone, once it has noticed.
    fn told_of_owner(&self) -> String {
        eventually(PATIENCE, || {
            let status = self.status();
            anyhow::ensure!(status["reason"] != "Starting", "still starting");
            let conditions = status["conditions"].as_array().unwrap().clone();
            let told = conditions
                .iter()
                .find(|condition| condition["type"] == "OwnedByEnvoy" && condition["port"] == 80 && condition["status"] != "true");
            let told = told.ok_or_else(|| anyhow::anyhow!("OwnedByEnvoy is true: {status}"))?.to_string();
            anyhow::ensure!(!told.contains("the search is still running"), "{told}");
            Ok(told)
        })
        .unwrap()
    }
}

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

/// A thief on the node's first address, with all capabilities: more than the agent has.
fn steal(stand: &Stand) -> Thief {
    Thief::at(&stand.node, stand.node.addresses()[0], 80).reuseport().start().unwrap()
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
