//! A bound on transition lines: a node that flaps fills neither the log nor a person's patience. Pure; times are arguments.

use std::collections::VecDeque;
use std::time::Duration;

use super::log_line::{Level, Line};
use crate::time::Mono;

/// Lines within this time count together.
pub const WINDOW: Duration = Duration::from_secs(60);
/// So many transitions within [`WINDOW`] are written one by one.
pub const LIMIT: usize = 6;

/// Counts transitions, lets the first few through and sums up the rest once per [`WINDOW`].
#[derive(Debug, Clone, Default)]
pub struct Flapping {
    written: VecDeque<Mono>,
    held_back: u32,
    held_since: Mono,
    last: Option<Line>,
}

impl Flapping {
    /// Takes a transition: the line if it may be written now, none if it is held back for the summary.
    pub fn offer(&mut self, at: Mono, line: Line) -> Option<Line> {
        while self.written.front().is_some_and(|first| at.since(*first) >= WINDOW) {
            self.written.pop_front();
        }
        if self.held_back == 0 && self.written.len() < LIMIT {
            self.written.push_back(at);
            return Some(line);
        }
        if self.held_back == 0 {
            self.held_since = at;
        }
        self.held_back = self.held_back.saturating_add(1);
        self.last = Some(line);
        None
    }

    /// The summary of what was held back, once [`WINDOW`] has passed since the first of it. To be asked on every tick.
    pub fn due(&mut self, at: Mono) -> Option<Line> {
        if self.held_back == 0 || at.since(self.held_since) < WINDOW {
            return None;
        }
        let mut line = Line::new(Level::Warn, "node FLAPPING")
            .field("transitions", self.held_back)
            .field("within", super::duration::render_age(at.since(self.held_since)));
        if let Some(last) = self.last.take() {
            line = line.field("last", &last.message);
            line.fields.extend(last.fields);
        }
        self.held_back = 0;
        self.written.clear();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn line(n: u64) -> Line {
        Line::new(Level::Warn, "node DOWN").field("n", n)
    }

    #[test]
    fn few_transitions_are_written_one_by_one() {
        let mut flapping = Flapping::default();
        for n in 0..100 {
            assert!(flapping.offer(Mono(n * 11 * SECOND), line(n)).is_some(), "transition {n}");
        }
        assert_eq!(flapping.due(Mono(u64::MAX)), None);
    }

    #[test]
    fn a_storm_gives_a_bounded_number_of_lines_and_counts_every_transition() {
        let mut flapping = Flapping::default();
        let (mut lines, mut counted) = (0, 0);
        for tick in 0..600_u64 {
            let at = Mono(tick * SECOND);
            if flapping.offer(at, line(tick)).is_some() {
                lines += 1;
                counted += 1;
            }
            if let Some(summary) = flapping.due(at) {
                lines += 1;
                counted += summary.get("transitions").and_then(|n| n.parse::<u64>().ok()).expect("count");
                assert_eq!(summary.get("n"), Some(tick.to_string().as_str()), "the summary ends with the newest");
            }
        }
        counted += u64::from(flapping.held_back);
        assert_eq!(counted, 600);
        assert!(lines <= 10 * (LIMIT + 1), "{lines} lines in ten minutes");
    }
}
