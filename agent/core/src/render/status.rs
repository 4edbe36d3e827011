//! The status document: what `/status`, `gwready status --json` and `gwready check --json` give out. One versioned schema
//! (docs/status.md); the table and the page are made from it. All foreign text in it is harmless already.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::fix::render_fix;
use super::sources::{NotVisible, SourceRead, grant_for, source_reads};
use super::text::{clean_sentence, sanitise};
use super::transition::Transition;
use super::wall::render_rfc3339;
use crate::condition::{Concern, Condition, ConditionType, Status};
use crate::facts::{DrainRequest, Snapshot};
use crate::net::Family;
use crate::policy::{Policy, Requirement};
use crate::reason::Reason;
use crate::time::Now;
use crate::verdict::{AddressOutcome, EndpointOutcome, Outcome, Verdict};

/// Version of the schema. Fields are only added under the same number.
pub const VERSION: u32 = 1;

/// What goes into a document.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// Version of the agent.
    pub agent: &'a str,
    /// The verdict as published.
    pub verdict: &'a Verdict,
    /// The snapshot it came from.
    pub snapshot: &'a Snapshot,
    /// Policy of the judgement.
    pub policy: &'a Policy,
    /// Effective configuration.
    pub config: &'a serde_json::Value,
    /// Newest last.
    pub history: &'a [Transition],
    /// What the agent found at start that it can't see (capabilities, BTF, eBPF).
    pub not_visible: &'a [NotVisible],
    /// When the document is made.
    pub now: Now,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusDocument {
    /// [`VERSION`].
    pub version: u32,
    /// Version of the agent.
    pub agent: String,
    /// Name of the node.
    pub node: String,
    /// When the document was made, RFC 3339.
    pub at: String,
    /// The node's outcome: `state`, `reason`, `ports`.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Since when the node is in this state, RFC 3339.
    pub since: String,
    /// The same as an age.
    pub for_ms: u64,
    /// How many judged addresses are not up while the node is.
    pub partial: usize,
    /// Age of the last good read of the socket table.
    pub observed_age_ms: u64,
    /// Expected ports.
    pub expected_ports: Vec<u16>,
    /// Families in use.
    pub families: Vec<Family>,
    /// Outcome of each judged address.
    pub addresses: Vec<AddressOutcome>,
    /// Outcome of each judged address and port.
    pub endpoints: Vec<EndpointOutcome>,
    /// Every condition.
    pub conditions: Vec<ConditionStatus>,
    /// The drain in force.
    pub drain: Option<DrainRequest>,
    /// State and age of every source.
    pub sources: Vec<SourceStatus>,
    /// What can't be seen, and what would show it.
    pub not_visible: Vec<NotVisible>,
    /// The last transitions, newest last.
    pub history: Vec<Transition>,
    /// Effective configuration.
    pub config: serde_json::Value,
}

/// A condition in the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionStatus {
    /// What is stated.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Port of the front; none for a condition of the node.
    pub port: Option<u16>,
    /// Family of the front; none for a condition of the node.
    pub family: Option<Family>,
    /// true, false, unknown.
    pub status: Status,
    /// required or advisory.
    pub requirement: Requirement,
    /// Why it is not plainly True.
    pub reason: Option<Reason>,
    /// One sentence.
    pub message: String,
    /// Facts behind it.
    pub evidence: BTreeMap<String, String>,
    /// The addresses concerned; empty = all of the family.
    pub addresses: Vec<IpAddr>,
    /// When status and reason last changed, RFC 3339.
    pub since: String,
    /// What to do, where there is something.
    pub fix: Option<String>,
}

impl ConditionStatus {
    /// `80/ipv4`, or `node`.
    #[must_use]
    pub fn place(&self) -> String {
        match (self.port, self.family) {
            (Some(port), Some(family)) => format!("{port}/{family}"),
            _ => "node".to_owned(),
        }
    }
}

