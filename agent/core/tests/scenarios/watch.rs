//! Watches a node over time as the agent does, each judgement by way of a snapshot file, and tells what people and balancers see of it.

use std::net::IpAddr;
use std::time::Duration;

use gwready_core::condition::{Condition, ConditionType, Status};
use gwready_core::judge::judge;
use gwready_core::memory::Memory;
use gwready_core::net::Family;
use gwready_core::policy::Policy;
use gwready_core::reason::Reason;
use gwready_core::render::health::{AnswerSettings, Scope, answer, render_body};
use gwready_core::render::log_line::render_text;
use gwready_core::render::transition::{Context, transition};
use gwready_core::replay::{SnapshotFile, VERSION, parse_snapshot_file};
use gwready_core::time::{Mono, Now};
use gwready_core::verdict::{Outcome, State, Verdict};

use super::node::Node;

/// Milliseconds since the epoch at monotonic zero.
const EPOCH_MS: u64 = 1_800_000_000_000;

pub fn mono(seconds: f64) -> Mono {
    Mono(u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap())
}

fn now(seconds: f64) -> Now {
    let mono = mono(seconds);
    Now { mono, unix_ms: EPOCH_MS + mono.0 / 1_000_000 }
}

/// The file that the agent would write before this judgement.
pub fn file(policy: &Policy, memory: &Memory, node: &Node, seconds: f64) -> SnapshotFile {
    SnapshotFile {
        version: VERSION,
        agent: "0.1.0".to_owned(),
        node: "worker-1".to_owned(),
        policy: policy.clone(),
        config: serde_json::Value::Null,
        memory: memory.clone(),
        snapshot: node.as_of(mono(seconds)),
        now: now(seconds),
    }
}

/// An agent that watches one node.
pub struct Watch {
    pub policy: Policy,
    pub memory: Memory,
    verdict: Option<Verdict>,
    last: Option<SnapshotFile>,
    log: Option<String>,
    seconds: f64,
}

impl Watch {
    /// An agent that has just started.
    pub fn start(policy: Policy) -> Self {
        Self { policy, memory: Memory::default(), verdict: None, last: None, log: None, seconds: 0.0 }
    }

    /// An agent that has seen this node healthy at the tenth second.
    pub fn of(node: &Node) -> Self {
        Self::with(Policy::default(), node)
    }

    /// The same with another policy.
    pub fn with(policy: Policy, node: &Node) -> Self {
        let mut watch = Self::start(policy);
        watch.sees(10.0, node);
        assert_eq!(watch.node(), "up", "the node must be healthy to begin with");
        watch
    }

    /// A healthy node, and then this at the twentieth second.
    pub fn turned(node: &Node) -> Self {
        let mut watch = Self::of(&Node::healthy());
        watch.sees(20.0, node);
        watch
    }

    /// Judges the node as read at this second, from the text of a snapshot file.
    pub fn sees(&mut self, seconds: f64, node: &Node) -> &mut Self {
        let text = serde_json::to_string(&file(&self.policy, &self.memory, node, seconds)).unwrap();
        self.replay(&parse_snapshot_file(&text).unwrap())
    }

    /// The same node, read again every tenth of a second.
    pub fn keeps_seeing(&mut self, from: f64, until: f64, node: &Node) -> &mut Self {
        let steps = ((until - from) * 10.0).round() as u32;
        for step in 0..=steps {
            self.sees(from + f64::from(step) / 10.0, node);
        }
        self
    }

    /// Judges at this second what was read at an earlier one: no pass has come to an end since.
    pub fn sees_nothing_new(&mut self, seconds: f64, read_at: f64, node: &Node) -> &mut Self {
        let mut file = file(&self.policy, &self.memory, node, read_at);
        file.now = now(seconds);
        self.replay(&file)
    }

    fn replay(&mut self, file: &SnapshotFile) -> &mut Self {
        let judgement = judge(&file.policy, &file.snapshot, &file.memory, file.now);
        let context = Context { detected_in: None, drain: file.snapshot.drain.as_ref() };
        self.log = transition(self.verdict.as_ref(), &judgement.verdict, context).map(|change| render_text(&change.line));
        self.memory = judgement.memory;
        self.last = Some(file.clone());
        self.verdict = Some(judgement.verdict);
        self.seconds = Duration::from_nanos(file.now.mono.0).as_secs_f64();
        self
    }

    /// What the last judgement was made of.
    pub fn last_file(&self) -> &SnapshotFile {
        self.last.as_ref().unwrap()
    }

