//! Every fault of docs/faults.md, played: the agent tells each one, and the page shows what is really seen. One test for each
//! section, so that they share the machine; `cargo xtask test faults` writes the page anew.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use gwready_tests::faults::{SECTIONS, page, play};

const PAGE: &str = include_str!("../../docs/faults.md");

fn is_as_shown(title: &str) {
    let section = SECTIONS.iter().find(|section| section.title == title).unwrap();
    let rows = play(section).unwrap_or_else(|error| panic!("{error:#}"));
    let seen = page::render_section(section, &rows);
    let differences = page::differences(page::section_of(PAGE, section).unwrap_or_default(), &seen);
    assert!(differences.is_empty(), "run `cargo xtask test faults`, or mend what changed:\n{}", differences.join("\n"));
}

#[test]
fn envoys_control_path() {
    is_as_shown("Envoy's control path");
}

#[test]
fn someone_else_gets_the_connection() {
    is_as_shown("Someone else gets the connection");
}

#[test]
fn partial() {
    is_as_shown("Partial");
}

#[test]
fn alive_but_not_taking() {
    is_as_shown("Alive but not taking");
}

#[test]
fn coming_and_going() {
    is_as_shown("Coming and going");
}

#[test]
fn configuration_fine_request_not() {
    is_as_shown("Configuration fine, request not");
}

#[test]
fn the_monitor_itself() {
    is_as_shown("The monitor itself");
}

#[test]
fn the_page_is_what_the_sections_make_of_it() {
    assert!(page::is_whole(PAGE), "run `cargo xtask test faults`");
}