/// A source in the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// One of [`super::sources::SOURCES`].
    pub source: String,
    /// `observed`, `unavailable`, `not_read`, or `not_there` where that is no failure.
    pub state: String,
    /// Age of the last read, good or not.
    pub age_ms: Option<u64>,
    /// How long it took.
    pub took_us: Option<u64>,
    /// The kind of failure.
    pub why: Option<String>,
    /// The failure in words.
    pub detail: Option<String>,
}

/// Makes the document.
#[must_use]
pub fn status_document(input: Input<'_>) -> StatusDocument {
    let Input { verdict, now, .. } = input;
    let reads = source_reads(input.snapshot);
    let mut not_visible: Vec<NotVisible> = reads.iter().filter_map(not_visible).chain(input.not_visible.iter().cloned()).collect();
    not_visible.extend(verdict.blind.iter().map(|blind| {
        NotVisible {
            what: blind.kind.to_string(),
            why: [blind.reason.map(|reason| reason.to_string()), (!blind.message.is_empty()).then(|| clean_sentence(&blind.message))]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(": "),
            grant: blind.reason.map_or("", super::fix::first_step).to_owned(),
        }
    }));
    let mut said = BTreeSet::new();
    not_visible.retain(|hidden| said.insert((hidden.what.clone(), hidden.why.clone())));
    StatusDocument {
        version: VERSION,
        agent: input.agent.to_owned(),
        node: sanitise(input.node),
        at: render_rfc3339(now.unix_ms),
        outcome: verdict.node.clone(),
        since: render_rfc3339(verdict.node_since.unix_ms),
        for_ms: now.unix_ms.saturating_sub(verdict.node_since.unix_ms),
        partial: verdict.partial,
        observed_age_ms: millis(now.mono.since(verdict.observed_at)),
        expected_ports: verdict.ports.clone(),
        families: verdict.families.clone(),
        addresses: verdict.addresses.clone(),
        endpoints: verdict.endpoints.clone(),
        conditions: verdict.conditions.iter().map(|condition| condition_status(condition, input.policy, now)).collect(),
        drain: input.snapshot.drain.as_ref().map(harmless_drain),
        sources: reads.iter().map(|read| source_status(read, now)).collect(),
        not_visible,
        history: input.history.to_vec(),
        config: input.config.clone(),
    }
}

fn harmless_drain(drain: &DrainRequest) -> DrainRequest {
    DrainRequest { by: sanitise(&drain.by), reason: sanitise(&drain.reason), ..drain.clone() }
}

fn condition_status(condition: &Condition, policy: &Policy, now: Now) -> ConditionStatus {
    ConditionStatus {
        kind: condition.kind,
        port: condition.front.map(|front| front.port),
        family: condition.front.map(|front| front.family),
        status: condition.status,
        requirement: policy.requirement(condition.kind),
        reason: condition.reason,
        message: clean_sentence(&condition.message),
        evidence: condition.evidence.iter().map(|(name, value)| (sanitise(name), sanitise(value))).collect(),
        addresses: match &condition.addresses {
            Concern::All => Vec::new(),
            Concern::Some(list) => list.clone(),
        },
        since: render_rfc3339(now.unix_ms_of(condition.since)),
        fix: condition.reason.filter(|_| condition.status != Status::True).map(render_fix),
    }
}

fn source_status(read: &SourceRead<'_>, now: Now) -> SourceStatus {
    let state = match (read.window, read.failure, read.not_there) {
        (None, ..) => "not_read",
        (Some(_), _, Some(_)) => "not_there",
        (Some(_), None, None) => "observed",
        (Some(_), Some(_), None) => "unavailable",
    };
    SourceStatus {
        source: read.name.to_owned(),
        state: state.to_owned(),
        age_ms: read.window.map(|window| millis(now.mono.since(window.end))),
        took_us: read.window.map(|window| u64::try_from(window.end.since(window.begin).as_micros()).unwrap_or(u64::MAX)),
        why: read.failure.map(|failure| failure.why.as_str().to_owned()),
        detail: read.not_there.map(str::to_owned).or_else(|| read.failure.map(|failure| clean_sentence(&failure.detail))),
    }
}

