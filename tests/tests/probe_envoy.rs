//! The local probe against real Envoy: who answered, what it may send, and that no probe reaches a backend.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use gwready::observe::envoy::{AdminSession, LatestAdmin};
use gwready::observe::sockets::SocketReader;
use gwready::probe::{ExplicitProbe, ProbeHandle, ProbeSettings, Prober, probe_all};
use gwready_core::facts::Reading;
use gwready_core::facts::envoy::EnvoyAdmin;
use gwready_core::facts::probes::{Acceptor, ProbeOutcome, ProbeResult, ProbeTable};
use gwready_core::net::Endpoint;
use gwready_core::time::Window;
use gwready_tests::listener::{HOST_OK, HOST_SILENT, SNI};
use gwready_tests::{Envoy, Listener, Node, Thief, Tls, eventually};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(10);

fn fast() -> ProbeSettings {
    ProbeSettings { interval: Duration::from_millis(100), timeout: Duration::from_millis(500), ..ProbeSettings::default() }
}

fn endpoints(node: &Node, ports: &[u16]) -> Vec<Endpoint> {
    let addresses = node.addresses();
    addresses.iter().flat_map(|address| ports.iter().map(|port| Endpoint { address: *address, port: *port })).collect()
}

fn admin(node: &Node) -> EnvoyAdmin {
    AdminSession::new(node.admin_socket()).read(Instant::now() + SOON).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// One probe of every endpoint, from within the node.
fn probe(node: &Node, settings: &ProbeSettings, admin: Option<&EnvoyAdmin>, ports: &[u16]) -> Vec<ProbeResult> {
    let table = node.enter(|| Ok(runtime().block_on(async { probe_all(settings, &endpoints(node, ports), admin).await })));
    table.unwrap().results
}

fn listening_inodes(node: &Node, port: u16) -> Vec<u64> {
    let rows = node.enter(|| Ok(SocketReader::new().read_listeners(&[port])?)).unwrap();
    rows.iter().map(|row| row.id.inode).collect()
}

/// Connections that reached the silent backend: in its accept queue, which it never empties.
fn reached_backend(node: &Node, envoy: &Envoy) -> u32 {
    let clusters = envoy.get("/clusters").unwrap();
    let address = clusters.lines().find_map(|line| line.strip_prefix("silent::")?.split_once("::cx_total")).unwrap().0;
    let port = address.parse::<SocketAddr>().unwrap().port();
    let rows = node.enter(|| Ok(SocketReader::new().read_listeners(&[port])?)).unwrap();
    rows.iter().map(|row| row.queue_length).sum()
}

#[test]
fn every_front_is_answered_by_envoy_and_the_kernel_says_so() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::builder(&node).certificate_days(20).start().unwrap();
    let results = probe(&node, &fast(), Some(&admin(&node)), &[80, 443]);
    assert_eq!(results.len(), 8, "2 ports on 2 + 2 addresses");
    for result in &results {
        let Acceptor::Local { inode, mark, listener } = result.acceptor else { panic!("{result:?}") };
        assert!(inode != 0 && listener.is_some_and(|inode| listening_inodes(&node, result.endpoint.port).contains(&inode)), "{result:?}");
        assert_eq!(mark, Some(0xb00), "inherited from the listener");
        match &result.outcome {
            ProbeOutcome::Answered { status, server } if result.endpoint.port == 80 => {
                assert_eq!((*status, server.as_deref()), (400, Some("envoy")));
            }
            ProbeOutcome::TlsAnswered { not_after: Some(not_after) } if result.endpoint.port == 443 => {
                let now = i64::try_from(gwready::clock::now().unix_ms / 1000).unwrap();
                assert!((19 * 86_400..=20 * 86_400).contains(&(not_after - now)), "{not_after}");
                assert_eq!(result.server_name.as_deref(), Some(SNI), "learnt from Envoy");
            }
            other => panic!("{}: {other:?}", result.endpoint),
        }
    }
}

