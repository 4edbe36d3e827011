//! The command line with a made-up engine.

use std::ffi::OsString;

use clap::CommandFactory;

use super::*;

struct NoEngine;

impl Engine for NoEngine {
    fn run(&self, _: &Config) -> Result<(), Failure> {
        Err(Failure { exit: Exit::AddressInUse, sentence: "port 9680 is taken by nginx".to_owned() })
    }

    fn observe(&self, _: &Config) -> Result<Observation, Failure> {
        Err(Failure { exit: Exit::CannotTell, sentence: "nothing to see".to_owned() })
    }
}

fn exit(line: &str) -> Exit {
    run(std::iter::once("gwready").chain(line.split_whitespace()).map(OsString::from), &NoEngine)
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn usage_faults_are_64_and_help_is_0() {
    for line in [
        "",
        "fly",
        "run --fly",
        "wait --min 0",
        "wait --min 1 --all a",
        "wait --host a",
        "wait --timeout soon",
        "drain --for 5",
        "explain",
        "wait --http http://a a",
        "wait --min 3 127.0.0.1:1 127.0.0.1:2",
        "wait https://a",
        "wait --http http://a --expect 99",
    ] {
        assert_eq!(exit(line), Exit::Usage, "{line}");
    }
    for line in ["--help", "--version", "wait --help", "help drain", "completions bash", "completions zsh", "man", "docs configuration"] {
        assert_eq!(exit(line), Exit::Ok, "{line}");
    }
}

#[test]
fn each_failure_has_its_code() {
    for (line, code) in [
        ("run", 69),
        ("check", 2),
        ("snapshot --fresh", 2),
        ("run --set ports=x", 78),
        ("--config /nonexistent check", 78),
        ("check-config --set zebra=1", 78),
        ("check-config", 0),
        ("--set control_socket=/nonexistent/s status", 3),
        ("--set control_socket=/nonexistent/s drain --for 5m", 3),
        ("--set control_socket=/nonexistent/s undrain", 3),
        ("--set control_socket=/nonexistent/s snapshot", 3),
        ("live --socket /nonexistent/s", 3),
        ("ready --socket /nonexistent/s", 3),
        ("explain /nonexistent", 2),
        ("wait --timeout 0s 127.0.0.1:1", 1),
        ("wait --set zebra=1", 78),
    ] {
        assert_eq!(exit(line).code(), code, "{line}");
    }
}

#[test]
fn every_command_of_the_design_is_there_with_its_options() {
    let command = Arguments::command();
    let options = |name: &str| -> Vec<String> {
        let command = command.find_subcommand(name).unwrap_or_else(|| panic!("no command {name}"));
        let mut options: Vec<String> = command
            .get_arguments()
            .map(|argument| argument.get_long().map_or_else(|| argument.get_id().to_string(), |long| format!("--{long}")))
            .collect();
        options.sort();
        options
    };
    for (name, expected) in [
        ("run", vec![]),
        ("check", vec!["--json", "--require"]),
        ("wait", vec!["--all", "--expect", "--host", "--http", "--min", "--timeout", "urls"]),
        ("status", vec!["--json"]),
        ("drain", vec!["--for", "--reason"]),
        ("undrain", vec![]),
        ("snapshot", vec!["--fresh"]),
        ("explain", vec!["file"]),
        ("check-config", vec!["file"]),
        ("live", vec!["--socket"]),
        ("ready", vec!["--socket"]),
    ] {
        assert_eq!(options(name), expected, "{name}");
    }
}
