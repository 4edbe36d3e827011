//! The box itself, by real connections: what other tests take for granted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use gwready_tests::client::{ask, ask_many};
use gwready_tests::listener::{HOST_OK, HOST_SILENT, SNI};
use gwready_tests::node::{UPLINK, node_v4, node_v6};
use gwready_tests::sweep::processes_in;
use gwready_tests::{Answer, Caps, Crowd, Envoy, Families, Listener, Nginx, Node, Space, Thief, Tls, eventually};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(10);
const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

fn v4(n: u8) -> IpAddr {
    node_v4(n).into()
}

/// Status of one HTTP request by curl from the neighbour, `000` without an answer.
fn curl(node: &Node, args: &[&str]) -> String {
    let output =
        node.outside().command("curl").args(["-sk", "-m", "2", "-o", "/dev/null", "-w", "%{http_code}"]).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn listen_rows(node: &Node) -> Vec<String> {
    let text = node.space().output("ss", &["-tlnHe"]).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn status_field(pid: i32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[test]
fn envoy_serves_every_address_and_port_from_outside() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    assert_eq!(envoy.fronts().len(), 8, "2 ports on 2 + 2 addresses");
    for address in node.addresses() {
        for port in [80, 443] {
            let counts = ask_many(node.outside(), address, port, 3).unwrap();
            assert_eq!(counts.envoy(), 3, "{address}:{port}: {counts}");
        }
    }
}

#[test]
fn listen_sockets_are_as_cilium_makes_them() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let rows = listen_rows(&node);
    let marked: Vec<_> = rows.iter().filter(|row| row.contains("fwmark:0xb00")).collect();
    assert_eq!(marked.len(), 8, "2 workers, 2 families, 2 ports: {rows:#?}");
    let health: Vec<_> = rows.iter().filter(|row| row.contains(":9878")).collect();
    assert!(!health.is_empty());
    assert!(health.iter().all(|row| !row.contains("fwmark")), "{health:?}");
    let exe = fs::read_link(format!("/proc/{}/exe", envoy.pid().unwrap())).unwrap();
    assert_eq!(exe.file_name().unwrap(), "cilium-envoy");
}

#[test]
fn routes_answer_as_their_names_say() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let host = |name: &str| curl(&node, &["-H", &format!("Host: {name}"), "http://10.77.0.1/"]);
    assert_eq!(host(HOST_OK), "200");
    assert_eq!(host("unknown.example"), "404");
    assert_eq!(host(HOST_SILENT), "000");
    let tls = |name: &str| {
        let resolve = format!("{name}:443:10.77.0.2");
        let host = format!("Host: {HOST_OK}");
        curl(&node, &["--resolve", &resolve, "-H", &host, &format!("https://{name}/")])
    };
    assert_eq!(tls(SNI), "200");
    assert_eq!(tls("unknown.example"), "000", "no filter chain for this name");
}

#[test]
fn listeners_come_and_go_by_lds() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    envoy.set_listeners(&[Listener::gateway(), Listener::http(8080)]).unwrap();
    envoy.wait_serving().unwrap();
    envoy.set_listeners(&[]).unwrap();
    eventually(SOON, || {
        for port in [80, 443, 8080] {
            let answer = ask(node.outside(), v4(1), port)?;
            ensure!(answer == Answer::Refused, "{port}: {answer:?}");
        }
        Ok(())
    })
    .unwrap();
    envoy.set_listeners(&[Listener::gateway()]).unwrap();
    envoy.wait_serving().unwrap();
}

#[test]
fn a_missing_secret_fails_the_handshake_and_is_counted() {
    let node = Node::new().unwrap();
    let listener = Listener { tls: Tls::MissingSecret(vec![SNI.into()]), ..Listener::gateway() };
    let envoy = Envoy::builder(&node).listeners(vec![listener]).start().unwrap();
    let resolve = format!("{SNI}:443:10.77.0.1");
    assert_eq!(curl(&node, &["--resolve", &resolve, "https://gw.example/"]), "000");
    let stats = envoy.get("/stats?filter=secrets_not_ready").unwrap();
    let counted = stats.lines().any(|line| line.contains("downstream_context_secrets_not_ready") && !line.ends_with(": 0"));
    assert!(counted, "{stats}");
}

