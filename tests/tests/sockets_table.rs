//! The LISTEN rows: against the kernel's own text and `ss`, without privileges, and while the table changes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gwready::observe::sockets::SocketReader;
use gwready_core::facts::sockets::Listener;
use gwready_core::facts::{Reading, Why};
use gwready_core::net::Family;
use gwready_core::plan::{JudgedAddress, ReadPlan};
use gwready_tests::node::{UPLINK, node_v4};
use gwready_tests::{Envoy, Node, Space, eventually};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
use socket2::{Domain, Protocol, Socket, Type};

fn listen(address: SocketAddr, change: impl FnOnce(&Socket) -> std::io::Result<()>) -> Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_port(true)?;
    change(&socket)?;
    socket.bind(&address.into()).with_context(|| address.to_string())?;
    socket.listen(i32::from(address.port() % 1000))?;
    Ok(socket)
}

/// About three thousand listeners of every kind, on every third port from 10,000; other ports stay for the filter to refuse.
fn crowd(space: &Space) -> Vec<Socket> {
    setrlimit(Resource::Nofile, Rlimit { current: Some(20_000), maximum: Some(20_000) }).unwrap();
    space
        .enter(|| {
            let mut sockets = Vec::new();
            for port in (10_000..12_000).step_by(3) {
                let at = |ip: IpAddr| SocketAddr::new(ip, port);
                sockets.push(listen(at(Ipv4Addr::UNSPECIFIED.into()), |_| Ok(()))?);
                sockets.push(listen(at(node_v4(1).into()), |socket| socket.set_mark(u32::from(port)))?);
                sockets.push(listen(at(Ipv6Addr::UNSPECIFIED.into()), |socket| socket.set_only_v6(true))?);
                sockets.push(listen(at(Ipv6Addr::LOCALHOST.into()), |socket| socket.bind_device(Some(b"lo")))?);
                sockets.push(listen(at("::ffff:10.77.0.2".parse()?), |socket| socket.set_ip_transparent_v4(true))?);
                sockets.push(listen(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port + 1), |_| Ok(()))?);
            }
            Ok(sockets)
        })
        .unwrap()
}

fn ports() -> Vec<u16> {
    (10_000..12_000).step_by(3).collect()
}

/// What `/proc/net/tcp` says of a listener: address, port, uid, inode, accept queue.
type Text = (IpAddr, u16, u32, u64, u32);

/// `/proc/net/tcp{,6}` of the calling thread's namespace, LISTEN rows of `ports`.
fn read_text(ports: &BTreeSet<u16>) -> Result<BTreeSet<Text>> {
    let mut rows = BTreeSet::new();
    for file in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}"))?;
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (address, port) = fields[1].split_once(':').context("address")?;
            let port = u16::from_str_radix(port, 16)?;
            if fields[3] != "0A" || !ports.contains(&port) {
                continue;
            }
            // Each group of eight digits is a 32-bit word of network-order bytes, printed as a native number.
            let words: Vec<u8> =
                (0..address.len()).step_by(8).flat_map(|at| u32::from_str_radix(&address[at..at + 8], 16).unwrap().to_ne_bytes()).collect();
            let ip = match <[u8; 4]>::try_from(words.as_slice()) {
                Ok(v4) => IpAddr::from(v4),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(words.as_slice())?),
            };
            let (_, receive) = fields[4].split_once(':').context("queues")?;
            rows.insert((ip, port, fields[7].parse()?, fields[9].parse()?, u32::from_str_radix(receive, 16)?));
        }
    }
    Ok(rows)
}

fn as_text(row: &Listener) -> Text {
    (row.address, row.port, row.uid, row.id.inode, row.queue_length)
}

