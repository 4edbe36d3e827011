//! Addresses that appeared on a node that is up and have not yet held for `timing.min_up`: news, and no trouble unless it stays
//! so. Pure; times are the verdicts' own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::duration::render_age;
use super::fix::render_fix;
use super::log_line::{Level, Line};
use crate::reason::Reason;
use crate::time::Mono;
use crate::verdict::{State, Verdict};

/// An address that has not come up after this time is told once more, as a WARN.
pub const STAYS: Duration = Duration::from_secs(30);

/// Since when addresses are joining.
#[derive(Debug, Clone, Default)]
pub struct Joining {
    since: BTreeMap<IpAddr, Mono>,
    told: bool,
}

impl Joining {
    /// Looks at a verdict: the warning, once some address has been joining for [`STAYS`]. One warning until nothing is joining.
    pub fn note(&mut self, verdict: &Verdict) -> Option<Line> {
        let now = verdict.judged_at.mono;
        let joining: Vec<IpAddr> = match verdict.node.state {
            State::Up => verdict.addresses.iter().filter(|a| a.outcome.reason == Some(Reason::Starting)).map(|a| a.address).collect(),
            State::Drain | State::Down => Vec::new(),
        };
        self.since.retain(|address, _| joining.contains(address));
        for address in joining {
            self.since.entry(address).or_insert(now);
        }
        self.told &= !self.since.is_empty();
        let late: Vec<String> =
            self.since.iter().filter(|(_, at)| now.since(**at) >= STAYS).map(|(address, _)| address.to_string()).collect();
        let first = self.since.values().min().copied()?;
        if self.told || late.is_empty() {
            return None;
        }
        self.told = true;
        let line = Line::new(Level::Warn, "address does not come up")
            .field("addresses", late.join(","))
            .field("reason", Reason::Starting)
            .field("for", render_age(now.since(first)));
        Some(line.field("fix", render_fix(Reason::Starting)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_line::render_text;
    use super::super::testing::Scene;
    use super::*;

    fn at(mut verdict: Verdict, seconds: u64) -> Verdict {
        verdict.judged_at.mono = Mono(verdict.judged_at.mono.0 + seconds * 1_000_000_000);
        verdict
    }

    #[test]
    fn an_address_that_joins_in_time_is_no_warning() {
        let mut joining = Joining::default();
        for (verdict, seconds) in
            [(Scene::up(), 0), (Scene::joining(), 1), (Scene::joining(), 30), (Scene::up(), 31), (Scene::joining(), 61)]
        {
            assert_eq!(joining.note(&at(verdict, seconds)), None, "at {seconds} s");
        }
    }

    #[test]
    fn one_that_stays_is_one_warning() {
        let mut joining = Joining::default();
        assert_eq!(joining.note(&at(Scene::joining(), 0)), None);
        let line = render_text(&joining.note(&at(Scene::joining(), 30)).expect("it stays"));
        assert!(line.starts_with("WARN address does not come up addresses=10.0.0.12 reason=Starting for=30s fix="), "{line}");
        assert_eq!(joining.note(&at(Scene::joining(), 90)), None, "told once");
        joining.note(&at(Scene::up(), 91));
        joining.note(&at(Scene::joining(), 92));
        assert!(joining.note(&at(Scene::joining(), 122)).is_some(), "another time");
    }

    #[test]
    fn a_node_that_is_not_up_has_other_things_to_tell() {
        let mut joining = Joining::default();
        for seconds in [0, 60] {
            assert_eq!(joining.note(&at(Scene::starting(), seconds)), None);
        }
    }
}
