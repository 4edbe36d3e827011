//! What a person or a pipe sees while waiting: one line that is drawn again on a terminal, one line per change in a pipe.

use std::io::{self, IsTerminal};
use std::time::Duration;

use gwready_core::render::duration::render_age;

use super::super::output;
use super::target::{Answer, Target};

/// Remembers what was shown last.
pub(super) struct Progress {
    names: Vec<String>,
    needed: usize,
    last: Vec<Option<Answer>>,
    terminal: bool,
    good: usize,
}

impl Progress {
    pub(super) fn new(targets: &[Target], needed: usize) -> Self {
        let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
        Self { last: vec![None; names.len()], names, needed, terminal: io::stderr().is_terminal(), good: 0 }
    }

    /// Shows a round. Changes go to standard output, where a pipeline reads them; the moving line to standard error.
    pub(super) fn show(&mut self, answers: &[Answer], left: Option<Duration>) {
        self.good = answers.iter().filter(|answer| answer.good).count();
        let changes = changes(&self.names, &self.last, answers);
        self.last = answers.iter().cloned().map(Some).collect();
        if !(self.terminal && io::stdout().is_terminal()) {
            output::print(&changes);
        }
        if self.terminal {
            let left = left.map_or_else(String::new, |left| format!(", {} left", render_age(Duration::from_secs(left.as_secs()))));
            let waiting: Vec<String> = self
                .names
                .iter()
                .zip(answers)
                .filter(|(_, answer)| !answer.good)
                .map(|(name, answer)| format!("{name} {}", answer.text))
                .collect();
            let line = format!("{} ready{left}  {}", self.count(), waiting.join("; "));
            output::complain(&format!("\r\u{1b}[K{}", line.chars().take(width()).collect::<String>()));
        }
    }

    /// The last word.
    pub(super) fn end(&self, reached: bool, after: Duration) {
        if self.terminal {
            output::complain("\r\u{1b}[K");
        }
        let word = if reached { "ready" } else { "not ready: time ran out" };
        output::print(&format!("{word}: {} after {}\n", self.count(), render_age(after)));
    }

    /// How many of how many, and how many are wanted where that is not all.
    fn count(&self) -> String {
        let all = self.names.len();
        let wanted = if self.needed == all { String::new() } else { format!(" ({} wanted)", self.needed) };
        format!("{} of {all}{wanted}", self.good)
    }
}

/// One line per target that says something else than before.
fn changes(names: &[String], last: &[Option<Answer>], answers: &[Answer]) -> String {
    names
        .iter()
        .zip(last)
        .zip(answers)
        .filter(|((_, before), now)| before.as_ref() != Some(*now))
        .map(|((name, _), now)| format!("{name} {}\n", now.text))
        .collect()
}

/// Columns of the terminal on standard error, one kept free so that the line does not wrap.
fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stderr()).map_or(79, |size| usize::from(size.ws_col).max(20) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_a_line() {
        let names = ["a".to_owned(), "b".to_owned()];
        let (up, down) = (Answer { good: true, text: "state=up".to_owned() }, Answer::bad("state=down"));
        let first = changes(&names, &[None, None], &[up.clone(), down.clone()]);
        assert_eq!(first, "a state=up\nb state=down\n");
        let last = [Some(up.clone()), Some(down)];
        assert_eq!(changes(&names, &last, &[up.clone(), up.clone()]), "b state=up\n");
        assert_eq!(changes(&names, &[Some(up.clone()), Some(up.clone())], &[up.clone(), up]), "");
    }
}
