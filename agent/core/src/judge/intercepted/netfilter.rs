//! Netfilter's answer for one endpoint as a finding. The rules themselves are followed by [`crate::netfilter::follow`].

use super::KIND;
use crate::condition::Finding;
use crate::facts::steering::NetfilterPath;
use crate::facts::{Reading, Snapshot};
use crate::net::Endpoint;
use crate::reason::Reason;

/// None where netfilter is not read at all: then it is no evidence either way.
pub(super) fn judge_netfilter(snapshot: &Snapshot, endpoint: Endpoint) -> Option<Finding> {
    let facts = match &snapshot.netfilter {
        Reading::NotRead => return None,
        Reading::Unavailable(unavailable) => {
            let message = format!("the netfilter rules could not be read: {}", unavailable.detail);
            return Some(Finding::unknown(KIND, Reason::NetfilterUnreadable, message));
        }
        Reading::Observed { value, .. } => value,
    };
    let path = facts.paths.iter().find(|(judged, _)| *judged == endpoint).map(|(_, path)| path);
    Some(match path {
        None => Finding::unknown(KIND, Reason::NetfilterUnreadable, format!("the netfilter rules were not read for {endpoint} yet")),
        Some(NetfilterPath::Passes) => Finding::holds(KIND),
        // A ban list or a rate limit is no fault of the node: it serves the others.
        Some(NetfilterPath::PassesForSome { but }) => Finding::holds(KIND).with("some_clients", but),
        Some(NetfilterPath::Redirected { to, rule }) => {
            let message = format!("a netfilter rule sends connections to {endpoint} to {to}: {rule}");
            with_rule(Finding::fails(KIND, Reason::NetfilterRedirect, message).with("thief", to), rule)
        }
        Some(NetfilterPath::Dropped { rule }) => {
            let message = format!("a netfilter rule drops connections to {endpoint}: {rule}");
            with_rule(Finding::fails(KIND, Reason::NetfilterDrop, message), rule)
        }
        Some(NetfilterPath::Unclear { because }) => {
            let message = format!("a netfilter rule may take connections to {endpoint}: {because}");
            with_rule(Finding::unknown(KIND, Reason::NetfilterUnclear, message), because)
        }
    })
}

/// The rule and its place apart: a value of evidence is cut at 64 bytes, and each has to be found by its own.
fn with_rule(finding: Finding, rule: &str) -> Finding {
    let place = rule.rsplit_once(" (table ").and_then(|(text, place)| Some((text, place.strip_suffix(')')?)));
    match place {
        Some((text, place)) => finding.with("rule", text).with("place", format!("table {place}")),
        None => finding.with("rule", rule),
    }
}