fn not_visible(read: &SourceRead<'_>) -> Option<NotVisible> {
    let failure = read.failure?;
    Some(NotVisible {
        what: read.name.to_owned(),
        why: format!("{}: {}", failure.why.as_str(), clean_sentence(&failure.detail)),
        grant: grant_for(read.name, failure.why).to_owned(),
    })
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::testing::{Scene, THIEF};
    use super::*;
    use crate::facts::{Reading, Unavailable, Why};
    use crate::time::{Mono, Window};

    /// The document of a verdict with one failed source, judged two seconds ago.
    pub(crate) fn document_of(verdict: &Verdict) -> StatusDocument {
        let window = Window { begin: Mono(0), end: Mono(7_000) };
        let failed = Unavailable { why: Why::Permission, detail: "bpf(2): <EPERM>".to_owned(), window };
        let mut snapshot = Snapshot { owners: Reading::Unavailable(failed), ..Snapshot::default() };
        snapshot.drain = Some(DrainRequest { by: "uid=0".to_owned(), reason: "x".to_owned(), asked_unix_ms: 1, until_unix_ms: None });
        let history = super::super::transition::transition(Some(&Scene::up()), verdict, Default::default()).into_iter().collect::<Vec<_>>();
        let now = Now { mono: verdict.judged_at.mono.plus(std::time::Duration::from_secs(2)), unix_ms: verdict.judged_at.unix_ms + 2000 };
        status_document(Input {
            node: "worker-1",
            agent: "0.1.0",
            verdict,
            snapshot: &snapshot,
            policy: &Policy::default(),
            config: &serde_json::json!({"mode": "host-network"}),
            history: &history,
            not_visible: &[],
            now,
        })
    }

    #[test]
    fn the_documented_fields_are_there_and_read_back() {
        let document = document_of(&Scene::hostport());
        let json = serde_json::to_value(&document).expect("json");
        for (pointer, value) in [
            ("/version", serde_json::json!(1)),
            ("/state", serde_json::json!("down")),
            ("/reason", serde_json::json!("HostPort")),
            ("/ports", serde_json::json!([80])),
            ("/expected_ports", serde_json::json!([80, 443])),
            ("/for_ms", serde_json::json!(2000)),
            ("/observed_age_ms", serde_json::json!(2000)),
            ("/addresses/0/address", serde_json::json!("10.0.0.11")),
            ("/addresses/0/state", serde_json::json!("down")),
            ("/drain/by", serde_json::json!("uid:0")),
            ("/sources/2/state", serde_json::json!("unavailable")),
            ("/sources/2/why", serde_json::json!("permission")),
            ("/sources/2/took_us", serde_json::json!(7)),
            ("/sources/0/state", serde_json::json!("not_read")),
            ("/not_visible/0/what", serde_json::json!("owners")),
            ("/not_visible/0/grant", serde_json::json!("hostPID and CAP_SYS_PTRACE")),
            ("/history/0/reason", serde_json::json!("HostPort")),
            ("/config/mode", serde_json::json!("host-network")),
        ] {
            assert_eq!(json.pointer(pointer), Some(&value), "{pointer}");
        }
        let stolen = document.conditions.iter().find(|c| c.reason == Some(Reason::HostPort)).expect("condition");
        assert_eq!(
            (stolen.place().as_str(), stolen.requirement, stolen.evidence["thief"].as_str()),
            ("80/ipv4", Requirement::Required, THIEF)
        );
        assert_eq!(serde_json::from_value::<StatusDocument>(json).expect("readable"), document);
    }

    #[test]
    fn the_page_in_docs_names_every_field() {
        let page = include_str!("../../../../docs/status.md");
        let json = serde_json::to_value(document_of(&Scene::hostport())).expect("json");
        let mut names: Vec<String> = json.as_object().expect("object").keys().cloned().collect();
        for list in ["conditions", "sources", "not_visible", "history", "addresses", "endpoints"] {
            names.extend(json[list][0].as_object().expect("entries").keys().map(|key| key.to_string()));
        }
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "docs/status.md does not name `{name}`");
        }
    }
}
