//! Completions, manual page and generated pages of the documentation.

use clap::CommandFactory;

use super::args::{Arguments, Page};
use super::exit::Exit;
use super::output;

/// `gwready completions SHELL`.
pub(super) fn completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gwready", &mut script);
    output::print(&String::from_utf8_lossy(&script));
    Exit::Ok
}

/// `gwready man`.
pub(super) fn man() -> Exit {
    let mut page = Vec::new();
    match clap_mangen::Man::new(Arguments::command()).render(&mut page) {
        Ok(()) => {
            output::print(&String::from_utf8_lossy(&page));
            Exit::Ok
        }
        Err(error) => {
            output::complain(&format!("gwready: {error}\n"));
            Exit::CannotTell
        }
    }
}

/// `gwready docs PAGE`.
pub(super) fn page(page: Page) -> Exit {
    output::print(&match page {
        Page::Configuration => crate::config::docs::render(),
        Page::Metrics => crate::metrics::docs::render(),
        Page::Verdict => gwready_core::judge::rules::render(),
    });
    Exit::Ok
}
