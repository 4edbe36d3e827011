//! Rule programs, as nft, iptables and the tools of a node write them, and what becomes of a new connection in each.
#![allow(missing_docs, unreachable_pub, reason = "a test crate has no users")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "a broken program must end its test")]

#[path = "../support/rules.rs"]
mod rules;

mod answers;
mod any_ruleset;
mod bits_and_keys;
mod chains;
mod plain_walk;
mod rendered;
mod sets;
mod tools;
mod translation;
mod xt;

use gwready_core::facts::steering::NetfilterPath;
use gwready_core::netfilter::follow::{Connection, follow};
use gwready_core::netfilter::ruleset::Ruleset;

/// The answer as one line, without the place of its rule.
fn told(ruleset: &Ruleset, connection: &Connection) -> String {
    let plain = |text: &str| text.rsplit_once(" (table ").map_or_else(|| text.to_owned(), |(text, _)| text.to_owned());
    match follow(ruleset, connection) {
        NetfilterPath::Passes => "passes".into(),
        NetfilterPath::PassesForSome { but } => format!("for some, {}", plain(&but)),
        NetfilterPath::Redirected { to, rule } => format!("to {to}: {}", plain(&rule)),
        NetfilterPath::Dropped { rule } => format!("dropped: {}", plain(&rule)),
        NetfilterPath::Unclear { because } => format!("unclear, {}", plain(&because)),
    }
}

/// The word of an answer.
fn word(ruleset: &Ruleset, connection: &Connection) -> &'static str {
    match follow(ruleset, connection) {
        NetfilterPath::Passes => "passes",
        NetfilterPath::PassesForSome { .. } => "some",
        NetfilterPath::Redirected { .. } => "redirected",
        NetfilterPath::Dropped { .. } => "dropped",
        NetfilterPath::Unclear { .. } => "unclear",
    }
}
