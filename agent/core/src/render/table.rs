//! The status document as a table for a terminal: fronts × conditions, then everything that is not True, and what to do.

use std::fmt::Write;

use super::duration::render_age;
use super::failing::group_failing;
use super::status::{ConditionStatus, StatusDocument};
use crate::condition::{ConditionType, Status};
use crate::policy::Requirement;
use crate::verdict::State;

/// Colour of a word.
#[derive(Clone, Copy)]
enum Tone {
    Good,
    Bad,
    Doubt,
    Plain,
}

/// Renders the whole table. `colour` only for a terminal: the text is the same with and without.
#[must_use]
pub fn render_table(document: &StatusDocument, colour: bool) -> String {
    let paint = Paint { colour };
    let mut out = headline(document, paint);
    out.push_str(&address_lines(document, paint));
    out.push('\n');
    out.push_str(&grid(document, paint));
    out.push_str(&details(document, paint));
    if !document.not_visible.is_empty() {
        out.push_str("\nNot visible:\n");
        for hidden in &document.not_visible {
            let grant = if hidden.grant.is_empty() { String::new() } else { format!(" (would show it: {})", hidden.grant) };
            let _ = writeln!(out, "  {}: {}{grant}", hidden.what, hidden.why);
        }
    }
    out
}

fn headline(document: &StatusDocument, paint: Paint) -> String {
    let mut line = format!("node {}  {}", document.node, paint.state(document.outcome.state));
    if let Some(reason) = document.outcome.reason {
        let _ = write!(line, "  {reason}");
    }
    if !document.outcome.ports.is_empty() {
        let _ = write!(line, " on port {}", join(&document.outcome.ports));
    }
    if document.partial > 0 {
        let _ = write!(line, "  ({} of {} addresses not up)", document.partial, document.addresses.len());
    }
    let age = render_age(std::time::Duration::from_millis(document.for_ms));
    let _ = write!(line, "  for {age}");
    line.push('\n');
    line
}

fn address_lines(document: &StatusDocument, paint: Paint) -> String {
    let width = document.addresses.iter().map(|judged| judged.address.to_string().len()).max().unwrap_or(0);
    let mut out = String::new();
    for judged in &document.addresses {
        let reason = judged.outcome.reason.map(|reason| format!("  {reason}")).unwrap_or_default();
        let _ = writeln!(out, "  {:<width$}  {}{reason}", judged.address.to_string(), paint.state(judged.outcome.state));
    }
    if document.addresses.is_empty() {
        out.push_str("  no judged address (yet)\n");
    }
    out
}

