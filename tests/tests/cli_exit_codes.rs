//! The command line's contract with scripts: exit codes, what goes to standard output and what to standard error. The built
//! program, no privileges.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gwready_tests::paths;

fn gwready(arguments: &[&str]) -> Command {
    let mut command = Command::new(paths::gwready().unwrap());
    command.args(arguments).env_clear().env("NODE_NAME", "worker-1").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    told(gwready(arguments).output().unwrap())
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_and_version_go_to_standard_output() {
    let (code, out, err) = run(&["--version"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("gwready 0."), "{out}");
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, 0);
    for command in
        ["run", "check", "wait", "status", "drain", "undrain", "snapshot", "explain", "check-config", "live", "ready", "completions"]
    {
        assert!(out.contains(&format!("\n  {command} ")), "{command} is not in\n{out}");
    }
    assert!(out.contains("Examples:") && out.contains("78  faulty configuration"), "{out}");
}

#[test]
fn wrong_arguments_are_64_on_standard_error() {
    for arguments in [&[][..], &["fly"], &["drain", "--for", "5"], &["drain", "--for", "0s"], &["wait", "--min", "0"]] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (64, ""), "{arguments:?}");
        assert!(!err.is_empty());
    }
}

#[test]
fn a_faulty_configuration_is_78_and_names_every_fault() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gwready.yaml");
    std::fs::write(&file, "ports: [0]\ntiming: {hold: 5}\nzebra: 1\n").unwrap();
    let name = file.to_str().unwrap();
    let (code, out, err) = run(&["check-config", name]);
    assert_eq!((code, out.as_str()), (78, ""));
    for key in ["ports", "timing.hold", "zebra"] {
        assert!(err.contains(&format!("{name}: {key}: ")), "{key} is not in\n{err}");
    }
    assert_eq!(err.lines().count(), 3, "{err}");
    for command in ["run", "check", "status", "drain", "undrain", "snapshot", "wait"] {
        assert_eq!(run(&["--config", name, command]).0, 78, "{command}");
    }
    let by_variable = told(gwready(&["check-config"]).env("GWREADY_CONFIG", name).env("GWREADY_LOG_LEVEL", "loud").output().unwrap());
    assert_eq!(by_variable.0, 78);
    assert!(by_variable.2.contains("environment GWREADY_LOG_LEVEL: log.level: must be"), "{}", by_variable.2);
}

#[test]
fn a_good_configuration_is_shown_and_can_be_fed_back() {
    let (code, first, _) = run(&["check-config", "--set", "ports=[443,80]", "--set", "policy.require.TproxyPath=required"]);
    assert_eq!(code, 0);
    assert!(first.starts_with("# ok\n") && first.contains("node_name: worker-1"), "{first}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("effective.yaml");
    std::fs::write(&file, &first).unwrap();
    assert_eq!(run(&["check-config", file.to_str().unwrap()]), (0, first, String::new()));
}

#[test]
fn without_a_daemon_its_commands_are_3() {
    let dir = tempfile::tempdir().unwrap();
    let set = format!("control_socket={}/s", dir.path().display());
    for command in ["status", "drain", "undrain", "snapshot"] {
        let (code, out, err) = run(&["--set", &set, command]);
        assert_eq!((code, out.as_str()), (3, ""), "{command}");
        assert!(err.contains("no gwready daemon answers"), "{err}");
    }
    for command in ["live", "ready"] {
        let output = gwready(&[command]).env("TMPDIR", dir.path()).output().unwrap();
        assert_eq!(told(output).0, 3, "{command}");
    }
}

/// A look that is not allowed another descriptor can't be made: that is no verdict.
#[test]
fn a_check_that_could_not_look_is_2_with_the_reason() {
    let mut command = Command::new("prlimit");
    command.arg("--nofile=8:8").arg(paths::gwready().unwrap()).arg("check").env("NODE_NAME", "worker-1");
    let (code, out, err) = told(command.output().unwrap());
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.starts_with("gwready: cannot ") && err.contains("Too many open files"), "{err}");
}

