//! Envoy's own word, read from real Envoy: states, listeners, rejections, and what a slow or absent admin does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gwready::observe::envoy::{AdminSession, AdminSettings, EnvoyAdminReader, read_path};
use gwready_core::condition::Status;
use gwready_core::facts::envoy::{ChainKind, EnvoyAdmin, ServerState};
use gwready_core::facts::{Reading, Snapshot, Why};
use gwready_core::judge::config_current::{judge_config_current, listener_rejected};
use gwready_core::judge::envoy_live::{bind_permission_denied, judge_envoy_live};
use gwready_core::judge::ports::{expected_ports, learnt_ports};
use gwready_core::policy::{Mode, Policy};
use gwready_core::reason::Reason;
use gwready_core::time::{Mono, Window};
use gwready_tests::listener::{GATEWAY_LISTENER, SNI};
use gwready_tests::{Caps, Envoy, Listener, Node, Thief, Tls, eventually};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(10);
const OTHER: &str = "team/cilium-gateway-other/listener";

fn read(socket: &Path) -> Result<EnvoyAdmin> {
    Ok(AdminSession::new(socket.to_owned()).read(Instant::now() + SOON)?)
}

fn snapshot(admin: EnvoyAdmin) -> Snapshot {
    Snapshot { envoy: Reading::Observed { value: admin, window: Window::default() }, ..Snapshot::default() }
}

/// What one read says once it says what is wanted.
fn read_until(socket: &Path, wanted: impl Fn(&EnvoyAdmin) -> bool) -> Snapshot {
    let admin = eventually(SOON, || {
        let admin = read(socket)?;
        ensure!(wanted(&admin), "{admin:?}");
        Ok(admin)
    });
    snapshot(admin.unwrap())
}

fn has_error(admin: &EnvoyAdmin) -> bool {
    admin.listeners.iter().any(|listener| listener.error.is_some())
}

fn live(snapshot: &Snapshot) -> (Status, Option<Reason>) {
    let finding = judge_envoy_live(&Policy::default(), snapshot, Mono(0));
    (finding.status, finding.reason)
}

#[test]
fn a_serving_gateway_is_read_whole() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let admin = read(&node.admin_socket()).unwrap();
    assert_eq!((admin.state, admin.updates_rejected), (ServerState::Live, 0));
    let [listener] = admin.listeners.as_slice() else { panic!("{admin:?}") };
    assert_eq!((listener.name.as_str(), listener.ports.as_slice()), (GATEWAY_LISTENER, &[80, 443][..]));
    assert_eq!((listener.active, listener.error.as_deref(), listener.secrets_not_ready), (true, None, Some(0)));
    let chains: Vec<_> = listener.chains.iter().map(|chain| (chain.kind, chain.server_names.join(" "))).collect();
    assert_eq!(chains, [(ChainKind::Http, String::new()), (ChainKind::Tls, SNI.to_owned())]);
    let snapshot = snapshot(admin);
    assert_eq!(learnt_ports(Mode::HostNetwork, &snapshot), Some(vec![80, 443]));
    assert_eq!(judge_config_current(&snapshot).status, Status::True);
}

#[test]
fn two_gateways_on_one_port_are_told_by_envoys_sentence_and_both_names() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let other = Listener { name: OTHER.into(), ports: vec![80, 8080], ..Listener::gateway() };
    envoy.set_listeners(&[Listener::gateway(), other]).unwrap();
    let snapshot = read_until(&node.admin_socket(), has_error);
    let finding = judge_config_current(&snapshot);
    assert_eq!((finding.status, finding.reason), (Status::False, Some(Reason::UpdateRejected)));
    assert_eq!(finding.message, "two Gateways want one port: Envoy rejects Gateway team/other because Gateway default/gw has it");
    assert!(finding.evidence["envoy"].contains("duplicate address"), "{:?}", finding.evidence);
    assert_eq!(listener_rejected(&snapshot, 8080).unwrap().listener, OTHER);
    assert_eq!(expected_ports(&Policy::default(), &snapshot, &[]), [80, 443, 8080], "a rejected port is expected all the same");
    envoy.set_listeners(&[Listener::gateway()]).unwrap();
    let mended = read_until(&node.admin_socket(), |admin| !has_error(admin));
    assert_eq!(judge_config_current(&mended).status, Status::True);
}

