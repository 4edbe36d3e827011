//! The status page: the status document as HTML. No script, nothing external, every value escaped; readable on a phone.

use std::fmt::{self, Write};

use super::duration::render_age;
use super::failing::group_failing;
use super::log_line::render_text;
use super::status::{ConditionStatus, StatusDocument};
use super::wall::render_rfc3339;
use crate::condition::{ConditionType, Status};
use crate::policy::Requirement;

/// The `Content-Security-Policy` the page is meant to be served with.
pub const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const STYLE: &str = "\
:root{color-scheme:light dark;--good:#1a7f37;--bad:#c62828;--doubt:#9a6700;--line:#8884}\
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem}\
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:1.5rem 0 .5rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}\
td.text{white-space:normal;min-width:16rem}\
.state{display:inline-block;padding:.1rem .7rem;border-radius:.4rem;color:#fff}\
.bg-good{background:var(--good)}.bg-bad{background:var(--bad)}.bg-doubt{background:var(--doubt)}\
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.doubt{color:var(--doubt);font-weight:600}\
code,pre{font:13px/1.45 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}small{opacity:.75}h1,h2,p{overflow-wrap:anywhere}\
@media(max-width:40rem){body{font-size:15px;padding:.75rem}table{font-size:13px}th,td{padding:.3rem .25rem;white-space:normal}\
td.text{min-width:0}.name,.time{white-space:nowrap}.story td{display:block}.story .time{border:0;padding-bottom:0}}\
@media(prefers-color-scheme:dark){:root{--good:#3fb950;--bad:#ff6b6b;--doubt:#d29922}.state{color:#000}}";

/// Text for HTML content and quoted attributes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
    }
}

/// The whole page. It reloads itself every five seconds by a meta element.
#[must_use]
pub fn render_page(document: &StatusDocument) -> String {
    let mut out = String::with_capacity(16 * 1024);
    let node = Escaped(&document.node).to_string();
    let state = document.outcome.state.as_str();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"refresh\" content=\"5\"><title>{node} {state}</title><style>{STYLE}</style></head><body>"
    );
    push_headline(&mut out, document, &node);
    push_grid(&mut out, document);
    push_details(&mut out, document);
    push_addresses(&mut out, document);
    push_history(&mut out, document);
    push_sources(&mut out, document);
    let config = serde_json::to_string_pretty(&document.config).unwrap_or_default();
    let _ = write!(out, "<details><summary><b>Effective configuration</b></summary><pre>{}</pre></details>", Escaped(&config));
    let _ = writeln!(
        out,
        "<p><small>gwready {} at {} &middot; the same as JSON: <a href=\"/status\">/status</a></small></p></body></html>",
        Escaped(&document.agent),
        Escaped(&document.at)
    );
    out
}

fn push_headline(out: &mut String, document: &StatusDocument, node: &str) {
    let class = match document.outcome.state.as_str() {
        "up" => "bg-good",
        "drain" => "bg-doubt",
        _ => "bg-bad",
    };
    let _ = write!(out, "<h1><span class=\"state {class}\">{}</span> {node}</h1><p>", document.outcome.state);
    if let Some(reason) = document.outcome.reason {
        let _ = write!(out, "<b>{reason}</b> ");
    }
    if !document.outcome.ports.is_empty() {
        let _ = write!(out, "on port {} ", join(&document.outcome.ports));
    }
    let age = render_age(std::time::Duration::from_millis(document.for_ms));
    let _ = write!(out, "for {age}, since {}", Escaped(&document.since));
    if document.partial > 0 {
        let _ = write!(out, "; <b class=\"bad\">{} of {} addresses not up</b>", document.partial, document.addresses.len());
    }
    if let Some(drain) = &document.drain {
        let until = drain.until_unix_ms.map_or_else(|| "undrain".to_owned(), render_rfc3339);
        let _ = write!(out, "; drain asked for by {} until {until}: {}", Escaped(&drain.by), Escaped(&drain.reason));
    }
    out.push_str("</p>");
}