#[test]
fn without_envoys_word_443_is_connected_to_and_nothing_is_sent() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    for result in probe(&node, &fast(), None, &[443]) {
        assert!(matches!(result.outcome, ProbeOutcome::NotJudgeable(_)), "{result:?}");
        assert!(matches!(result.acceptor, Acceptor::Local { inode: 1.., .. }), "who accepts is known all the same: {result:?}");
    }
    let named = ProbeSettings { sni: Some(SNI.to_owned()), ..fast() };
    for result in probe(&node, &named, None, &[443]) {
        assert!(matches!(result.outcome, ProbeOutcome::TlsAnswered { .. }), "{result:?}");
    }
}

#[test]
fn no_probe_reaches_a_backend_behind_passthrough() {
    let node = Node::new().unwrap();
    let tls = Tls::Passthrough(vec!["p.example".into()]);
    let envoy = Envoy::builder(&node).listeners(vec![Listener { tls, ..Listener::gateway() }]).start().unwrap();
    let configured = ProbeSettings { sni: Some("p.example".to_owned()), ..fast() };
    for settings in [fast(), configured] {
        for admin in [Some(admin(&node)), None] {
            if admin.is_none() && settings.sni.is_some() {
                // Without Envoy's word a configured name is the operator's to answer for.
                continue;
            }
            for result in probe(&node, &settings, admin.as_ref(), &[80, 443]) {
                let fine = if result.endpoint.port == 80 {
                    matches!(result.outcome, ProbeOutcome::Answered { status: 400, .. })
                } else {
                    matches!(result.outcome, ProbeOutcome::NotJudgeable(_))
                };
                assert!(fine, "{result:?}");
            }
        }
    }
    assert_eq!(reached_backend(&node, &envoy), 0);
    // The count itself works: a ClientHello with that name does reach it.
    let explicit =
        ExplicitProbe { port: 443, host: "p.example".into(), path: "/".into(), sni: Some("p.example".into()), expect_status: vec![200] };
    let deliberate = ProbeSettings { enabled: false, explicit: vec![explicit], ..fast() };
    for result in probe(&node, &deliberate, Some(&admin(&node)), &[443]) {
        assert_eq!(result.outcome, ProbeOutcome::Timeout, "{result:?}");
    }
    assert_eq!(reached_backend(&node, &envoy), 4);
}

#[test]
fn a_silent_backend_on_the_root_path_is_never_asked() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    for result in probe(&node, &fast(), Some(&admin(&node)), &[80]) {
        assert!(matches!(result.outcome, ProbeOutcome::Answered { status: 400, .. }), "{result:?}");
    }
    assert_eq!(reached_backend(&node, &envoy), 0);
    let explicit = ExplicitProbe { port: 80, host: HOST_SILENT.into(), path: "/".into(), sni: None, expect_status: vec![200] };
    let deliberate = ProbeSettings { enabled: false, explicit: vec![explicit], ..fast() };
    for result in probe(&node, &deliberate, None, &[80]) {
        assert_eq!((result.outcome.clone(), result.failures), (ProbeOutcome::Timeout, 1), "{result:?}");
    }
    assert_eq!(reached_backend(&node, &envoy), 4, "the count works");
}

#[test]
fn extra_probes_ask_for_host_path_name_and_status() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let probe_of = |port: u16, host: &str, sni: Option<&str>| ExplicitProbe {
        port,
        host: host.into(),
        path: "/x".into(),
        sni: sni.map(str::to_owned),
        expect_status: vec![200],
    };
    let explicit = vec![probe_of(80, HOST_OK, None), probe_of(443, HOST_OK, Some(SNI)), probe_of(80, "nobody.example", None)];
    // Every one is to be answered, also on a machine that is busy with other tests.
    let settings = ProbeSettings { enabled: false, explicit, timeout: SOON, ..fast() };
    let results = probe(&node, &settings, Some(&admin(&node)), &[80, 443]);
    assert_eq!(results.len(), 12);
    for result in results {
        let ProbeOutcome::Answered { status, .. } = result.outcome else { panic!("{result:?}") };
        let expected = if result.explicit.starts_with("nobody") { (404, true) } else { (200, false) };
        assert_eq!((status, result.has_failed()), expected, "{}", result.explicit);
    }
}