#[test]
fn a_port_that_another_process_has_is_told() {
    let node = Node::new().unwrap();
    let _thief = Thief::at(&node, IpAddr::V4(Ipv4Addr::UNSPECIFIED), 443).start().unwrap();
    let _envoy = Envoy::builder(&node).start_unserved().unwrap();
    let snapshot = read_until(&node.admin_socket(), has_error);
    let rejected = listener_rejected(&snapshot, 80).unwrap();
    assert_eq!(rejected.message(), "Envoy rejects Gateway default/gw: another process has one of its ports", "{}", rejected.sentence);
    assert_eq!(bind_permission_denied(&Policy::default(), &snapshot, 80), None);
}

#[test]
fn an_envoy_without_the_right_to_bind_says_permission_denied() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::builder(&node).caps(Caps::None).start_unserved().unwrap();
    let snapshot = read_until(&node.admin_socket(), has_error);
    let evidence = bind_permission_denied(&Policy::default(), &snapshot, 80).unwrap();
    assert!(evidence["envoy"].contains("Permission denied"), "{evidence:?}");
    assert!(evidence["fix"].contains("keepCapNetBindService=true"));
}

#[test]
fn an_update_refused_while_the_old_listener_serves() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    envoy.set_listeners(&[Listener { broken: true, ..Listener::gateway() }]).unwrap();
    let snapshot = read_until(&node.admin_socket(), has_error);
    assert_eq!(judge_config_current(&snapshot).reason, Some(Reason::UpdateRejected));
    assert!(snapshot.envoy.value().unwrap().listeners[0].active, "the old one keeps serving");
}

#[test]
fn draining_is_seen_and_ends() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let state = || read(&node.admin_socket()).unwrap();
    assert_eq!(live(&snapshot(state())), (Status::True, None));
    envoy.post("/healthcheck/fail").unwrap();
    assert_eq!(live(&snapshot(state())), (Status::False, Some(Reason::EnvoyDraining)));
    envoy.post("/healthcheck/ok").unwrap();
    assert_eq!(live(&snapshot(state())), (Status::True, None));
}

#[test]
fn chains_that_pass_tls_through_are_told_from_those_that_end_it() {
    let node = Node::new().unwrap();
    let tls = Tls::Passthrough(vec!["p.example".into()]);
    let _envoy = Envoy::builder(&node).listeners(vec![Listener { tls, ..Listener::gateway() }]).start_unserved().unwrap();
    let snapshot = read_until(&node.admin_socket(), |admin| admin.listeners.iter().any(|listener| listener.active));
    let kinds: Vec<_> = snapshot.envoy.value().unwrap().listeners[0].chains.iter().map(|chain| chain.kind).collect();
    assert_eq!(kinds, [ChainKind::Http, ChainKind::Passthrough]);
}

fn settings(socket: PathBuf) -> AdminSettings {
    AdminSettings { interval: Duration::from_millis(50), deadline: Duration::from_millis(500), ..AdminSettings::new(socket) }
}

/// A reader that counts its wakes.
fn reader(socket: PathBuf) -> (EnvoyAdminReader, Arc<AtomicUsize>) {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let reader = EnvoyAdminReader::spawn(settings(socket), move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    (reader.unwrap(), wakes)
}

fn wait_for(reader: &EnvoyAdminReader, wanted: impl Fn(&Reading<EnvoyAdmin>) -> bool) -> Result<()> {
    eventually(SOON, || {
        let reading = reader.latest().get();
        ensure!(wanted(&reading), "{reading:?}");
        Ok(())
    })
}

fn why(reading: &Reading<EnvoyAdmin>) -> Option<Why> {
    reading.unavailable().map(|unavailable| unavailable.why)
}

#[test]
fn a_stopped_envoy_makes_the_reading_late_and_never_the_reader_of_it() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let (reader, _) = reader(node.admin_socket());
    wait_for(&reader, |reading| reading.value().is_some()).unwrap();
    envoy.signal(Signal::STOP).unwrap();
    let stopped = wait_for(&reader, |reading| {
        let begin = Instant::now();
        drop(reader.latest().get());
        assert!(begin.elapsed() < Duration::from_millis(100), "taking the latest reading took {:?}", begin.elapsed());
        why(reading) == Some(Why::Deadline)
    });
    envoy.signal(Signal::CONT).unwrap();
    stopped.unwrap();
    wait_for(&reader, |reading| reading.value().is_some()).unwrap();
}

