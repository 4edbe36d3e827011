//! What changed between two verdicts, as one log line that answers: since when, what, who took it, what to do. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration::render_age;
use super::fix::render_fix;
use super::log_line::{Level, Line};
use super::wall::render_rfc3339;
use crate::condition::{Concern, Condition, Status};
use crate::facts::DrainRequest;
use crate::net::Family;
use crate::reason::Reason;
use crate::verdict::{AddressOutcome, Outcome, State, Verdict};

/// So many addresses are named in a line; the rest is counted.
const ADDRESSES_SHOWN: usize = 8;
/// So many facts of a condition's evidence stand in a line.
const EVIDENCE_SHOWN: usize = 6;

/// What is known beside the two verdicts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// From the kernel event (or the begin of the read) to the verdict.
    pub detected_in: Option<Duration>,
    /// The drain in force.
    pub drain: Option<&'a DrainRequest>,
}

/// One change of the verdict, as logged, counted and kept in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// When it was judged, milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// State of the node before; none for the first verdict.
    pub from: Option<State>,
    /// State of the node after.
    pub to: State,
    /// Reason of the new state; none exactly when up.
    pub reason: Option<Reason>,
    /// The line as logged.
    pub line: Line,
}

/// The change from one verdict to the next, if there is one worth a line: another state, another reason, or another set of
/// addresses that are not up while the node is.
#[must_use]
pub fn transition(prev: Option<&Verdict>, next: &Verdict, context: Context<'_>) -> Option<Transition> {
    let same_node = prev.is_some_and(|prev| prev.node.state == next.node.state);
    let line = match (prev, next.node.state) {
        (Some(prev), State::Up) if same_node => partial_line(prev, next)?,
        (Some(prev), _) if same_node && prev.node.reason == next.node.reason => return None,
        (None, State::Down) if next.node.reason == Some(Reason::Starting) => return None,
        (_, State::Up) => up_line(prev, next),
        (_, State::Drain) => drain_line(prev, next, context),
        (_, State::Down) => down_line(prev, next),
    };
    let line = line.field_if("detected_in", context.detected_in.map(render_age));
    let fix = (next.node.state != State::Up)
        .then_some(next.node.reason)
        .flatten()
        .or_else(|| first_not_up(next).and_then(|outcome| outcome.reason).filter(|reason| *reason != Reason::Starting));
    let line = line.field_if("fix", fix.map(render_fix));
    Some(Transition {
        at_unix_ms: next.judged_at.unix_ms,
        from: prev.map(|prev| prev.node.state),
        to: next.node.state,
        reason: next.node.reason,
        line,
    })
}

fn down_line(prev: Option<&Verdict>, next: &Verdict) -> Line {
    let level = if next.node.reason == Some(Reason::Starting) { Level::Info } else { Level::Warn };
    let line = with_outcome(Line::new(level, "node DOWN"), &next.node, next);
    with_past(line, prev, next)
}

fn drain_line(prev: Option<&Verdict>, next: &Verdict, context: Context<'_>) -> Line {
    let line = Line::new(Level::Info, "node DRAIN");
    let line = match context.drain.filter(|_| next.node.reason == Some(Reason::DrainRequested)) {
        Some(drain) => {
            // The request itself tells more than the condition's evidence of it.
            let until = drain.until_unix_ms.map_or_else(|| "undrain".to_owned(), render_rfc3339);
            let (line, _) = with_place(line, &next.node, next);
            line.foreign("asked_by", &drain.by).foreign("why", &drain.reason).field("until", until)
        }
        None => with_outcome(line, &next.node, next),
    };
    with_past(line, prev, next)
}

fn up_line(prev: Option<&Verdict>, next: &Verdict) -> Line {
    let level = if next.partial > 0 { Level::Warn } else { Level::Info };
    let mut line = Line::new(level, "node UP").field("ports", join(&next.ports));
    line = with_partial(line, next);
    with_past(line, prev, next)
}