#[test]
fn a_rejected_listener_leaves_envoy_live_and_unbound() {
    let node = Node::new().unwrap();
    let broken = Listener { broken: true, ..Listener::gateway() };
    let envoy = Envoy::builder(&node).listeners(vec![broken]).start_unserved().unwrap();
    eventually(SOON, || {
        let stats = envoy.get("/stats?filter=lds.update_rejected")?;
        ensure!(!stats.trim().ends_with(": 0"), "{stats}");
        Ok(())
    })
    .unwrap();
    assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Refused);
}

#[test]
fn drained_listeners_refuse_while_ready_says_live() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    envoy.post("/drain_listeners").unwrap();
    eventually(SOON, || {
        let answer = ask(node.outside(), v4(1), 80)?;
        ensure!(answer == Answer::Refused, "{answer:?}");
        Ok(())
    })
    .unwrap();
    assert_eq!(envoy.get("/ready").unwrap().trim(), "LIVE");
}

#[test]
fn a_stopped_envoy_accepts_and_does_not_answer() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    envoy.stop().unwrap();
    assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Timeout);
    envoy.resume().unwrap();
    assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Envoy);
}

#[test]
fn a_killed_envoy_serves_again_after_a_restart() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::start(&node).unwrap();
    let before = envoy.pid().unwrap();
    envoy.kill().unwrap();
    assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Refused);
    envoy.start_again().unwrap();
    envoy.wait_serving().unwrap();
    assert_ne!(envoy.pid().unwrap(), before);
}

#[test]
fn capabilities_are_cilium_s_when_asked_for() {
    let node = Node::new().unwrap();
    let envoy = Envoy::builder(&node).caps(Caps::BindOnly).start().unwrap();
    let pid = envoy.pid().unwrap();
    assert_eq!(status_field(pid, "CapPrm"), "0000000000000400");
    assert_eq!(status_field(pid, "NoNewPrivs"), "1");
    assert!(listen_rows(&node).iter().all(|row| !row.contains("fwmark")));
}

#[test]
fn without_the_capability_port_80_stays_unbound() {
    let node = Node::new().unwrap();
    let envoy = Envoy::builder(&node).caps(Caps::None).start_unserved().unwrap();
    eventually(SOON, || {
        ensure!(envoy.log().contains("Permission denied"), "{}", envoy.log());
        Ok(())
    })
    .unwrap();
    assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Refused);
}

#[test]
fn the_starter_ignores_term_and_ends_with_its_child() {
    let node = Node::new().unwrap();
    let mut envoy = Envoy::builder(&node).caps(Caps::BindOnly).starter().start().unwrap();
    let (starter, pid) = (envoy.starter_pid().unwrap(), envoy.pid().unwrap());
    assert_eq!(status_field(starter, "Name"), "cilium-envoy-st");
    assert_eq!(status_field(pid, "PPid"), starter.to_string());
    assert_eq!(status_field(pid, "CapPrm"), "0000000000000400");
    assert_eq!(status_field(pid, "NSpid"), pid.to_string());
    let init = fs::read_to_string(format!("/proc/{starter}/status")).unwrap();
    assert!(init.contains(&format!("NSpid:\t{starter}\t1\n")), "{init}");
    envoy.process().signal(Signal::TERM).unwrap();
    assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Envoy);
    envoy.signal(Signal::KILL).unwrap();
    envoy.process().wait_exit(SOON).unwrap();
}

#[test]
fn a_reuseport_thief_gets_a_share() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let _thief = Thief::at(&node, ANY_V4, 80).reuseport().start().unwrap();
    let counts = ask_many(node.outside(), v4(1), 80, 200).unwrap();
    assert_eq!(counts.total(), counts.envoy() + counts.thief(), "{counts}");
    // One member of three: 67 of 200 expected, 20 is seven standard deviations away.
    assert!(counts.thief() > 20 && counts.envoy() > 20, "{counts}");
}

#[test]
fn a_device_bound_thief_takes_every_address_of_its_device() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let _thief = Thief::at(&node, ANY_V4, 80).reuseport().device(UPLINK).start().unwrap();
    for address in [v4(1), v4(2)] {
        let counts = ask_many(node.outside(), address, 80, 20).unwrap();
        assert_eq!(counts.thief(), 20, "{address}: {counts}");
    }
    assert_eq!(ask(node.outside(), node_v6(1).into(), 80).unwrap(), Answer::Envoy);
}

