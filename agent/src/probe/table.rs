//! The results of the probes, as the judge gets them. Pure: counts failures in a row, says when something changed.

use std::collections::BTreeSet;

use gwready_core::facts::probes::{Acceptor, ProbeOutcome, ProbeResult, ProbeTable};
use gwready_core::net::{Endpoint, Front};
use gwready_core::time::Mono;

use super::attempt::Answer;
use super::settings::ExplicitProbe;

/// The table while it is kept.
#[derive(Debug, Default)]
pub(super) struct Results {
    table: ProbeTable,
    /// Fronts of which the built-in probe has passed at least once, and extra probes by name.
    passed: BTreeSet<(Front, String)>,
}

/// What of a result a judgement can depend on.
type Judged = (std::mem::Discriminant<ProbeOutcome>, Option<u16>, std::mem::Discriminant<Acceptor>, Option<u64>, bool);

impl Results {
    pub(super) const fn table(&self) -> &ProbeTable {
        &self.table
    }

    /// The first round is over. True if that is news.
    pub(super) const fn finish_first_round(&mut self) -> bool {
        let news = !self.table.first_round_done;
        self.table.first_round_done = true;
        news
    }

    /// Failures in a row of an endpoint so far.
    pub(super) fn failures(&self, endpoint: Endpoint, explicit: &str) -> u32 {
        self.find(endpoint, explicit).map_or(0, |result| result.failures)
    }

    fn find(&self, endpoint: Endpoint, explicit: &str) -> Option<&ProbeResult> {
        self.table.results.iter().find(|result| result.endpoint == endpoint && result.explicit == explicit)
    }

    /// Takes in one answer. True if a judgement could differ from before. A probe that could not be run keeps the count: it says
    /// nothing.
    pub(super) fn record(&mut self, endpoint: Endpoint, explicit: Option<&ExplicitProbe>, answer: Answer, fall: u32, at: Mono) -> bool {
        let name = explicit.map(ExplicitProbe::name).unwrap_or_default();
        let key = (endpoint.front(), name.clone());
        let before = self.failures(endpoint, &name);
        let mut result = ProbeResult {
            endpoint,
            outcome: answer.outcome,
            acceptor: answer.acceptor,
            at,
            failures: 0,
            never_passed: !self.passed.contains(&key),
            server_name: answer.server_name,
            expect_status: explicit.map(|probe| probe.expect_status.clone()).unwrap_or_default(),
            explicit: name,
        };
        let not_run = matches!(result.outcome, ProbeOutcome::NotRun(_));
        result.failures = match (result.has_failed(), not_run) {
            (true, _) => before.saturating_add(1),
            (false, true) => before,
            (false, false) => 0,
        };
        if !not_run && result.failures == 0 {
            self.passed.insert(key);
            result.never_passed = false;
        }
        let news = self.find(endpoint, &result.explicit).map(|old| judged(old, fall)) != Some(judged(&result, fall));
        match self.table.results.iter_mut().find(|old| old.endpoint == endpoint && old.explicit == result.explicit) {
            Some(old) => *old = result,
            None => self.table.results.push(result),
        }
        news
    }

    /// Forgets endpoints that are no longer planned. True if there were any.
    pub(super) fn retain(&mut self, planned: &[Endpoint]) -> bool {
        let before = self.table.results.len();
        self.table.results.retain(|result| planned.contains(&result.endpoint));
        before != self.table.results.len()
    }
}

fn judged(result: &ProbeResult, fall: u32) -> Judged {
    let status = match result.outcome {
        ProbeOutcome::Answered { status, .. } => Some(status),
        _ => None,
    };
    let listener = match result.acceptor {
        Acceptor::Local { listener, .. } => listener,
        _ => None,
    };
    let counts = result.failures > 0 && (result.failures >= fall || result.never_passed);
    (std::mem::discriminant(&result.outcome), status, std::mem::discriminant(&result.acceptor), listener, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(n: u8) -> Endpoint {
        Endpoint { address: std::net::IpAddr::from([10, 0, 0, n]), port: 80 }
    }

    fn ends(outcome: ProbeOutcome) -> Answer {
        Answer { outcome, acceptor: Acceptor::Unknown, server_name: None }
    }

    fn ok() -> Answer {
        ends(ProbeOutcome::Answered { status: 400, server: None })
    }

    fn record(results: &mut Results, n: u8, answer: Answer) -> bool {
        results.record(endpoint(n), None, answer, 3, Mono(1))
    }

    #[test]
    fn failures_in_a_row_are_counted_per_endpoint_and_a_success_ends_them() {
        let mut results = Results::default();
        record(&mut results, 1, ok());
        for expected in 1..=4 {
            record(&mut results, 1, ends(ProbeOutcome::Timeout));
            record(&mut results, 2, ok());
            assert_eq!((results.failures(endpoint(1), ""), results.failures(endpoint(2), "")), (expected, 0));
        }
        record(&mut results, 1, ends(ProbeOutcome::NotRun("x".into())));
        assert_eq!(results.failures(endpoint(1), ""), 4, "a probe that was not run says nothing");
        record(&mut results, 1, ok());
        assert_eq!(results.failures(endpoint(1), ""), 0);
    }

    #[test]
    fn only_what_can_change_a_judgement_is_news() {
        let mut results = Results::default();
        assert!(record(&mut results, 1, ok()), "the first answer");
        assert!(!record(&mut results, 1, ok()));
        assert!(record(&mut results, 1, ends(ProbeOutcome::Timeout)), "it answers no longer");
        assert!(!record(&mut results, 1, ends(ProbeOutcome::Timeout)));
        assert!(record(&mut results, 1, ends(ProbeOutcome::Timeout)), "the third failure counts");
        assert!(!record(&mut results, 1, ends(ProbeOutcome::Timeout)));
        assert!(record(&mut results, 1, ok()));
    }

    #[test]
    fn a_front_that_has_never_passed_is_marked_until_any_of_its_addresses_passes() {
        let mut results = Results::default();
        record(&mut results, 1, ends(ProbeOutcome::Refused));
        assert!(results.table().results[0].never_passed);
        record(&mut results, 2, ok());
        record(&mut results, 1, ends(ProbeOutcome::Refused));
        assert!(!results.table().results[0].never_passed);
    }

    #[test]
    fn an_extra_probe_is_counted_apart() {
        let extra = ExplicitProbe { port: 80, host: "h".into(), path: "/p".into(), sni: None, expect_status: vec![200] };
        let mut results = Results::default();
        record(&mut results, 1, ok());
        results.record(endpoint(1), Some(&extra), ok(), 3, Mono(1));
        assert_eq!((results.failures(endpoint(1), "h/p"), results.failures(endpoint(1), "")), (1, 0));
        assert_eq!(results.table().results.len(), 2);
    }

    #[test]
    fn addresses_that_are_gone_are_forgotten() {
        let mut results = Results::default();
        record(&mut results, 1, ok());
        record(&mut results, 2, ok());
        assert!(results.retain(&[endpoint(2)]));
        assert!(!results.retain(&[endpoint(2)]));
        assert_eq!(results.table().results.len(), 1);
    }
}