/// Conditions down, fronts across; a condition of the node has one cell.
fn grid(document: &StatusDocument, paint: Paint) -> String {
    let mut fronts: Vec<(u16, String)> = document.conditions.iter().filter_map(|c| c.port.map(|port| (port, c.place()))).collect();
    fronts.sort();
    fronts.dedup();
    let cell = |kind: ConditionType, place: &str| document.conditions.iter().find(|c| c.kind == kind && c.place() == place);
    let mut rows: Vec<Vec<(String, Tone)>> = vec![
        std::iter::once(("CONDITION".to_owned(), Tone::Plain))
            .chain(fronts.iter().map(|(_, place)| (place.clone(), Tone::Plain)))
            .collect(),
    ];
    for kind in ConditionType::ALL {
        let cells: Vec<Option<&ConditionStatus>> = match kind.is_per_front() {
            true => fronts.iter().map(|(_, place)| cell(kind, place)).collect(),
            false => vec![cell(kind, "node")],
        };
        if cells.iter().any(Option::is_some) {
            rows.push(std::iter::once((kind.to_string(), Tone::Plain)).chain(cells.into_iter().map(cell_text)).collect());
        }
    }
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|i| {
            rows.iter()
                .filter(|row| i + 1 < row.len() || i == 0)
                .filter_map(|row| row.get(i))
                .map(|(text, _)| text.len())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in rows {
        let last = row.len() - 1;
        for (index, (text, tone)) in row.iter().enumerate() {
            let pad = if index == last { 0 } else { widths.get(index).copied().unwrap_or(0).saturating_sub(text.len()) + 2 };
            let _ = write!(out, "{}{}", paint.word(text, *tone), " ".repeat(pad));
        }
        out.push('\n');
    }
    out
}

fn cell_text(condition: Option<&ConditionStatus>) -> (String, Tone) {
    let Some(condition) = condition else { return ("-".to_owned(), Tone::Plain) };
    let word = match condition.status {
        Status::True => "ok",
        Status::False => "NO",
        Status::Unknown => "?",
    };
    let reason = condition.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let tone = match (condition.status, condition.requirement) {
        (Status::True, _) => Tone::Good,
        (Status::False, Requirement::Required) => Tone::Bad,
        _ => Tone::Doubt,
    };
    let advisory = if condition.status != Status::True && condition.requirement == Requirement::Advisory { " (advisory)" } else { "" };
    (format!("{word}{reason}{advisory}"), tone)
}

fn details(document: &StatusDocument, paint: Paint) -> String {
    let mut out = String::new();
    for group in group_failing(document) {
        let condition = group.of;
        let (word, tone) = cell_text(Some(condition));
        let _ = write!(out, "\n{} {}: {}", group.places.join(", "), condition.kind, paint.word(&word, tone));
        if !group.addresses.is_empty() {
            let _ = write!(out, " [{}]", join(&group.addresses));
        }
        let _ = writeln!(out, "  since {}", group.since);
        if !condition.message.is_empty() {
            let _ = writeln!(out, "  {}", condition.message);
        }
        for (name, value) in &condition.evidence {
            let _ = writeln!(out, "  {name}: {value}");
        }
        if let Some(fix) = &condition.fix {
            let _ = writeln!(out, "  -> {fix}");
        }
    }
    out
}

#[derive(Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn word(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Doubt => "33",
            Tone::Plain => "",
        };
        if self.colour && !code.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn state(self, state: State) -> String {
        let tone = match state {
            State::Up => Tone::Good,
            State::Drain => Tone::Doubt,
            State::Down => Tone::Bad,
        };
        self.word(&state.as_str().to_ascii_uppercase(), tone)
    }
}

fn join<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::status::tests::document_of;
    use super::super::testing::Scene;
    use super::*;

    #[test]
    fn the_table_shows_fronts_by_conditions_and_what_to_do() {
        let text = render_table(&document_of(&Scene::hostport()), false);
        let expected = "\
node worker-1  DOWN  HostPort on port 80  for 2s
  10.0.0.11  DOWN  HostPort

CONDITION         80/ipv4      443/ipv4
Observed          ok
EnvoyLive         ok
Listening         ok           ok
OwnedByEnvoy      ok           ok
NotIntercepted    NO HostPort  ok
Accepting         ok           ok
Responding        ok           ok
TproxyPath        ok
ConfigCurrent     ok
CiliumAgentAlive  ok
InService         ok

80/ipv4 NotIntercepted: NO HostPort [10.0.0.11]  since 1970-01-02T00:00:00.000Z
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\n  thief: pod kube-system/") && text.contains("\n  -> docs/conditions/HostPort.md: "), "{text}");
        assert!(
            text.contains("Not visible:\n  owners: permission: bpf(2): <EPERM> (would show it: hostPID and CAP_SYS_PTRACE)\n"),
            "{text}"
        );
    }

    #[test]
    fn what_is_the_same_for_several_fronts_is_told_once() {
        let mut document = document_of(&Scene::up());
        for condition in document.conditions.iter_mut().filter(|c| c.kind == ConditionType::OwnedByEnvoy) {
            condition.status = Status::Unknown;
            condition.reason = Some(crate::reason::Reason::Unidentified);
            condition.message = "whose it is can't be told".to_owned();
        }
        let text = render_table(&document, false);
        assert_eq!(text.matches("can't be told").count(), 1, "{text}");
        assert!(text.contains("\n80/ipv4, 443/ipv4 OwnedByEnvoy: ? Unidentified  since "), "{text}");
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let document = document_of(&Scene::partial());
        let (plain, coloured) = (render_table(&document, false), render_table(&document, true));
        assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}[1;31mNO HostPort\u{1b}[0m"));
        let mut stripped = coloured;
        for code in ["\u{1b}[32m", "\u{1b}[1;31m", "\u{1b}[33m", "\u{1b}[0m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
        assert!(plain.starts_with("node worker-1  UP  (1 of 2 addresses not up)  for 2s\n"), "{plain}");
    }
}