#[test]
fn a_thief_on_one_address_takes_that_address_only() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let mapped = Ipv4Addr::to_ipv6_mapped(&node_v4(2)).into();
    let _thief = Thief::at(&node, v4(1), 80).reuseport().name("a").start().unwrap();
    let _mapped = Thief::at(&node, mapped, 80).reuseport().name("b").start().unwrap();
    let outside = node.outside();
    assert_eq!(ask(outside, v4(1), 80).unwrap(), Answer::Thief("a".into()));
    assert_eq!(ask(outside, v4(2), 80).unwrap(), Answer::Thief("b".into()));
    assert_eq!(ask(outside, node_v6(1).into(), 80).unwrap(), Answer::Envoy);
}

#[test]
fn a_thief_without_reuseport_is_refused_the_port() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let error = Thief::at(&node, ANY_V4, 80).start().unwrap_err();
    assert!(format!("{error:#}").contains("Address already in use"), "{error:#}");
}

#[test]
fn a_port_taken_first_keeps_all_of_the_listener_unbound() {
    let node = Node::new().unwrap();
    let _thief = Thief::at(&node, ANY_V4, 443).start().unwrap();
    let _envoy = Envoy::builder(&node).start_unserved().unwrap();
    assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Refused);
    assert_eq!(ask(node.outside(), v4(1), 443).unwrap(), Answer::Thief("thief".into()));
}

#[test]
fn nginx_shares_and_replaces() {
    let node = Node::new().unwrap();
    let envoy = Envoy::start(&node).unwrap();
    let nginx = Nginx::start(&node, &["80 reuseport"]).unwrap();
    let counts = ask_many(node.outside(), v4(1), 80, 100).unwrap();
    assert!(counts.of(&Answer::Nginx) > 0 && counts.envoy() > 0, "{counts}");
    drop(nginx);
    let nginx = Nginx::start(&node, &["10.77.0.1:80 reuseport"]).unwrap();
    let counts = ask_many(node.outside(), v4(1), 80, 10).unwrap();
    assert_eq!(counts.of(&Answer::Nginx), 10, "{counts}");
    drop((nginx, envoy));
    let _nginx = Nginx::start(&node, &["80", "[::]:80"]).unwrap();
    assert_eq!(ask(node.outside(), node_v6(2).into(), 80).unwrap(), Answer::Nginx);
}

#[test]
fn a_renamed_thief_looks_like_envoy() {
    let node = Node::new().unwrap();
    let thief = Thief::at(&node, ANY_V6, 80).v6only(true).exe_name("cilium-envoy").start().unwrap();
    let exe = fs::read_link(format!("/proc/{}/exe", thief.pid())).unwrap();
    assert_eq!(exe.file_name().unwrap(), "cilium-envoy");
    let thief = Thief::at(&node, ANY_V4, 81).comm("cilium-envoy").start().unwrap();
    assert_eq!(status_field(thief.pid(), "Name"), "cilium-envoy");
}

#[test]
fn a_node_without_ipv6_serves_ipv4_alone() {
    let node = Node::builder().without_ipv6().addresses(1).build().unwrap();
    assert_eq!(node.addresses(), [v4(1)]);
    let mut envoy = Envoy::start(&node).unwrap();
    assert!(!node.space().output("ip", &["addr"]).unwrap().contains("inet6"));
    let v4_only = Listener { families: Families::V4, reuse_port: false, ..Listener::gateway() };
    envoy.set_listeners(&[v4_only]).unwrap();
    envoy.wait_serving().unwrap();
}

#[test]
fn further_links_and_private_mounts_are_there() {
    let node =
        Node::builder().bridge("docker0", &["172.17.0.1/16"]).link("cilium_host", &["10.42.0.5/32", "fd00:42::5/128"]).build().unwrap();
    let links = node.space().output("ip", &["-br", "addr"]).unwrap();
    for text in ["docker0", "172.17.0.1/16", "cilium_host", "fd00:42::5/128"] {
        assert!(links.contains(text), "{text} in\n{links}");
    }
    let (bpffs, events) = (node.bpffs(), node.tracefs().join("events/sock"));
    node.enter(|| {
        fs::create_dir_all(bpffs.join("tc/globals"))?;
        ensure!(events.is_dir(), "no tracefs");
        Ok(())
    })
    .unwrap();
    assert!(!bpffs.join("tc").exists(), "bpffs is visible on the host");
}