/// The node stays up; which addresses are not has changed.
fn partial_line(prev: &Verdict, next: &Verdict) -> Option<Line> {
    let (before, after) = (not_up(prev), not_up(next));
    if before == after {
        return None;
    }
    let is_up = |address: &IpAddr| next.addresses.iter().any(|a| a.address == *address && a.outcome.state == State::Up);
    let is_new = |address: &IpAddr| !prev.addresses.iter().any(|a| a.address == *address);
    let (joining, worse): (Vec<&NotUp>, Vec<&NotUp>) =
        after.difference(&before).partition(|(address, _, reason)| *reason == Some(Reason::Starting) && is_new(address));
    let (joined, back): (Vec<&NotUp>, Vec<&NotUp>) =
        before.iter().filter(|(address, ..)| is_up(address)).partition(|(_, _, reason)| *reason == Some(Reason::Starting));
    // A new address that has to hold for `min_up` first is no trouble, nor is what has got better.
    let level = if worse.is_empty() { Level::Info } else { Level::Warn };
    let line = Line::new(level, "node UP");
    let line = [("joining", joining), ("joined", joined), ("back", back)].into_iter().fold(line, |line, (name, list)| {
        let list: Vec<IpAddr> = list.into_iter().map(|(address, ..)| *address).collect();
        line.field_if(name, (!list.is_empty()).then(|| addresses(&list)))
    });
    Some(if after.is_empty() { line.field("partial", 0) } else { with_partial(line, next) })
}

/// An address that is not up.
type NotUp = (IpAddr, State, Option<Reason>);

fn not_up(verdict: &Verdict) -> BTreeSet<NotUp> {
    verdict.addresses.iter().filter(|a| a.outcome.state != State::Up).map(|a| (a.address, a.outcome.state, a.outcome.reason)).collect()
}

fn first_not_up(verdict: &Verdict) -> Option<&Outcome> {
    verdict
        .addresses
        .iter()
        .map(|address| &address.outcome)
        .filter(|outcome| outcome.state != State::Up)
        .min_by_key(|outcome| outcome.reason)
}

fn with_partial(line: Line, next: &Verdict) -> Line {
    match first_not_up(next) {
        Some(outcome) if next.partial > 0 => {
            with_outcome(line.field("partial", next.partial).field("of", next.addresses.len()), outcome, next)
        }
        _ => line,
    }
}

/// Reason, ports, families, addresses, and the facts of the condition that gave the reason.
fn with_outcome(line: Line, outcome: &Outcome, verdict: &Verdict) -> Line {
    match with_place(line, outcome, verdict) {
        (line, Some(condition)) => with_evidence(line, condition),
        (line, None) => line,
    }
}

/// Reason, ports, families and addresses, and the condition that gave the reason.
fn with_place<'a>(line: Line, outcome: &Outcome, verdict: &'a Verdict) -> (Line, Option<&'a Condition>) {
    let line = line.field_if("reason", outcome.reason);
    let Some(reason) = outcome.reason else { return (line, None) };
    let affected: Vec<&AddressOutcome> =
        verdict.addresses.iter().filter(|a| a.outcome.reason == Some(reason) && a.outcome.state != State::Up).collect();
    // Of all addresses that the line names: the same reason may hold for another port at each.
    let ports: BTreeSet<u16> = affected.iter().flat_map(|a| &a.outcome.ports).chain(&outcome.ports).copied().collect();
    let line = line.field_if("port", (!ports.is_empty()).then(|| join(ports)));
    let concerned: Vec<&Condition> = verdict.conditions.iter().filter(|c| c.reason == Some(reason) && c.status != Status::True).collect();
    // A reason that holds for the node holds for every family, whichever fronts give it too.
    let of_node = concerned.iter().any(|condition| condition.front.is_none());
    let families: BTreeSet<Family> = concerned.iter().filter_map(|condition| condition.front).map(|front| front.family).collect();
    let line = line.field_if("family", (!of_node && !families.is_empty()).then(|| join(families)));
    let affected: Vec<IpAddr> = affected.iter().map(|a| a.address).collect();
    let line = line.field_if("addresses", (!affected.is_empty()).then(|| addresses(&affected)));
    let telling = concerned.iter().copied().min_by_key(|condition| (condition.status, matches!(condition.addresses, Concern::Some(_))));
    (line, telling)
}

