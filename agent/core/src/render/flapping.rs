//! A bound on transition lines: a node that flaps fills neither the log nor a person's patience, and the log's last line still
//! tells the state that the node is in. Pure; times are arguments.

use std::collections::VecDeque;
use std::time::Duration;

use super::duration::render_age;
use super::log_line::{Level, Line};
use crate::time::Mono;
use crate::verdict::State;

/// Lines within this time count together.
pub const WINDOW: Duration = Duration::from_secs(60);
/// So many transitions within [`WINDOW`] are written one by one.
pub const LIMIT: usize = 6;
/// A summary is written when nothing has changed for this time, so that nobody waits for the end of [`WINDOW`].
pub const QUIET: Duration = Duration::from_secs(10);
/// Most lines within any [`WINDOW`]: those written one by one, and two for each storm, which lasts for [`QUIET`] at least.
pub const BOUND: usize = LIMIT + 2 * 7;

/// Counts transitions, lets the first few through and sums up the rest.
#[derive(Debug, Clone, Default)]
pub struct Flapping {
    written: VecDeque<Mono>,
    held: Option<Held>,
}

/// Transitions that were not written.
#[derive(Debug, Clone)]
struct Held {
    since: Mono,
    newest: Mono,
    count: u32,
    state: State,
    line: Line,
}

impl Flapping {
    /// Takes a transition to `state`: the line if it may be written now, none if it is held back for a summary.
    ///
    /// The first one that is held back is the summary's first line already: it says where the node is, how many changes there were with
    /// those that had lines of their own, and that more may follow unseen.
    pub fn offer(&mut self, at: Mono, state: State, line: Line) -> Option<Line> {
        if let Some(held) = &mut self.held {
            *held = Held { since: held.since, newest: at, count: held.count.saturating_add(1), state, line };
            return None;
        }
        while self.written.front().is_some_and(|first| at.since(*first) >= WINDOW) {
            self.written.pop_front();
        }
        if self.written.len() < LIMIT {
            self.written.push_back(at);
            return Some(line);
        }
        let since = self.written.front().copied().unwrap_or(at);
        let count = u32::try_from(self.written.len()).unwrap_or(u32::MAX).saturating_add(1);
        let told = summary(&Held { since, newest: at, count, state, line: line.clone() }, at);
        self.held = Some(Held { since: at, newest: at, count: 0, state, line });
        Some(told)
    }

    /// The summary of what was held back, once nothing has changed for [`QUIET`] or [`WINDOW`] has passed since the first of it. To
    /// be asked on every tick.
    pub fn due(&mut self, at: Mono) -> Option<Line> {
        let held = self.held.as_ref()?;
        if at.since(held.newest) < QUIET && at.since(held.since) < WINDOW {
            return None;
        }
        self.flush(at)
    }

    /// The summary of what was held back, if there is anything: before the program ends.
    pub fn flush(&mut self, at: Mono) -> Option<Line> {
        let held = self.held.take()?;
        (held.count > 0).then(|| {
            self.written.push_back(at);
            summary(&held, at)
        })
    }
}

/// Where the node is now, with everything that the transition's own line says, and how much was left out.
fn summary(held: &Held, at: Mono) -> Line {
    let line = Line::new(Level::Warn, "node FLAPPING")
        .field("now", held.state.as_str().to_ascii_uppercase())
        .field("transitions", held.count)
        .field("within", render_age(at.since(held.since)));
    held.line.fields.iter().fold(line, |line, (name, value)| line.field(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn line(n: u64) -> Line {
        Line::new(Level::Warn, "node DOWN").field("n", n)
    }

    fn offer(flapping: &mut Flapping, second: u64) -> Option<Line> {
        flapping.offer(Mono(second * SECOND), State::Down, line(second))
    }

    /// Seven changes within seven seconds: the last is told by a summary at once.
    fn stormy() -> Flapping {
        let mut flapping = Flapping::default();
        for second in 0..6 {
            assert_eq!(offer(&mut flapping, second), Some(line(second)));
        }
        let told = offer(&mut flapping, 6).expect("where the node is, before anything is left out");
        assert_eq!((told.message.as_str(), told.get("now"), told.get("n")), ("node FLAPPING", Some("DOWN"), Some("6")));
        assert_eq!((told.get("transitions"), told.get("within")), (Some("7"), Some("6s")));
        flapping
    }

    #[test]
    fn few_transitions_are_written_one_by_one() {
        let mut flapping = Flapping::default();
        for n in 0..100 {
            assert_eq!(offer(&mut flapping, n * 11), Some(line(n * 11)), "transition {n}");
        }
        assert_eq!(flapping.due(Mono(u64::MAX)), None);
    }

    #[test]
    fn the_last_line_tells_the_last_state_soon_after_the_storm() {
        let mut flapping = stormy();
        assert_eq!(offer(&mut flapping, 7), None);
        assert_eq!(flapping.offer(Mono(8 * SECOND), State::Up, Line::new(Level::Info, "node UP").field("was", "HostPort")), None);
        assert_eq!(flapping.due(Mono(17 * SECOND)), None, "not quiet for long enough");
        let told = flapping.due(Mono(18 * SECOND)).expect("quiet");
        let expected = [("now", "UP"), ("transitions", "2"), ("within", "12s"), ("was", "HostPort")];
        assert_eq!(told.fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(flapping.due(Mono(30 * SECOND)), None, "told once");
    }

    #[test]
    fn nothing_is_told_twice_and_nothing_is_lost_at_the_end() {
        let mut flapping = stormy();
        assert_eq!(flapping.clone().due(Mono(60 * SECOND)), None, "nothing was left out");
        assert_eq!(flapping.clone().flush(Mono(7 * SECOND)), None);
        assert_eq!(offer(&mut flapping, 7), None);
        assert_eq!(flapping.flush(Mono(8 * SECOND)).and_then(|told| told.get("n").map(str::to_owned)).as_deref(), Some("7"));
    }

    #[test]
    fn a_quiet_spell_is_no_way_around_the_bound() {
        let mut flapping = Flapping::default();
        let mut lines = 0;
        // Bursts with a pause that is just long enough, for ten minutes.
        for tick in 0..600_u64 {
            if tick % 17 < 7 {
                lines += usize::from(offer(&mut flapping, tick).is_some());
            }
            lines += usize::from(flapping.due(Mono(tick * SECOND)).is_some());
        }
        assert!(lines <= 10 * BOUND, "{lines} lines in ten minutes");
    }

    #[test]
    fn a_storm_gives_a_bounded_number_of_lines_and_counts_every_transition() {
        let mut flapping = Flapping::default();
        let (mut lines, mut counted) = (0, 0);
        for tick in 0..600_u64 {
            let at = Mono(tick * SECOND);
            let own = offer(&mut flapping, tick);
            let summary = flapping.due(at);
            // A change's own line tells that change, also where it begins a storm; a summary tells those that had none.
            counted += u64::from(own.is_some());
            counted += summary.as_ref().and_then(|told| told.get("transitions")?.parse::<u64>().ok()).unwrap_or(0);
            for told in own.into_iter().chain(summary) {
                lines += 1;
                assert_eq!(told.get("n"), Some(tick.to_string().as_str()), "a line tells the newest");
            }
        }
        counted += u64::from(flapping.held.map_or(0, |held| held.count));
        assert_eq!(counted, 600);
        assert!(lines <= 10 * (LIMIT + 2), "{lines} lines in ten minutes");
    }
}