#[test]
fn crowds_are_as_large_as_told() {
    let space = Space::new("crowd").unwrap();
    let crowd = Crowd::processes(&space, 20, 50).unwrap();
    let open = |pid| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(crowd.pids().into_iter().all(|pid| open(pid) >= 50));
    assert_eq!(crowd.pids().len(), 20);
    let elsewhere = Crowd::listeners_elsewhere(1_000).unwrap();
    let pid = elsewhere.pids()[0];
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    assert_eq!(table.lines().count(), 1 + 1_000);
}

#[test]
fn two_nodes_do_not_see_each_other() {
    let (one, two) = (Node::new().unwrap(), Node::new().unwrap());
    let _envoys = (Envoy::start(&one).unwrap(), Envoy::start(&two).unwrap());
    let _thief = Thief::at(&one, v4(1), 80).reuseport().start().unwrap();
    assert_eq!(ask(one.outside(), v4(1), 80).unwrap(), Answer::Thief("thief".into()));
    assert_eq!(ask(two.outside(), v4(1), 80).unwrap(), Answer::Envoy);
}

#[test]
fn envoy_outlives_the_thread_that_started_it() {
    let node = Node::new().unwrap();
    let envoy = std::thread::scope(|scope| scope.spawn(|| Envoy::start(&node)).join().unwrap()).unwrap();
    for _ in 0..20 {
        assert_eq!(ask(node.outside(), v4(1), 80).unwrap(), Answer::Envoy, "{}", envoy.log());
    }
}

#[test]
fn a_child_dies_with_its_space_even_if_nobody_ends_it() {
    let space = Space::new("short").unwrap();
    let mut sleep = std::process::Command::new("sleep");
    sleep.arg("1000");
    let mut child = space.spawn(sleep).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    drop(space);
    let status = eventually(SOON, || child.try_wait()?.ok_or_else(|| anyhow!("still runs"))).unwrap();
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
}

/// Threads and open descriptors that hold this namespace, of any process.
fn holders(net_inode: u64) -> Vec<String> {
    let link = format!("net:[{net_inode}]");
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let mut look = |folder: &str, suffix: &str| {
            let entries = fs::read_dir(process.path().join(folder));
            for entry in entries.into_iter().flatten().flatten() {
                let path = entry.path().join(suffix);
                let path = if suffix.is_empty() { entry.path() } else { path };
                if fs::read_link(&path).is_ok_and(|to| to.to_string_lossy() == link) {
                    found.push(path.display().to_string());
                }
            }
        };
        look("task", "ns/net");
        look("fd", "");
    }
    found
}

#[test]
fn nothing_is_left_after_a_panic() {
    let (tell, told) = std::sync::mpsc::channel();
    let broken = std::thread::spawn(move || -> Result<()> {
        let node = Node::new()?;
        let envoy = Envoy::builder(&node).starter().start()?;
        let _nginx = Nginx::start(&node, &["80 reuseport"])?;
        // A child that nobody keeps an eye on.
        let _stray = node.command("sleep").arg("1000").spawn()?;
        let inodes = [node.space().net_inode()?, node.outside().net_inode()?];
        assert!(processes_in(inodes[0]).len() >= 5);
        assert!(!holders(inodes[1]).is_empty());
        tell.send((node.dir().to_owned(), envoy.pid()?, inodes))?;
        panic!("as planned");
    });
    assert!(broken.join().is_err());
    let (dir, envoy, inodes) = told.recv().unwrap();
    assert!(!fs::exists(format!("/proc/{envoy}")).unwrap());
    assert!(!dir.exists());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("gwready-box-"), "{mounts}");
    for inode in inodes {
        assert_eq!(processes_in(inode), Vec::<i32>::new());
        assert_eq!(holders(inode), Vec::<String>::new());
    }
}
