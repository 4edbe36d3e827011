//! What a load balancer reads: the verdict, cut down to the address and port it asked about, as the state line and the
//! detail lines of DESIGN 4.1.
//!
//! Nothing but the state line may contain a `state=` token, whatever a node, process or message is called: balancers
//! search the whole reply for it. HTTP framing is the agent's affair, not done here.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{Concern, Condition, Status};
use crate::reason::Reason;
use crate::render::text::sanitise;
use crate::time::Mono;
use crate::verdict::{Outcome, State, Verdict};

/// Most ports in one list of the state line. A node with more keeps its line within the reply; the rest are not shown.
pub const MAX_LISTED_PORTS: usize = 64;

/// Whom `/healthz` answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The local address on which the connection came in, if it is judged; else the node.
    #[default]
    Address,
    /// Always the node.
    Node,
}

/// What an answer depends on besides the verdict and the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerSettings {
    /// Name of the node, as given; made harmless here.
    pub node_name: String,
    /// A verdict that rests on an observation older than this is not believed.
    pub stale_after: Duration,
    /// Whom to answer for.
    pub scope: Scope,
    /// Whether a line for each condition that is not True follows.
    pub detail: bool,
    /// Ports to name while there is no verdict: the configured ones, or 80 and 443.
    pub starting_ports: Vec<u16>,
}

/// The answer to one question. Not yet text, because agent-check and HTTP word it differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<'a> {
    /// State and reason for what was asked.
    pub outcome: Outcome,
    /// The judged address it is about; none = the node.
    pub address: Option<IpAddr>,
    /// Addresses that are not up although this answer is.
    pub partial: usize,
    /// Expected ports; the one asked for, if one was.
    pub ports: Vec<u16>,
    /// Conditions to explain it by.
    pub conditions: &'a [Condition],
}

/// Answers for the local address `local` and, if given, one `port`, at `now`.
///
/// `None` means that the port is not an expected one. Without a verdict the answer is down `Starting` for any port;
/// with one whose observation is older than `stale_after` it is down `Stale`: a judge that stopped cannot leave an "up".
#[must_use]
pub fn answer<'a>(
    verdict: Option<&'a Verdict>,
    settings: &AnswerSettings,
    local: Option<IpAddr>,
    port: Option<u16>,
    now: Mono,
) -> Option<Answer<'a>> {
    let Some(verdict) = verdict else {
        return Some(not_known(Reason::Starting, port.map_or_else(|| settings.starting_ports.clone(), |port| vec![port]), &[]));
    };
    let starting = verdict.node.reason == Some(Reason::Starting);
    if starting && verdict.ports.is_empty() {
        let ports = port.map_or_else(|| settings.starting_ports.clone(), |port| vec![port]);
        return Some(not_known(Reason::Starting, ports, &verdict.conditions));
    }
    if port.is_some_and(|port| !verdict.ports.contains(&port)) {
        return None;
    }
    let ports = port.map_or_else(|| verdict.ports.clone(), |port| vec![port]);
    if starting || now.since(verdict.observed_at) > settings.stale_after {
        let reason = if starting { Reason::Starting } else { Reason::Stale };
        return Some(not_known(reason, ports, &verdict.conditions));
    }
    let judged = match settings.scope {
        Scope::Node => None,
        Scope::Address => local.map(|local| local.to_canonical()).and_then(|local| verdict.addresses.iter().find(|a| a.address == local)),
    };
    let (outcome, partial) = match (judged, port) {
        (Some(judged), None) => (judged.outcome.clone(), 0),
        (Some(judged), Some(port)) => {
            let endpoint = verdict.endpoints.iter().find(|e| e.endpoint.address == judged.address && e.endpoint.port == port);
            (endpoint.map_or_else(|| judged.outcome.clone(), |endpoint| endpoint.outcome.clone()), 0)
        }
        (None, None) => (verdict.node.clone(), verdict.partial),
        (None, Some(port)) => port_of_node(verdict, port),
    };
    let partial = if outcome.state == State::Up { partial } else { 0 };
    Some(Answer { outcome, address: judged.map(|judged| judged.address), partial, ports, conditions: &verdict.conditions })
}

fn not_known(reason: Reason, ports: Vec<u16>, conditions: &[Condition]) -> Answer<'_> {
    let outcome = Outcome { state: State::Down, reason: Some(reason), ports: Vec::new() };
    Answer { outcome, address: None, partial: 0, ports, conditions }
}

