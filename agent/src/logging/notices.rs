//! A bound on repeated notices: each subject (a client's address) is worth a line once, as long as it is among the last 64.

use std::collections::VecDeque;

/// So many subjects are remembered.
const REMEMBERED: usize = 64;

/// Remembers the last subjects.
#[derive(Debug, Clone)]
pub struct Notices<T> {
    last: VecDeque<T>,
}

impl<T> Default for Notices<T> {
    fn default() -> Self {
        Self { last: VecDeque::new() }
    }
}

impl<T: PartialEq> Notices<T> {
    /// True if a notice about this subject should be written. The subject counts as seen again either way.
    pub fn is_news(&mut self, subject: T) -> bool {
        let known = self.last.iter().position(|seen| *seen == subject).and_then(|index| self.last.remove(index)).is_some();
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(subject);
        !known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_news_once_while_it_is_among_the_last() {
        let mut notices = Notices::default();
        assert!(notices.is_news(0) && !notices.is_news(0));
        assert!((1..64).all(|n| notices.is_news(n)));
        assert!(!notices.is_news(0), "still remembered, and the newest again");
        assert!(notices.is_news(64) && notices.is_news(1), "the oldest was forgotten");
        assert_eq!(notices.last.len(), REMEMBERED);
    }
}
