//! `gwready wait` as a pipeline uses it: over several nodes with real Envoys and daemons, and for a route of a real Envoy.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gwready_tests::desk::Desk;
use gwready_tests::listener::{HOST_OK, HOST_SILENT};
use gwready_tests::node::node_v4;
use gwready_tests::{Listener, Node, Scene, paths};

/// A node, Envoy and an agent that is up, three times, and the desk before them.
fn three() -> (Vec<Scene>, Desk) {
    let nodes: Vec<Node> = (0..3).map(|_| Node::builder().without_ipv6().build().unwrap()).collect();
    // The links first: an address that comes later is news to the agent.
    let desk = Desk::before(&nodes.iter().collect::<Vec<_>>()).unwrap();
    let scene = |node: &Node| {
        let envoy = gwready_tests::Envoy::start(node).unwrap();
        Scene::with(node, envoy, gwready_tests::scene::quick(node)).unwrap()
    };
    (nodes.iter().map(scene).collect(), desk)
}

fn wait_command(desk: &Desk, options: &[&str], targets: &[String]) -> Command {
    let mut command = desk.space().command(paths::gwready().unwrap());
    command.env_clear().arg("wait").args(options).args(targets).stdin(Stdio::null());
    command
}

/// Exit code and standard output.
fn wait(desk: &Desk, options: &[&str], targets: &[String]) -> (i32, String) {
    let output = wait_command(desk, options, targets).output().unwrap();
    assert!(output.stderr.is_empty(), "a pipe gets no moving line: {}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// What was said of one target, in order.
fn said<'a>(out: &'a str, target: &str) -> Vec<&'a str> {
    out.lines().filter_map(|line| line.strip_prefix(target)?.strip_prefix(' ')).collect()
}

#[test]
fn all_of_several_nodes_or_so_many_of_them_and_a_line_per_change() {
    let (mut scenes, desk) = three();
    let targets = desk.targets();
    let (code, out) = wait(&desk, &["--all", "--timeout", "20s"], &targets);
    assert_eq!(code, 0, "{out}");
    assert!(out.lines().last().unwrap().starts_with("ready: 3 of 3 after "), "{out}");
    assert!(targets.iter().all(|target| said(&out, target) == ["state=up"]), "{out}");

    scenes[1].envoy.kill().unwrap();
    scenes[1].wait_node_down("EnvoyNotRunning").unwrap();
    let (code, out) = wait(&desk, &["--min", "2", "--timeout", "20s"], &targets);
    assert_eq!(code, 0, "two are enough: {out}");
    assert!(out.lines().last().unwrap().starts_with("ready: 2 of 3 (2 wanted) after "), "{out}");

    let began = Instant::now();
    let (code, out) = wait(&desk, &["--all", "--timeout", "2s"], &targets);
    assert_eq!(code, 1, "{out}");
    assert!(began.elapsed() >= Duration::from_secs(2), "it does not give up before its time");
    assert!(out.lines().last().unwrap().starts_with("not ready: time ran out: 2 of 3 after 2"), "{out}");
    assert_eq!(said(&out, &targets[1]), ["state=down reason=EnvoyNotRunning"], "asked several times, said once: {out}");

    // Without a word `--all` is meant. The line of what is missing comes at once, and the end when it is there.
    let mut child = wait_command(&desk, &["--timeout", "60s"], &targets).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut out = String::new();
    while !out.contains("reason=EnvoyNotRunning") {
        assert!(reader.read_line(&mut out).unwrap() > 0, "it ended early: {out}");
    }
    scenes[1].envoy.start_again().unwrap();
    reader.read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{out}");
    let (second, others) = (said(&out, &targets[1]), [said(&out, &targets[0]), said(&out, &targets[2])]);
    assert_eq!(second.first(), Some(&"state=down reason=EnvoyNotRunning"), "{out}");
    // Some of its addresses may be a little later.
    assert!(second.last().unwrap().starts_with("state=up"), "{out}");
    assert!(second.windows(2).all(|pair| pair[0] != pair[1]), "a line says something new: {out}");
    assert_eq!(others, [["state=up"], ["state=up"]], "what did not change is not said again: {out}");

    scenes[2].agent.stop().unwrap();
    let (code, out) = wait(&desk, &["--min", "2", "--timeout", "20s"], &targets);
    assert_eq!(code, 0, "a node without an agent holds up no other: {out}");
    assert!(said(&out, &targets[2])[0].starts_with("no answer ("), "{out}");
}

#[test]
fn a_route_of_a_real_envoy() {
    let mut scene = Scene::up().unwrap();
    let route = |host: &str, expect: &str, timeout: &str| {
        let mut command = scene.node.outside().command(paths::gwready().unwrap());
        let url = format!("http://{}/", node_v4(1));
        command.args(["wait", "--http", &url, "--host", host, "--expect", expect, "--timeout", timeout]);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = route(HOST_OK, "200", "20s");
    assert!(code == 0 && out.contains("status=200\n"), "{code} {out}");
    let (code, out) = route("unknown.example", "200", "1s");
    assert!(code == 1 && out.contains("status=404\n"), "Envoy knows no such host: {code} {out}");
    let (code, out) = route("unknown.example", "404", "20s");
    assert!(code == 0, "404 may be what is wanted: {code} {out}");
    let (code, out) = route(HOST_SILENT, "200", "1s");
    assert!(code == 1 && out.contains("no answer (no reply in time)\n"), "a silent backend ends no wait: {code} {out}");

    // Taken away and given back while it waits.
    scene.envoy.set_listeners(&[]).unwrap();
    scene.wait_node_down("NoListener").unwrap();
    let mut command = scene.node.outside().command(paths::gwready().unwrap());
    command.args(["wait", "--http", &format!("http://{}/", node_v4(1)), "--host", HOST_OK, "--timeout", "60s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut out = String::new();
    reader.read_line(&mut out).unwrap();
    assert!(out.contains("no answer (") && out.contains("refused"), "{out}");
    scene.envoy.set_listeners(&[Listener::gateway()]).unwrap();
    reader.read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success() && out.contains("status=200\n"), "{out}");
}