#[test]
fn a_certificate_that_never_arrives_is_a_failed_handshake() {
    let node = Node::new().unwrap();
    let tls = Tls::MissingSecret(vec![SNI.into()]);
    let _envoy = Envoy::builder(&node).listeners(vec![Listener { tls, ..Listener::gateway() }]).start_unserved().unwrap();
    let served = eventually(SOON, || {
        let admin = admin(&node);
        ensure!(admin.listeners.iter().any(|listener| listener.active), "{admin:?}");
        Ok(admin)
    });
    let served = served.unwrap();
    for result in probe(&node, &fast(), Some(&served), &[80, 443]) {
        let fine = match result.endpoint.port {
            80 => matches!(result.outcome, ProbeOutcome::Answered { .. }),
            _ => matches!(result.outcome, ProbeOutcome::TlsFailed(_)),
        };
        assert!(fine, "{result:?}");
    }
    let rose = admin(&node).listeners[0].secrets_not_ready;
    assert!(rose > served.listeners[0].secrets_not_ready, "Envoy's own counter says why: {rose:?}");
}

/// Every thread: a worker that was on its way still accepts once.
fn wait_stopped(envoy: &Envoy) -> Result<()> {
    let pid = envoy.pid()?;
    eventually(SOON, || {
        for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let stat = std::fs::read_to_string(task?.path().join("stat"))?;
            ensure!(stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')), "{stat}");
        }
        Ok(())
    })
}

#[test]
fn a_stopped_envoy_does_not_accept_and_a_closed_port_refuses() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let word = admin(&node);
    envoy.signal(Signal::STOP).unwrap();
    wait_stopped(&envoy).unwrap();
    let stopped = probe(&node, &fast(), Some(&word), &[80, 443]);
    envoy.signal(Signal::CONT).unwrap();
    for result in stopped {
        assert_eq!(result.outcome, ProbeOutcome::Timeout, "{result:?}");
        assert!(matches!(result.acceptor, Acceptor::Local { inode: 0, listener: Some(_), .. }), "{result:?}");
    }
    envoy.post("/drain_listeners").unwrap();
    eventually(SOON, || {
        ensure!(listening_inodes(&node, 80).is_empty(), "still listening");
        Ok(())
    })
    .unwrap();
    for result in probe(&node, &fast(), Some(&word), &[80, 443]) {
        assert_eq!(result.outcome, ProbeOutcome::Refused, "{result:?}");
    }
}

#[test]
fn a_thief_on_one_address_is_told_by_the_listener_that_took_the_probe() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::builder(&node).start().unwrap();
    let envoys = listening_inodes(&node, 80);
    let address = node.addresses()[0];
    let _thief = Thief::at(&node, address, 80).reuseport().start().unwrap();
    for result in probe(&node, &fast(), Some(&admin(&node)), &[80]) {
        let Acceptor::Local { listener: Some(listener), inode: 1.., .. } = result.acceptor else { panic!("{result:?}") };
        assert_eq!(envoys.contains(&listener), result.endpoint.address != address, "{result:?}");
    }
}

#[test]
fn a_connection_that_is_sent_elsewhere_is_no_word_about_the_wire() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let _other = Thief::at(&node, IpAddr::V4(Ipv4Addr::LOCALHOST), 8088).start().unwrap();
    let rules = "table ip t { chain o { type nat hook output priority -100; tcp dport 80 dnat to 127.0.0.1:8088; }; }";
    let output = node.command("nft").arg(rules).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for result in probe(&node, &fast(), Some(&admin(&node)), &[80]) {
        let elsewhere = result.acceptor == Acceptor::Elsewhere;
        assert_eq!(elsewhere, result.endpoint.address.is_ipv4(), "{result:?}");
    }
}

/// A prober that runs in the node until it is dropped.
struct Running {
    handle: ProbeHandle,
    wakes: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(node: &Node, settings: ProbeSettings, envoy: LatestAdmin) -> Self {
        let wakes = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = std::sync::mpsc::channel();
        let (node, counted) = (node.clone(), Arc::clone(&wakes));
        let thread = std::thread::spawn(move || {
            let ran = node.enter(|| {
                let (prober, handle) = Prober::new(settings, envoy, move || {
                    counted.fetch_add(1, Ordering::SeqCst);
                });
                sender.send(handle)?;
                drop(sender);
                runtime().block_on(prober.run());
                Ok(())
            });
            ran.unwrap();
        });
        Self { handle: receiver.recv().unwrap(), wakes, thread: Some(thread) }
    }

