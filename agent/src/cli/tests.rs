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

/// A daemon on a socket: answers with fixed values, on a thread that lives as long as the test process.
struct Daemon(serde_json::Value);

impl crate::control::Handler for Daemon {
    async fn handle(&self, request: crate::control::Request, _: crate::control::Peer) -> crate::control::Response {
        use crate::control::{Readiness, Request, Response};
        match request {
            Request::Status => Response::of(&self.0),
            Request::Drain { for_ms: Some(300_000), reason } if reason == "why" => Response::of(&"draining"),
            Request::Drain { .. } => Response::Error("not that".to_owned()),
            Request::Undrain => Response::of(&"undrained"),
            Request::Snapshot => Response::of(&serde_json::json!({"version": 1})),
            Request::Live => Response::of(&Readiness::default()),
            Request::Ready => Response::of(&Readiness { pending: vec!["no whole pass yet".to_owned()] }),
        }
    }
}

fn daemon(status: serde_json::Value) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("s");
    let (bound_tx, bound_rx) = std::sync::mpsc::channel();
    let socket = path.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async move {
            let bound = crate::control::bind(&socket).expect("bound");
            bound_tx.send(()).expect("test waits");
            crate::control::serve(bound, rustix::process::geteuid().as_raw(), std::sync::Arc::new(Daemon(status))).await;
        });
    });
    bound_rx.recv().expect("bound");
    (dir, path.display().to_string())
}

fn status_document(state: &str, reason: serde_json::Value) -> serde_json::Value {
    serde_json::json!({
        "version": 1, "agent": "0", "node": "w", "at": "", "state": state, "reason": reason, "ports": [], "since": "", "for_ms": 0, "partial": 0,
        "observed_age_ms": 0, "expected_ports": [80], "families": [], "addresses": [], "endpoints": [], "conditions": [], "drain": null,
        "sources": [], "not_visible": [], "history": [], "config": null, "a_later_field": 1
    })
}

#[test]
fn status_has_the_code_of_its_verdict() {
    for (state, reason, code) in [
        ("up", None, 0),
        ("down", Some("HostPort"), 1),
        ("drain", Some("DrainRequested"), 1),
        ("down", Some("Starting"), 2),
        ("down", Some("Stale"), 2),
    ] {
        let (_dir, socket) = daemon(status_document(state, reason.into()));
        for form in ["status", "status --json"] {
            assert_eq!(exit(&format!("--set control_socket={socket} {form}")).code(), code, "{state} {reason:?}");
        }
    }
    let (_dir, socket) = daemon(serde_json::json!({"version": 2}));
    assert_eq!(exit(&format!("--set control_socket={socket} status")).code(), 2, "another shape");
}

#[test]
fn the_daemon_is_asked_for_what_was_meant() {
    let (_dir, socket) = daemon(serde_json::Value::Null);
    for (line, code) in [("drain --for 5m --reason why", 0), ("drain", 2), ("undrain", 0), ("snapshot", 0)] {
        assert_eq!(exit(&format!("--set control_socket={socket} {line}")).code(), code, "{line}");
    }
    assert_eq!(exit(&format!("live --socket {socket}")).code(), 0);
    assert_eq!(exit(&format!("ready --socket {socket}")).code(), 1);
}

/// Sees nothing but that it may not read the owners.
struct Blind;

impl Engine for Blind {
    fn run(&self, _: &Config) -> Result<(), Failure> {
        Ok(())
    }

    fn observe(&self, config: &Config) -> Result<Observation, Failure> {
        let refused = gwready_core::facts::Unavailable {
            why: gwready_core::facts::Why::Permission,
            detail: "ptrace".to_owned(),
            window: gwready_core::time::Window::default(),
        };
        let file = gwready_core::replay::SnapshotFile {
            version: 1,
            agent: "0".to_owned(),
            node: config.node_name.clone(),
            policy: config.policy(),
            config: config.to_json(),
            memory: Default::default(),
            snapshot: gwready_core::facts::Snapshot { owners: gwready_core::facts::Reading::Unavailable(refused), ..Default::default() },
            now: crate::clock::now(),
        };
        Ok(Observation { file, not_visible: Vec::new() })
    }
}

#[test]
fn a_missing_privilege_is_77_only_where_it_is_asked_for() {
    let exit = |line: &str| run(std::iter::once("gwready").chain(line.split(' ')).map(OsString::from), &Blind).code();
    for (line, code) in [("check", 2), ("check --json", 2), ("check --require", 77), ("run", 0), ("snapshot --fresh", 0)] {
        assert_eq!(exit(line), code, "{line}");
    }
}

#[test]
fn a_snapshot_explains_itself_on_another_machine() {
    let config =
        config::load(&Sources { names: config::HostNames { node_name_variable: None, host_name: "w".to_owned() }, ..Sources::default() })
            .expect("valid");
    let file = Blind.observe(&config).expect("observed").file;
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("w.json");
    std::fs::write(&path, serde_json::to_string(&file).expect("json")).expect("file");
    assert_eq!(exit(&format!("explain {}", path.display())).code(), 2, "the start rule is not met in it");
}