    pub fn verdict(&self) -> &Verdict {
        self.verdict.as_ref().unwrap()
    }

    /// `up`, `drain DrainRequested`, `down HostPort 80`.
    pub fn node(&self) -> String {
        outcome(&self.verdict().node)
    }

    /// Every endpoint, e.g. `10.0.0.11:80 down HostPort`.
    pub fn ports(&self) -> Vec<String> {
        let line = |o: &gwready_core::verdict::EndpointOutcome| match o.outcome.reason {
            Some(reason) => format!("{} {} {reason}", o.endpoint, o.outcome.state),
            None => format!("{} {}", o.endpoint, o.outcome.state),
        };
        self.verdict().endpoints.iter().map(line).collect()
    }

    /// The whole body that a balancer gets which probes this local address (none: loopback), and this port if one is named.
    pub fn body(&self, local: Option<&str>, port: Option<u16>) -> String {
        let settings = AnswerSettings {
            node_name: "worker-1".to_owned(),
            stale_after: self.policy.stale_after,
            scope: Scope::Address,
            detail: true,
            starting_ports: vec![80, 443],
        };
        let local: Option<IpAddr> = local.map(|local| local.parse().unwrap());
        match answer(self.verdict.as_ref(), &settings, local, port, mono(self.seconds)) {
            Some(answer) => render_body(&answer, &settings, 1200),
            None => "404\n".to_owned(),
        }
    }

    /// The state line of that body.
    pub fn health(&self, local: Option<&str>) -> String {
        self.body(local, None).lines().next().unwrap().to_owned()
    }

    /// The last judgement's log line; the fix is only checked to be the page of a reason that the line names.
    pub fn log(&self) -> &str {
        let Some(line) = self.log.as_deref() else { return "" };
        let Some((told, fix)) = line.split_once(" fix=\"docs/conditions/") else { return line };
        let page = fix.split_once(".md: ").unwrap().0;
        assert!(told.contains(&format!("reason={page}")), "the fix is about {page}: {line}");
        told
    }

    /// A condition of the node.
    pub fn condition(&self, kind: ConditionType) -> &Condition {
        self.verdict().conditions.iter().find(|condition| condition.kind == kind).unwrap()
    }

    /// A condition of an IPv4 front.
    pub fn front(&self, kind: ConditionType, port: u16) -> &Condition {
        self.front_in(kind, port, Family::Ipv4)
    }

    pub fn front_in(&self, kind: ConditionType, port: u16, family: Family) -> &Condition {
        let of_front = |c: &&Condition| c.kind == kind && c.front.is_some_and(|front| front.port == port && front.family == family);
        self.verdict().conditions.iter().find(of_front).unwrap()
    }

    /// Every reason that some condition gives now.
    pub fn reasons(&self) -> Vec<Reason> {
        let conditions = self.verdict().conditions.iter().filter_map(|condition| condition.reason);
        conditions.chain(self.verdict().node.reason).collect()
    }

    /// What must be seen: the line for a balancer that probes 10.0.0.11, the endpoints, and the line in the log.
    #[track_caller]
    pub fn told(&self, health: &str, ports: &[&str], log: &str) {
        assert_eq!(self.health(Some(super::node::A)), health, "the state line");
        assert_eq!(self.ports(), ports, "the endpoints");
        assert_eq!(self.log(), log, "the log line");
    }

    /// The node stays in service, nothing is logged, and this condition is what is said about it.
    #[track_caller]
    pub fn stays_up_but_says(&self, condition: &Condition, status: Status, reason: Reason) {
        assert_eq!(self.verdict().node, Outcome::UP);
        assert_eq!((condition.status, condition.reason), (status, Some(reason)));
        assert_eq!(self.log(), "", "no transition, no line");
        assert_eq!(self.health(Some(super::node::A)), "state=up node=worker-1 address=10.0.0.11 ports=80,443");
    }
}

pub fn outcome(outcome: &Outcome) -> String {
    let mut text = outcome.state.to_string();
    if let Some(reason) = outcome.reason {
        text = format!("{text} {reason}");
    }
    if !outcome.ports.is_empty() {
        let ports: Vec<String> = outcome.ports.iter().map(u16::to_string).collect();
        text = format!("{text} {}", ports.join(","));
    }
    assert_eq!(outcome.reason.is_none(), outcome.state == State::Up, "a reason exactly when not up");
    text
}