#[test]
fn a_reader_wakes_for_news_alone() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let (reader, wakes) = reader(node.admin_socket());
    let has_port = |port: u16| {
        move |reading: &Reading<EnvoyAdmin>| reading.value().is_some_and(|admin| admin.listeners.iter().any(|l| l.ports.contains(&port)))
    };
    wait_for(&reader, has_port(443)).unwrap();
    // Several further reads of the same.
    let end = |reading: &Reading<EnvoyAdmin>| reading.window().unwrap().end;
    let first = end(&reader.latest().get());
    wait_for(&reader, |reading| end(reading).since(first) > Duration::from_millis(300)).unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 1, "the first reading is news, the same again is not");
    envoy.set_listeners(&[Listener::http(8080)]).unwrap();
    wait_for(&reader, has_port(8080)).unwrap();
    eventually(SOON, || {
        ensure!(wakes.load(Ordering::SeqCst) >= 2, "no wake");
        Ok(())
    })
    .unwrap();
    assert!(!reader.has_ended());
}

#[test]
fn an_absent_socket_and_a_killed_envoy_are_absent() {
    let node = Node::new().unwrap();
    let (reader, _) = reader(node.admin_socket());
    wait_for(&reader, |reading| why(reading) == Some(Why::Absent)).unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    wait_for(&reader, |reading| reading.value().is_some()).unwrap();
    envoy.kill().unwrap();
    wait_for(&reader, |reading| why(reading) == Some(Why::Absent)).unwrap();
    envoy.start_again().unwrap();
    wait_for(&reader, |reading| reading.value().is_some_and(|admin| !admin.listeners.is_empty())).unwrap();
}

/// A server that keeps the requests that it gets and answers all of them the same way.
fn fake_admin(dir: &Path, answer: fn(&mut dyn Write) -> std::io::Result<()>) -> Result<(PathBuf, std::sync::mpsc::Receiver<String>)> {
    let path = dir.join("admin.sock");
    let listener = UnixListener::bind(&path)?;
    let (sender, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap_or(0);
            if sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                return;
            }
            let _ = answer(&mut stream);
        }
    });
    Ok((path, requests))
}

#[test]
fn nothing_but_get_is_ever_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (path, requests) =
        fake_admin(dir.path(), |stream| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nLIVE\n")).unwrap();
    let error = AdminSession::new(path).read(Instant::now() + SOON).unwrap_err();
    assert_eq!(error.why(), Why::Layout, "LIVE is no JSON of stats: {error}");
    let requests: Vec<String> = requests.try_iter().collect();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests.iter().all(|request| request.starts_with("GET /") && request.ends_with("\r\n\r\n")), "{requests:?}");
}

#[test]
fn a_server_that_drips_is_left_at_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let drip = |stream: &mut dyn Write| loop {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: y\r\n")?;
        std::thread::park_timeout(Duration::from_millis(20));
    };
    let (path, _requests) = fake_admin(dir.path(), drip).unwrap();
    let begin = Instant::now();
    let error = AdminSession::new(path).read(begin + Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.why(), Why::Deadline, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn a_full_backlog_does_not_hold_the_reader() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    // A backlog of 0 holds one connection; a second connect would block until somebody accepts.
    let _waiting = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let begin = Instant::now();
    let error = read_path(&path, "/ready", begin + Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.why(), Why::Deadline, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}
