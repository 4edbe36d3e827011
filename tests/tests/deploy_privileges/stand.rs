//! A node as Cilium leaves it with an agent that lacks something, and what that agent says. Must not assert what is lost.

use std::path::Path;
use std::time::Duration;

use gwready_tests::lbmaps::LbMaps;
use gwready_tests::{Agent, Envoy, Node, Thief, eventually};
use serde_json::Value;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The chart's list.
pub(crate) fn granted() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/helm/gwready/values.yaml");
    let values: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    values["capabilities"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn without(capability: &str) -> Vec<String> {
    let list: Vec<String> = granted().into_iter().filter(|name| name != capability).collect();
    assert_eq!(list.len() + 1, granted().len(), "{capability} is in the chart");
    list
}

pub(crate) fn agent(node: &Node, capabilities: &[String]) -> Agent {
    let bounding = capabilities.iter().fold("--bounding-set=-all".to_owned(), |set, name| format!("{set},+{}", name.to_lowercase()));
    Agent::builder(node).under(&["setpriv", &bounding, "--inh-caps=-all", "--no-new-privs"]).start().unwrap()
}

/// A node as Cilium leaves it, with an agent that has only these capabilities.
pub(crate) struct Stand {
    pub(crate) agent: Agent,
    pub(crate) envoy: Option<Envoy>,
    pub(crate) node: Node,
}

impl Stand {
    pub(crate) fn with(capabilities: &[String]) -> Self {
        Self::up(|node| agent(node, capabilities))
    }

    pub(crate) fn up(start: impl FnOnce(&Node) -> Agent) -> Self {
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

    pub(crate) fn without(capability: &str) -> Self {
        Self::with(&without(capability))
    }

    pub(crate) fn status(&self) -> Value {
        let output = self.agent.command(&["status", "--json"]).unwrap().output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Type and reason of every condition that is Unknown for want of sight.
    pub(crate) fn unknown(&self) -> Vec<String> {
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
    pub(crate) fn programs(&self) -> Vec<bool> {
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
    pub(crate) fn told_of_owner(&self) -> String {
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

/// A thief on the node's first address, with all capabilities: more than the agent has.
pub(crate) fn steal(stand: &Stand) -> Thief {
    Thief::at(&stand.node, stand.node.addresses()[0], 80).reuseport().start().unwrap()
}
