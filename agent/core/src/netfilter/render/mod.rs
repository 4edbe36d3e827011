//! Rules as text, close to what `nft list ruleset` and `iptables -S` show: so that a person finds the rule again, not so that it could be
//! loaded. Names and comments are foreign text and made harmless here. It must not decide anything.

mod elements;
mod header;
mod statement;
mod value;
mod words;
mod xt;

use std::net::{IpAddr, SocketAddr};

use super::follow::state::{Address, Cause, Site, Taken};
use super::ruleset::{Chain, Rule, Ruleset, Table};
use crate::render::text::sanitise;

/// Longest text of one rule; the middle of a longer one is left out.
const LONGEST: usize = 150;

/// A rule without its place: `ip daddr 10.0.0.11 tcp dport 80 dnat to 10.42.1.7:8080`.
#[must_use]
pub fn render_rule(table: &Table, rule: &Rule) -> String {
    let mut statements: Vec<String> = statement::statements(table, &rule.exprs).into_iter().map(|(_, text)| text).collect();
    if let Some(comment) = &rule.comment {
        statements.push(format!("comment \"{}\"", sanitise(comment)));
    }
    shortened(&statements.join(" "))
}

/// The middle of a long text is left out: the beginning says what it matches, the end what it does.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= LONGEST {
        return text.to_owned();
    }
    let head: String = text.chars().take(LONGEST - 64).collect();
    let tail: String = text.chars().skip(count - 60).collect();
    format!("{head} .. {tail}")
}

fn find(ruleset: &Ruleset, site: Site) -> Option<(&Table, &Chain)> {
    let table = ruleset.tables.get(site.table)?;
    Some((table, table.chains.get(site.chain)?))
}

/// A rule or a policy with its place: `… (table ip nat, chain PREROUTING, handle 7)`.
#[must_use]
pub(crate) fn render_site(ruleset: &Ruleset, site: Site) -> String {
    let Some((table, chain)) = find(ruleset, site) else { return "a rule that is not there".to_owned() };
    let rule = site.rule.and_then(|number| chain.rules.get(number));
    let (text, number) = match rule {
        Some(rule) if table.legacy => (render_rule(table, rule), format!(", rule {}", rule.handle)),
        Some(rule) => (render_rule(table, rule), format!(", handle {}", rule.handle)),
        None => (policy(chain), String::new()),
    };
    let kind = if table.legacy { " of iptables-legacy" } else { "" };
    let (family, name) = (table.family.as_str(), sanitise(&table.name));
    format!("{text} (table {family} {name}{kind}, chain {}{number})", sanitise(&chain.name))
}

fn policy(chain: &Chain) -> String {
    let drops = chain.base.as_ref().is_some_and(|base| base.policy == super::ruleset::Policy::Drop);
    if drops { "policy drop" } else { "policy accept" }.to_owned()
}

/// Why it can't be told.
#[must_use]
pub(crate) fn render_cause(ruleset: &Ruleset, cause: Cause) -> String {
    match cause {
        Cause::Expression(site, number) => {
            let rule = site.rule.and_then(|rule| find(ruleset, site)?.1.rules.get(rule));
            let statements = find(ruleset, site).zip(rule).map(|((table, _), rule)| statement::statements(table, &rule.exprs));
            let text = statements.and_then(|all| all.into_iter().find(|(last, _)| *last >= number)).map(|(_, text)| text);
            format!("\"{}\" can't be decided: {}", shortened(&text.unwrap_or_default()), render_site(ruleset, site))
        }
        Cause::Order(site) => format!("which of the chains with one priority comes first can't be told: {}", render_site(ruleset, site)),
        Cause::TooMany(site) => format!("too many ways through the rules, given up at: {}", render_site(ruleset, site)),
    }
}

/// Where connections go: `10.42.1.7:80 or 10.42.1.8:80`.
#[must_use]
pub(crate) fn render_targets(taken: &[Taken]) -> String {
    let mut targets: Vec<String> = Vec::new();
    for target in taken.iter().map(target) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets.join(" or ")
}

fn target(taken: &Taken) -> String {
    let ports = taken.to.ports.map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    let with_port = |address: IpAddr, ports: &str| match ports.parse() {
        Ok(port) => SocketAddr::new(address, port).to_string(),
        Err(_) => format!("{address} port {ports}"),
    };
    let place = match (taken.to.address, ports) {
        (Address::Range(first, last), Some(ports)) if first == last => with_port(first, &ports),
        (Address::Range(first, last), None) if first == last => first.to_string(),
        (Address::Range(first, last), ports) => {
            format!("{first}-{last}{}", ports.map_or_else(String::new, |ports| format!(" port {ports}")))
        }
        (Address::Local, Some(ports)) => format!("port {ports} of this node"),
        (Address::Local, None) => "another port of this node".to_owned(),
        (Address::Unknown, Some(ports)) => format!("port {ports} of an address that can't be told"),
        (Address::Unknown, None) => "an address that can't be told".to_owned(),
    };
    if taken.to.proxy { format!("{place} (tproxy)") } else { place }
}