/// One port of the node, by the rule of the node itself: up while one address is up, drain if none is and one drains.
fn port_of_node(verdict: &Verdict, port: u16) -> (Outcome, usize) {
    let outcomes = || verdict.endpoints.iter().filter(|e| e.endpoint.port == port).map(|e| &e.outcome);
    let best = outcomes().map(|outcome| outcome.state).min();
    let partial = outcomes().filter(|outcome| outcome.state != State::Up).count();
    match best {
        // No judged address: the node's own state is all there is.
        None => (verdict.node.clone(), 0),
        Some(State::Up) => (Outcome::UP, partial),
        Some(state) => {
            let of_state = || outcomes().filter(|outcome| outcome.state == state);
            let first = of_state().filter(|outcome| outcome.reason.is_some()).min_by_key(|outcome| outcome.reason);
            let ports = first.map_or_else(Vec::new, |outcome| outcome.ports.clone());
            (Outcome { state, reason: first.and_then(|outcome| outcome.reason), ports }, partial)
        }
    }
}

/// The state line, without its line end:
/// `state=S node=N address=<ip|all>[ partial=K][ reason=R[ port=P[,P…]]] ports=P[,P…]`.
#[must_use]
pub fn render_state_line(answer: &Answer<'_>, settings: &AnswerSettings) -> String {
    let mut line = String::with_capacity(160);
    line.push_str("state=");
    line.push_str(answer.outcome.state.as_str());
    line.push_str(" node=");
    line.push_str(&one_word(&settings.node_name));
    line.push_str(" address=");
    match answer.address {
        // Writing to a String cannot fail; the result is of the trait, not of the act.
        Some(address) => _ = write!(line, "{address}"),
        None => line.push_str("all"),
    }
    if answer.partial > 0 {
        _ = write!(line, " partial={}", answer.partial);
    }
    if let Some(reason) = answer.outcome.reason {
        _ = write!(line, " reason={reason}");
        push_ports(&mut line, " port=", &answer.outcome.ports);
    }
    push_ports(&mut line, " ports=", &answer.ports);
    line
}

/// The body: the state line, then one line for each condition that is not True, as many as fit into `limit` bytes.
#[must_use]
pub fn render_body(answer: &Answer<'_>, settings: &AnswerSettings, limit: usize) -> String {
    let mut body = render_state_line(answer, settings);
    body.push('\n');
    if settings.detail {
        for condition in answer.conditions.iter().filter(|condition| condition.status != Status::True) {
            let line = render_detail_line(condition);
            if body.len() + line.len() < limit {
                body.push_str(&line);
                body.push('\n');
            }
        }
    }
    body
}

/// `Type[ port/family] False|Unknown[ Reason][ by thief][ (addresses)][: message]`. Has no `=` at all, so it can't forge a token.
fn render_detail_line(condition: &Condition) -> String {
    let mut line = String::with_capacity(96);
    line.push_str(condition.kind.as_str());
    if let Some(front) = condition.front {
        _ = write!(line, " {front}");
    }
    _ = write!(line, " {:?}", condition.status);
    if let Some(reason) = condition.reason {
        _ = write!(line, " {reason}");
    }
    // Before the message, which is cut: who it is, is what a person looks for first.
    if let Some(thief) = condition.evidence.get("thief").filter(|_| condition.status == Status::False) {
        _ = write!(line, " by {}", sanitise(thief));
    }
    if let Concern::Some(addresses) = &condition.addresses {
        let shown: Vec<String> = addresses.iter().take(4).map(IpAddr::to_string).collect();
        let more = if addresses.len() > shown.len() { ",..." } else { "" };
        _ = write!(line, " ({}{})", shown.join(","), more);
    }
    if !condition.message.is_empty() {
        line.push_str(": ");
        line.push_str(&sanitise(&condition.message));
    }
    line
}

fn push_ports(line: &mut String, key: &str, ports: &[u16]) {
    for (index, port) in ports.iter().take(MAX_LISTED_PORTS).enumerate() {
        line.push_str(if index == 0 { key } else { "," });
        _ = write!(line, "{port}");
    }
}

/// The node name as one word: a blank in it would start another field of the line.
fn one_word(name: &str) -> String {
    sanitise(name).replace(' ', "?")
}

/// The line that HAProxy's agent-check reads, with its line end. The blank before `#` matters: without it HAProxy reads
/// one unknown word and leaves the server up. `ready` clears an earlier `drain`, which `up` alone does not.
#[must_use]
pub fn render_agent_check(outcome: &Outcome) -> String {
    match (outcome.state, outcome.reason) {
        (State::Up, _) => "ready up\n".to_owned(),
        (State::Drain, _) => "up drain\n".to_owned(),
        (State::Down, Some(reason)) => format!("down #{reason}\n"),
        (State::Down, None) => "down\n".to_owned(),
    }
}

#[cfg(test)]
mod tests;