    fn wait(&self, wanted: impl Fn(&ProbeTable) -> bool) -> Result<ProbeTable> {
        eventually(SOON, || {
            let reading = self.handle.table();
            let table = reading.value().context("no table")?;
            ensure!(wanted(table), "{table:?}");
            Ok(table.clone())
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The last handle is gone with this one: the prober ends.
        let (_, unused) = Prober::new(ProbeSettings::default(), LatestAdmin::default(), || ());
        self.handle = unused;
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()), "the prober panicked");
    }
}

fn word(node: &Node) -> LatestAdmin {
    let latest = LatestAdmin::default();
    latest.set(Reading::Observed { value: admin(node), window: Window::default() });
    latest
}

fn passed(result: &ProbeResult) -> bool {
    matches!(result.outcome, ProbeOutcome::Answered { .. } | ProbeOutcome::TlsAnswered { .. })
}

#[test]
fn the_first_round_asks_each_front_once_and_the_rotation_reaches_every_address() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let slow = ProbeSettings { interval: Duration::from_secs(3600), ..fast() };
    let first = Running::start(&node, slow, word(&node));
    assert_eq!(*first.handle.table(), Reading::NotRead);
    first.handle.set_endpoints(&endpoints(&node, &[80, 443]));
    let table = first.wait(|table| table.first_round_done).unwrap();
    let mut fronts: Vec<_> = table.results.iter().map(|result| result.endpoint.front()).collect();
    fronts.sort();
    fronts.dedup();
    assert_eq!((table.results.len(), fronts.len()), (4, 4), "one of each front: {table:?}");
    drop(first);
    let rotating = Running::start(&node, fast(), word(&node));
    rotating.handle.set_endpoints(&endpoints(&node, &[80, 443]));
    rotating.wait(|table| table.results.len() == 8 && table.results.iter().all(passed)).unwrap();
}

#[test]
fn never_more_than_the_configured_rate() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let count = || -> u64 {
        let stats = envoy.get("/stats?filter=downstream_cx_total&usedonly").unwrap();
        stats
            .lines()
            .filter(|line| line.starts_with("http.listener-insecure."))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    };
    let before = count();
    let begin = Instant::now();
    let running = Running::start(&node, ProbeSettings { interval: Duration::from_millis(200), ..fast() }, word(&node));
    running.handle.set_endpoints(&endpoints(&node, &[80]));
    eventually(SOON, || {
        ensure!(count() - before >= 12, "{} probes", count() - before);
        Ok(())
    })
    .unwrap();
    let probes = count() - before;
    // Two fronts; besides the first of each, one per front and interval.
    let intervals = begin.elapsed().as_millis() / 200 + 1;
    assert!(u128::from(probes) <= 2 + 2 * intervals, "{probes} probes in {intervals} intervals");
}

#[test]
fn an_envoy_that_goes_and_comes_is_counted_told_and_forgiven() {
    let node = Node::builder().addresses(1).without_ipv6().build().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let running = Running::start(&node, fast(), word(&node));
    running.handle.set_endpoints(&endpoints(&node, &[80]));
    running.wait(|table| table.results.iter().all(passed) && table.first_round_done).unwrap();
    let quiet = running.wakes.load(Ordering::SeqCst);
    envoy.kill().unwrap();
    let down = running.wait(|table| table.results.iter().all(|result| result.failures >= 5)).unwrap();
    assert_eq!((down.results[0].outcome.clone(), down.results[0].never_passed), (ProbeOutcome::Refused, false));
    let told = running.wakes.load(Ordering::SeqCst) - quiet;
    assert_eq!(told, 2, "once when it failed, once when the third failure counted");
    envoy.start_again().unwrap();
    let up = running.wait(|table| table.results.iter().all(|result| passed(result) && result.failures == 0));
    up.map_err(|error| anyhow!("{error:#}; log: {}", envoy.log())).unwrap();
    running.handle.set_endpoints(&[]);
    running.wait(|table| table.results.is_empty()).unwrap();
}
