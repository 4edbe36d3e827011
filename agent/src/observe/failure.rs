//! A failed read as one sentence for people.

use std::error::Error;

/// The error and the whole chain of its causes: `a: b: c`.
pub(super) fn sentence(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        sentence = format!("{sentence}: {error}");
        cause = error.source();
    }
    sentence
}