fn with_evidence(mut line: Line, condition: &Condition) -> Line {
    let thief = condition.evidence.get_key_value("thief");
    for (name, value) in thief.into_iter().chain(condition.evidence.iter().filter(|(name, _)| *name != "thief")).take(EVIDENCE_SHOWN) {
        line = line.foreign(name, value);
    }
    if condition.evidence.is_empty() && !condition.message.is_empty() {
        line.field("detail", condition.message.replace('=', ":"))
    } else {
        line
    }
}

/// How long the state before had lasted, and why it was not up.
fn with_past(line: Line, prev: Option<&Verdict>, next: &Verdict) -> Line {
    let Some(prev) = prev else { return line };
    let lasted = Duration::from_millis(next.judged_at.unix_ms.saturating_sub(prev.node_since.unix_ms));
    line.field(&format!("{}_for", prev.node.state), render_age(lasted)).field_if("was", prev.node.reason)
}

fn join<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

fn addresses(list: &[IpAddr]) -> String {
    let mut text = join(list.iter().take(ADDRESSES_SHOWN));
    if list.len() > ADDRESSES_SHOWN {
        text.push_str(&format!(",+{}", list.len() - ADDRESSES_SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::log_line::render_text;
    use super::super::testing::{Scene, THIEF};
    use super::*;
    use crate::condition::ConditionType;
    use crate::net::Front;

    fn change(prev: Option<&Verdict>, next: &Verdict) -> Option<String> {
        transition(prev, next, Context::default()).map(|change| render_text(&change.line))
    }

    #[test]
    fn down_says_reason_place_thief_and_what_to_do() {
        let (up, down) = (Scene::up(), Scene::hostport());
        let context = Context { detected_in: Some(Duration::from_micros(180)), drain: None };
        let change = transition(Some(&up), &down, context).expect("a change");
        assert_eq!((change.from, change.to, change.reason), (Some(State::Up), State::Down, Some(Reason::HostPort)));
        let expected = format!(
            "WARN node DOWN reason=HostPort port=80 family=ipv4 addresses=10.0.0.11 thief=\"{THIEF}\" up_for=3d4h detected_in=180us \
             fix=\"docs/conditions/HostPort.md: free the hostPort: move the named pod to another hostPort or off this node\""
        );
        assert_eq!(render_text(&change.line), expected);
    }

    #[test]
    fn nothing_changed_is_no_line() {
        for verdict in [Scene::up(), Scene::hostport(), Scene::partial(), Scene::draining()] {
            assert_eq!(change(Some(&verdict), &verdict), None);
        }
    }

    #[test]
    fn up_says_how_long_and_why_it_was_not() {
        let line = change(Some(&Scene::hostport()), &Scene::up()).expect("a change");
        assert!(line.starts_with("INFO node UP ports=80,443 down_for=") && line.ends_with(" was=HostPort"), "{line}");
    }

    #[test]
    fn the_start_is_no_line_and_the_first_verdict_is_one() {
        assert_eq!(change(None, &Scene::starting()), None);
        assert_eq!(change(None, &Scene::up()).as_deref(), Some("INFO node UP ports=80,443"));
        assert!(change(Some(&Scene::starting()), &Scene::hostport()).expect("another reason").contains("reason=HostPort"));
    }

    #[test]
    fn partial_changes_warn_and_the_return_informs() {
        let line = change(Some(&Scene::up()), &Scene::partial()).expect("a change");
        assert!(line.starts_with("WARN node UP partial=1 of=2 reason=HostPort port=80 family=ipv4 addresses=10.0.0.11 "), "{line}");
        assert!(line.contains("fix="), "{line}");
        assert_eq!(change(Some(&Scene::partial()), &up_with_both()).as_deref(), Some("INFO node UP back=10.0.0.11 partial=0"));
    }

    /// 10.0.0.11 and 10.0.0.12, both up.
    fn up_with_both() -> Verdict {
        let mut verdict = Scene::partial();
        verdict.addresses.iter_mut().for_each(|judged| judged.outcome = Outcome::UP);
        verdict.partial = 0;
        verdict
    }

    #[test]
    fn an_address_that_joins_is_news_and_no_warning() {
        let (up, joining) = (Scene::up(), Scene::joining());
        let line = change(Some(&up), &joining).expect("a change");
        assert_eq!(line, "INFO node UP joining=10.0.0.12 partial=1 of=2 reason=Starting addresses=10.0.0.12");
        assert_eq!(change(Some(&joining), &up_with_both()).as_deref(), Some("INFO node UP joined=10.0.0.12 partial=0"));
    }

    #[test]
    fn a_new_address_that_is_stolen_and_one_that_fails_again_are_warnings() {
        let stolen = change(Some(&Scene::up()), &Scene::partial()).expect("a change");
        assert!(stolen.starts_with("WARN node UP partial=1 of=2 reason=HostPort"), "{stolen}");
        let mut was_there = up_with_both();
        was_there.addresses.reverse();
        let line = change(Some(&was_there), &Scene::joining()).expect("a change");
        assert!(line.starts_with("WARN node UP partial=1 of=2 reason=Starting"), "it is not new: {line}");
    }

    #[test]
    fn an_address_that_is_gone_is_not_back() {
        let mut gone = Scene::up();
        gone.addresses = vec![up_with_both().addresses.remove(1)];
        assert_eq!(change(Some(&Scene::partial()), &gone).as_deref(), Some("INFO node UP partial=0"));
    }

    #[test]
    fn what_gets_better_while_another_stays_down_informs_and_names_the_other() {
        let mut worse = Scene::partial();
        worse.addresses.push(Scene::joining().addresses.remove(1));
        worse.addresses[2].address = "10.0.0.13".parse().expect("address");
        worse.partial = 2;
        let mut better = worse.clone();
        better.addresses[2].outcome = Outcome::UP;
        better.partial = 1;
        let line = change(Some(&worse), &better).expect("a change");
        assert!(line.starts_with("INFO node UP joined=10.0.0.13 partial=1 of=3 reason=HostPort port=80 "), "{line}");
    }

    #[test]
    fn the_ports_are_those_of_all_addresses_that_the_line_names() {
        let mut partial = Scene::partial();
        let outcome = Outcome { state: State::Down, reason: Some(Reason::HostPort), ports: vec![443] };
        partial.addresses.push(AddressOutcome { address: "10.0.0.13".parse().expect("address"), outcome });
        partial.partial = 2;
        let line = change(Some(&Scene::up()), &partial).expect("a change");
        assert!(line.contains(" port=80,443 family=ipv4 addresses=10.0.0.11,10.0.0.13 "), "{line}");
    }

    #[test]
    fn a_reason_of_the_node_is_not_told_as_one_of_a_family() {
        let mut down = Scene::hostport();
        // No Envoy runs, and a thief has taken one family: only the fronts of the other one have no listener.
        down.conditions.retain(|condition| condition.reason.is_none());
        for (front, kind) in [(None, ConditionType::EnvoyLive), (Some(Front { port: 80, family: Family::Ipv6 }), ConditionType::Listening)]
        {
            let condition = Condition { kind, front, reason: Some(Reason::EnvoyNotRunning), ..Scene::hostport().conditions[0].clone() };
            down.conditions.push(Condition { status: Status::False, ..condition });
        }
        let outcome = Outcome { state: State::Down, reason: Some(Reason::EnvoyNotRunning), ports: Vec::new() };
        down.addresses[0].outcome = outcome.clone();
        down.node = outcome;
        let line = change(Some(&Scene::up()), &down).expect("a change");
        assert!(line.contains(" reason=EnvoyNotRunning addresses=10.0.0.11 "), "{line}");
    }

    #[test]
    fn a_drain_names_who_asked_and_until_when() {
        let drain = DrainRequest {
            by: "uid 0 (root)".to_owned(),
            reason: "kernel\nupdate state=up".to_owned(),
            asked_unix_ms: 0,
            until_unix_ms: Some(0),
        };
        let context = Context { drain: Some(&drain), detected_in: None };
        let line = render_text(&transition(Some(&Scene::up()), &Scene::draining(), context).expect("a change").line);
        assert!(line.starts_with("INFO node DRAIN reason=DrainRequested"), "{line}");
        assert!(line.contains("asked_by=\"uid 0 (root)\" why=\"kernel?update state:up\" until=1970-01-01T00:00:00.000Z"), "{line}");
    }

    #[test]
    fn many_addresses_are_counted() {
        let list: Vec<IpAddr> = (0..20_u8).map(|n| IpAddr::from([10, 0, 0, n])).collect();
        assert!(addresses(&list).ends_with("10.0.0.7,+12"));
    }
}