#[test]
fn a_snapshot_that_is_none_is_2_and_one_before_the_start_too() {
    assert_eq!(run(&["explain", "/nonexistent"]).0, 2);
    let mut child = gwready(&["explain", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"version\": 99}").unwrap();
    let (code, _, err) = told(child.wait_with_output().unwrap());
    assert_eq!(code, 2);
    assert!(err.contains("newer"), "{err}");
}

/// Every snapshot file below the folder.
fn snapshot_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| if path.is_dir() { snapshot_files(&path) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
}

/// The judge's own test holds the words; here the program agrees, in its code and its word for the node.
#[test]
fn every_scenario_file_is_explained_with_the_code_of_its_verdict() {
    let files = snapshot_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/core/tests/scenarios/files"));
    assert!(files.len() > 100, "{} files", files.len());
    for path in files {
        let expected = std::fs::read_to_string(path.with_extension("txt")).unwrap();
        let words: Vec<&str> = expected.lines().next().unwrap().split(' ').collect();
        let code = match words[..] {
            ["node", "up"] => 0,
            ["node", _, "Starting" | "Stale", ..] => 2,
            _ => 1,
        };
        let (told, out, err) = run(&["explain", path.to_str().unwrap()]);
        assert_eq!((told, err.as_str()), (code, ""), "{}", path.display());
        let reason = words.get(2).map(|reason| format!(" {reason}")).unwrap_or_default();
        assert!(out.contains(&format!("\n   node  {}{reason}", words[1].to_uppercase())), "{}\n{out}", path.display());
    }
}

#[test]
fn a_reader_that_went_away_is_no_panic() {
    let mut child = gwready(&["docs", "configuration"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

/// A health port that says down until the flag is set.
fn health_port(up: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let reply = if up.load(Ordering::SeqCst) {
                "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nstate=up node=w address=all ports=80\n"
            } else {
                "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\nstate=down node=w address=all reason=HostPort port=80 ports=80\n"
            };
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    address
}

#[test]
fn wait_prints_a_line_per_change_and_ends_when_enough_are_up() {
    let (one, two) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (first, second) = (health_port(Arc::clone(&one)), health_port(Arc::clone(&two)));
    let (code, out, _) = run(&["wait", "--timeout", "5s", "--min", "1", &first, &second]);
    assert_eq!(code, 0);
    assert!(
        out.contains(&format!("{first} state=up\n")) && out.contains(&format!("{second} state=down reason=HostPort port=80\n")),
        "{out}"
    );

    let (code, out, _) = run(&["wait", "--timeout", "700ms", "--all", &first, &second]);
    assert_eq!(code, 1);
    assert!(out.ends_with("not ready: time ran out: 1 of 2 after 700ms\n") || out.contains("time ran out: 1 of 2"), "{out}");
    assert_eq!(out.matches(&format!("{second} state=down")).count(), 1, "one line, though it was asked more than once: {out}");

    let child = gwready(&["wait", "--timeout", "20s", &first, &second]).stdout(Stdio::piped()).spawn().unwrap();
    two.store(true, Ordering::SeqCst);
    let (code, out, _) = told(child.wait_with_output().unwrap());
    assert_eq!(code, 0);
    assert!(out.contains("ready: 2 of 2"), "{out}");
}

#[test]
fn wait_for_this_node_asks_its_configured_health_port() {
    let address = health_port(Arc::new(AtomicBool::new(true)));
    let set = format!("health.listen={address}");
    assert_eq!(run(&["--set", &set, "wait", "--timeout", "5s"]).0, 0);
}

#[test]
fn wait_for_a_route_compares_the_status() {
    let address = health_port(Arc::new(AtomicBool::new(false)));
    let url = format!("http://{address}/");
    assert_eq!(run(&["wait", "--timeout", "5s", "--http", &url, "--host", "a.example", "--expect", "503"]).0, 0);
    let (code, out, _) = run(&["wait", "--timeout", "100ms", "--http", &url, "--host", "a.example"]);
    assert_eq!(code, 1);
    assert!(out.contains(&format!("{url} status=503")), "{out}");
}