fn push_grid(out: &mut String, document: &StatusDocument) {
    let mut fronts: Vec<(u16, String)> = document.conditions.iter().filter_map(|c| c.port.map(|port| (port, c.place()))).collect();
    fronts.sort();
    fronts.dedup();
    out.push_str("<h2>Fronts and conditions</h2><div class=\"wide\"><table><tr><th>condition</th>");
    for (_, place) in &fronts {
        let _ = write!(out, "<th>{}</th>", Escaped(place).to_string().replace('/', "/<wbr>"));
    }
    out.push_str("</tr>");
    for kind in ConditionType::ALL {
        let of_kind: Vec<&ConditionStatus> = document.conditions.iter().filter(|c| c.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let _ = write!(out, "<tr><td class=\"name\">{kind}</td>");
        if kind.is_per_front() {
            for (_, place) in &fronts {
                push_cell(out, of_kind.iter().find(|c| c.place() == *place).copied(), 1);
            }
        } else {
            push_cell(out, of_kind.first().copied(), fronts.len().max(1));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
}

fn push_cell(out: &mut String, condition: Option<&ConditionStatus>, span: usize) {
    let Some(condition) = condition else {
        out.push_str("<td>&ndash;</td>");
        return;
    };
    let (class, word) = mark(condition);
    let reason = condition.reason.map(|reason| format!(" {}", breakable(reason.as_str()))).unwrap_or_default();
    let advisory = if condition.requirement == Requirement::Advisory { " <small>advisory</small>" } else { "" };
    let _ = write!(out, "<td colspan=\"{span}\"><span class=\"{class}\">{word}{reason}</span>{advisory}</td>");
}

/// A reason that a narrow cell may break before each of its words: `Host<wbr>Port`.
fn breakable(reason: &str) -> String {
    reason.chars().enumerate().fold(String::new(), |mut out, (at, c)| {
        if at > 0 && c.is_ascii_uppercase() {
            out.push_str("<wbr>");
        }
        out.push(c);
        out
    })
}

const fn mark(condition: &ConditionStatus) -> (&'static str, &'static str) {
    match (condition.status, condition.requirement) {
        (Status::True, _) => ("good", "&#10003;"),
        (Status::False, Requirement::Required) => ("bad", "&#10007;"),
        (Status::False, Requirement::Advisory) => ("doubt", "&#10007;"),
        (Status::Unknown, _) => ("doubt", "?"),
    }
}

fn push_details(out: &mut String, document: &StatusDocument) {
    for group in group_failing(document) {
        let condition = group.of;
        let (class, word) = mark(condition);
        let reason = condition.reason.map_or("", |reason| reason.as_str());
        let places = group.places.join(", ");
        let _ = write!(out, "<h2><span class=\"{class}\">{word} {reason}</span> {} {}</h2>", condition.kind, Escaped(&places));
        let _ = write!(out, "<p>{}<br><small>since {}", Escaped(&condition.message), Escaped(group.since));
        if !group.addresses.is_empty() {
            let _ = write!(out, ", on {}", join(&group.addresses));
        }
        out.push_str("</small></p>");
        if !condition.evidence.is_empty() {
            out.push_str("<div class=\"wide\"><table>");
            for (name, value) in &condition.evidence {
                let _ = write!(
                    out,
                    "<tr><td class=\"name\">{}</td><td class=\"text\"><code>{}</code></td></tr>",
                    Escaped(name),
                    Escaped(value)
                );
            }
            out.push_str("</table></div>");
        }
        if let Some(fix) = &condition.fix {
            let _ = write!(out, "<p>&rarr; {}</p>", Escaped(fix));
        }
    }
}

fn push_addresses(out: &mut String, document: &StatusDocument) {
    out.push_str("<h2>Addresses</h2><div class=\"wide\"><table><tr><th>address</th><th>state</th><th>reason</th></tr>");
    for judged in &document.addresses {
        let class = if judged.outcome.reason.is_none() { "good" } else { "bad" };
        let reason = judged.outcome.reason.map_or("", |reason| reason.as_str());
        let _ = write!(out, "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{reason}</td></tr>", judged.address, judged.outcome.state);
    }
    out.push_str("</table></div>");
}

fn push_history(out: &mut String, document: &StatusDocument) {
    out.push_str("<h2>History</h2>");
    if document.history.is_empty() {
        out.push_str("<p>No transition yet.</p>");
        return;
    }
    out.push_str("<div class=\"wide\"><table class=\"story\">");
    for change in document.history.iter().rev() {
        let text = render_text(&change.line);
        let _ = write!(
            out,
            "<tr><td class=\"time\">{}</td><td class=\"text\"><code>{}</code></td></tr>",
            render_rfc3339(change.at_unix_ms),
            Escaped(&text)
        );
    }
    out.push_str("</table></div>");
}

fn push_sources(out: &mut String, document: &StatusDocument) {
    out.push_str(
        "<h2>Sources</h2><div class=\"wide\"><table><tr><th>source</th><th>state</th><th>age</th><th>read in</th><th>why not</th></tr>",
    );
    for source in &document.sources {
        let class = match source.state.as_str() {
            "observed" => "good",
            "not_there" => "",
            _ => "doubt",
        };
        let age = source.age_ms.map(|ms| render_age(std::time::Duration::from_millis(ms))).unwrap_or_default();
        let took = source.took_us.map(|us| render_age(std::time::Duration::from_micros(us))).unwrap_or_default();
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{age}</td><td>{took}</td><td class=\"text\">{}</td></tr>",
            Escaped(&source.source),
            Escaped(&source.state),
            Escaped(source.detail.as_deref().unwrap_or_default())
        );
    }
    out.push_str("</table></div>");
    for hidden in &document.not_visible {
        let grant = if hidden.grant.is_empty() { String::new() } else { format!(" Would show it: {}.", Escaped(&hidden.grant)) };
        let _ = write!(out, "<p><span class=\"doubt\">Not visible: {}</span> {}.{grant}</p>", Escaped(&hidden.what), Escaped(&hidden.why));
    }
}

fn join<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::status::tests::document_of;
    use super::super::testing::Scene;
    use super::*;

    #[test]
    fn nothing_foreign_becomes_markup() {
        let mut document = document_of(&Scene::hostport());
        document.node = "<script>alert(1)</script>".to_owned();
        document.config = serde_json::json!({"x": "</pre><img src=x onerror='y'>"});
        let page = render_page(&document);
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<b>to</b>"), "{page}");
        assert!(page.contains("&lt;b&gt;to&lt;/b&gt; &quot;10.42.1.7:80&quot;") && page.contains("bpf(2): &lt;EPERM&gt;"), "{page}");
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = render_page(&document_of(&Scene::up()));
        for word in ["http://", "https://", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("width=device-width"));
    }

    #[test]
    fn verdict_conditions_history_and_sources_are_shown() {
        let page = render_page(&document_of(&Scene::hostport()));
        for part in [
            "bg-bad\">down",
            "<b>HostPort</b> on port 80",
            "<th>443/<wbr>ipv4</th>",
            "WARN node DOWN",
            "unavailable",
            "docs/conditions/HostPort.md",
            "hostPID and CAP_SYS_PTRACE",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn every_element_that_is_opened_is_closed() {
        let page = render_page(&document_of(&Scene::partial()));
        for element in ["table", "tr", "td", "th", "div", "p", "h1", "h2", "span", "code", "details", "body", "html", "small"] {
            let opened = page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
}