#[test]
fn thousands_of_rows_are_the_same_as_in_proc_and_ss() {
    let node = Node::new().unwrap();
    let sockets = crowd(node.space());
    // Queues are not all empty.
    let _waiting: Vec<_> = (0..5).map(|_| node.enter(|| Ok(std::net::TcpStream::connect("127.0.0.1:10051")?)).unwrap()).collect();
    let rows = node.enter(|| Ok(SocketReader::new().read_listeners(&ports())?)).unwrap();
    assert_eq!(rows.len(), sockets.len() / 6 * 5, "five on each listed port, those on other ports left out");
    let wanted = ports().into_iter().collect();
    assert_eq!(rows.iter().map(as_text).collect::<BTreeSet<_>>(), node.enter(|| read_text(&wanted)).unwrap());
    assert_eq!(rows.iter().filter(|row| row.queue_length == 5).count(), 1);

    let ss = node.space().output("ss", &["-tlnHe"]).unwrap();
    let by_ss: BTreeSet<String> = ss.lines().filter_map(ss_row).filter(|(port, _)| wanted.contains(port)).map(|(_, row)| row).collect();
    assert_eq!(rows.iter().map(as_ss).collect::<BTreeSet<_>>(), by_ss);
    drop(sockets);
}

/// Port, and the fields that both sides have: limit, inode, cookie, mark, v6only.
fn ss_row(line: &str) -> Option<(u16, String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = fields.get(3)?.rsplit_once(':')?.1.parse().ok()?;
    let value = |key: &str| fields.iter().find_map(|field| field.strip_prefix(key)).map(str::to_owned);
    let device = fields.get(3)?.contains("%lo");
    let mark = value("fwmark:").unwrap_or_else(|| "0x0".to_owned());
    let row = format!("{} {:?} {:?} {mark} {:?} {device}", fields.get(2)?, value("ino:"), value("sk:"), value("v6only:"));
    Some((port, row))
}

fn as_ss(row: &Listener) -> String {
    let only = row.v6only.map(|only| if only { "1" } else { "0" }.to_owned());
    let mark = format!("{:#x}", row.mark.unwrap());
    let (inode, cookie) = (Some(row.id.inode.to_string()), Some(format!("{:x}", row.id.cookie)));
    format!("{} {inode:?} {cookie:?} {mark} {only:?} {}", row.queue_limit, row.bound_if == 1)
}

fn plan() -> ReadPlan {
    let addresses = vec![JudgedAddress { ip: node_v4(1).into(), ingress_if: 1 }];
    ReadPlan { addresses, ports: vec![80, 443], families: Family::ALL.to_vec() }
}

#[test]
fn without_privileges_marks_are_absent_and_all_else_is_there() {
    let node = Node::new().unwrap();
    let _envoy = Envoy::start(&node).unwrap();
    let read = |reader: &mut SocketReader| match reader.read(&plan()) {
        Reading::Observed { value, .. } => value,
        other => panic!("{other:?}"),
    };
    let privileged = node.enter(|| Ok(read(&mut SocketReader::new()))).unwrap();
    let nobody = node
        .enter(|| {
            // This thread alone becomes nobody, without capabilities.
            set_thread_res_gid(Gid::from_raw(65_534), Gid::from_raw(65_534), Gid::from_raw(65_534))?;
            set_thread_res_uid(Uid::from_raw(65_534), Uid::from_raw(65_534), Uid::from_raw(65_534))?;
            Ok(read(&mut SocketReader::new()))
        })
        .unwrap();
    assert_eq!(privileged.listeners.len(), 8, "two workers, two families, two ports");
    for row in &privileged.listeners {
        assert_eq!((row.mark, row.transparent), (Some(0xb00), Some(true)), "{row:?}");
        assert!(row.cgroup_id.is_some() && row.drops.is_some(), "{row:?}");
    }
    let unmarked: Vec<_> = privileged.listeners.iter().map(|row| Listener { mark: None, ..row.clone() }).collect();
    assert_eq!(nobody.listeners, unmarked);
    assert_eq!(nobody.lookups.len(), privileged.lookups.len());
    for (mine, theirs) in nobody.lookups.iter().zip(&privileged.lookups) {
        let unmarked = theirs.picked.clone().map(|picked| Listener { mark: None, ..picked });
        assert_eq!(mine.picked, unmarked);
    }
}

#[test]
fn drops_are_counted_by_the_socket_that_overflows() {
    let node = Node::new().unwrap();
    let full = node.enter(|| listen("0.0.0.0:443".parse()?, |_| Ok(()))).unwrap();
    full.listen(1).unwrap();
    let drops = |node: &Node| {
        let rows = node.enter(|| Ok(SocketReader::new().read_listeners(&[443])?)).unwrap();
        (rows[0].queue_length, rows[0].queue_limit, rows[0].drops.unwrap())
    };
    assert_eq!(drops(&node), (0, 1, 0));
    let try_one = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        // The third is never accepted: its SYN is dropped.
        let _ = socket.connect_timeout(&SocketAddr::new(node_v4(1).into(), 443).into(), Duration::from_millis(300));
        Ok(socket)
    };
    let _clients: Vec<_> = (0..4).map(|_| node.outside().enter(try_one).unwrap()).collect();
    let (length, limit, dropped) = drops(&node);
    assert!(length > limit && dropped > 0, "length {length} limit {limit} drops {dropped}");
}

