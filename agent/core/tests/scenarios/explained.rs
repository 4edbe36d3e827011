//! What `gwready explain` says, word by word, of five nodes that differ in kind.

use gwready_core::condition::ConditionType;
use gwready_core::facts::Why;
use gwready_core::render::explain::render_explain;
use gwready_core::replay::SnapshotFile;

use super::faults;
use super::kept::{committed, folder, judged};
use super::node::{A, Node, SIX, lost};
use super::watch::Watch;
use crate::kept;

/// Name, what the file holds (with the memory of a healthy past), and the node's outcome.
pub fn scenarios() -> [(&'static str, Node, &'static str); 5] {
    let mut blind = Node::healthy();
    blind.snapshot.lb.v4 = lost(Why::Permission, "bpf(BPF_OBJ_GET): Operation not permitted");
    blind.snapshot.netfilter = lost(Why::Permission, "nfnetlink: Operation not permitted");
    [
        ("healthy-dual-stack", Node::with(&[A, SIX]), "up"),
        ("host-port", faults::host_port(), "down HostPort 80"),
        ("one-port-missing", Node::healthy().closed(443), "down NoListener 443"),
        ("drain", faults::drained(Some(1_800_003_600_000)), "drain DrainRequested"),
        ("maps-unreadable", blind, "up"),
    ]
}

/// The scenario's watch: the node as seen at 20 s by an agent that saw its healthy self at 10 s.
fn watched(node: &Node) -> Watch {
    let before = if node.snapshot.lb.v6.value().is_some() { Node::with(&[A, SIX]) } else { Node::healthy() };
    let mut watch = Watch::of(&before);
    watch.sees(20.0, node);
    watch
}

pub fn built(node: &Node) -> SnapshotFile {
    watched(node).last_file().clone()
}

#[test]
fn the_five_kinds() {
    for (name, node, expected) in scenarios() {
        let watch = watched(&node);
        assert_eq!(watch.node(), expected, "{name}");
        kept!(watch, name);
    }
}

#[test]
fn explain_tells_a_fault_and_a_blind_agent_in_these_words() {
    for name in ["host-port", "maps-unreadable"] {
        let (_, node, _) = scenarios().into_iter().find(|(own, _, _)| *own == name).unwrap();
        let file = built(&node);
        let judgement = judged(&file);
        let text = render_explain(&file, &judgement.verdict, &judgement.memory);
        let path = folder().join(format!("explained/the_five_kinds.{name}.explain.txt"));
        assert_eq!(text, committed(&path, &text), "{name}");
    }
}

#[test]
fn explain_shows_each_condition_once_with_rule_sources_and_policy() {
    for (name, node, expected) in scenarios() {
        let file = built(&node);
        let judgement = judged(&file);
        let text = render_explain(&file, &judgement.verdict, &judgement.memory);
        let count = |part: &str| text.lines().filter(|line| line.starts_with(part)).count();
        // Conditions that say the same of several fronts share a paragraph: `Listening 80/ipv4, 443/ipv4: TRUE`.
        let heads: Vec<&str> =
            text.lines().filter(|line| ConditionType::ALL.iter().any(|kind| line.starts_with(&format!("   {kind} ")))).collect();
        let told: usize = heads.iter().map(|head| head.split(": ").next().unwrap_or_default().split(", ").count()).sum();
        assert_eq!(told, judgement.verdict.conditions.len(), "{name}: {heads:?}");
        for part in ["     rule      ", "     sources   ", "     policy    "] {
            assert_eq!(count(part), heads.len(), "{name}: {part}");
        }
        for kind in ConditionType::ALL {
            assert!(count(&format!("   {kind} ")) >= 1, "{name}: {kind}");
        }
        let word = expected.split(' ').next().unwrap().to_uppercase();
        assert_eq!(count(&format!("   node  {word}")), 1, "{name}\n{text}");
        assert!(text.is_ascii() && text.lines().all(|line| line.len() < 400), "{name}");
    }
}
