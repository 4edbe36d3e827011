//! Netfilter's answer for one endpoint as a finding. The rules themselves are evaluated where they are read.

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
            let message = format!("a netfilter rule sends connections for {endpoint} to {to}: {rule}");
            with_rule(Finding::fails(KIND, Reason::NetfilterRedirect, message).with("thief", to), rule)
        }
        Some(NetfilterPath::Dropped { rule }) => {
            let message = format!("a netfilter rule drops connections to {endpoint}: {rule}");
            with_rule(Finding::fails(KIND, Reason::NetfilterDrop, message), rule)
        }
        Some(NetfilterPath::Unclear { because }) => {
            Finding::unknown(KIND, Reason::NetfilterUnclear, format!("a netfilter rule may take connections to {endpoint}: {because}"))
                .with("rule", because)
        }
    })
}

/// The rule and its place as evidences of their own: the text of a rule is cut where it is long, and its place must not be what is lost.
fn with_rule(finding: Finding, rule: &str) -> Finding {
    match rule.strip_suffix(')').and_then(|whole| whole.rsplit_once(" (table ")) {
        Some((text, place)) => finding.with("place", format!("table {place}")).with("rule", text),
        None => finding.with("rule", rule),
    }
}