/// Opens and closes listeners on port 80 of every address until `work` is done.
fn with_churn<T>(node: &Node, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let churn = || {
                    while !stop.load(Ordering::Relaxed) {
                        drop(listen("0.0.0.0:80".parse()?, |_| Ok(()))?);
                    }
                    Ok(())
                };
                node.enter(churn).unwrap();
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// All members of one group, in one bucket of the kernel's table, newest first: more rows than one datagram holds, and every
/// change moves the place at which the kernel resumes.
#[test]
fn rows_under_churn_are_complete_or_an_error() {
    let node = Node::new().unwrap();
    let permanent = node.enter(|| (0..400).map(|_| listen("0.0.0.0:80".parse()?, |_| Ok(()))).collect::<Result<Vec<_>>>()).unwrap();
    let cookies: BTreeSet<u64> = permanent.iter().map(|socket| rustix::net::sockopt::socket_cookie(socket).unwrap()).collect();
    let begin = Instant::now();
    let mut reader = SocketReader::new();
    let mut answers = (0, 0);
    let read = || {
        node.enter(|| {
            while begin.elapsed() < Duration::from_secs(2) {
                match reader.read_listeners(&[80]) {
                    Ok(rows) => {
                        answers.0 += 1;
                        let seen: BTreeSet<u64> = rows.iter().map(|row| row.id.cookie).collect();
                        assert_eq!(seen.len(), rows.len(), "no row twice");
                        assert!(cookies.is_subset(&seen), "{} permanent rows are missing", cookies.difference(&seen).count());
                    }
                    Err(error) => {
                        answers.1 += 1;
                        assert_eq!(error.why(), Why::Interrupted, "{error}");
                    }
                }
            }
            Ok(())
        })
    };
    with_churn(&node, read).unwrap();
    println!("{} complete reads and {} errors under churn", answers.0, answers.1);
    // A table that never rests may well be unreadable; once it rests, it is read. (Children that other tests fork hold a
    // copy of a descriptor until they execute their program.)
    eventually(Duration::from_secs(5), || {
        let rows = node.enter(|| Ok(SocketReader::new().read_listeners(&[80])?))?;
        anyhow::ensure!(rows.len() == cookies.len(), "{} rows", rows.len());
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_picked_socket_is_among_the_rows_also_under_churn() {
    let node = Node::new().unwrap();
    let mut reader = SocketReader::new();
    let (mut observed, mut picked_some) = (0, 0);
    let read = || {
        node.enter(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(2) {
                let reading = reader.read(&plan());
                let Some(table) = reading.value() else {
                    assert_eq!(reading.unavailable().map(|unavailable| unavailable.why), Some(Why::Interrupted));
                    continue;
                };
                observed += 1;
                for picked in table.lookups.iter().filter_map(|lookup| lookup.picked.as_ref()) {
                    picked_some += 1;
                    // By cookie: one that is being closed has lost its inode by the time of the lookup.
                    assert!(table.listeners.iter().any(|row| row.id.cookie == picked.id.cookie), "{picked:?} is no row");
                }
            }
            Ok(())
        })
    };
    with_churn(&node, read).unwrap();
    assert!(observed > 0 && picked_some > 0, "{observed} reads, {picked_some} picked");
}

#[test]
fn the_uplink_is_the_device_that_a_bound_row_names() {
    let node = Node::new().unwrap();
    let _bound = node.enter(|| listen("0.0.0.0:80".parse()?, |socket| socket.bind_device(Some(UPLINK.as_bytes())))).unwrap();
    let rows = node.enter(|| Ok(SocketReader::new().read_listeners(&[80])?)).unwrap();
    let index = node.space().output("ip", &["-o", "link", "show", "dev", UPLINK]).unwrap();
    assert_eq!(rows[0].bound_if.to_string(), index.split(':').next().unwrap());
}
