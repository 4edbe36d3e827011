//! Who gets a SYN: the reader's prediction against real connections, for every layout in which listeners compete.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use gwready::observe::addresses::AddressReader;
use gwready::observe::sockets::{MADE_UP_V4, SocketReader, TupleLookup};
use gwready_core::facts::Reading;
use gwready_core::facts::probes::Acceptor;
use gwready_core::facts::sockets::{Lookup, SocketTable};
use gwready_core::net::Family;
use gwready_core::plan::{JudgedAddress, ReadPlan};
use gwready_tests::node::{NEIGHBOUR_V4, NEIGHBOUR_V6, UPLINK, node_v4, node_v6, run_batch};
use gwready_tests::{Node, eventually};
use rustix::net::sockopt::socket_cookie;
use socket2::{Domain, Protocol, Socket, Type};

const SOON: Duration = Duration::from_secs(5);
const PORT: u16 = 80;

/// A listener of the test itself: it knows who it is by its cookie.
struct Ear {
    name: &'static str,
    cookie: u64,
    listener: TcpListener,
}

#[derive(Default)]
struct Options {
    v6only: bool,
    device: bool,
    alone: bool,
}

fn ear_with(node: &Node, name: &'static str, address: &str, options: &Options) -> Ear {
    let address = SocketAddr::new(address.parse().unwrap(), PORT);
    node.enter(|| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(!options.alone)?;
        if address.is_ipv6() {
            socket.set_only_v6(options.v6only)?;
        }
        if options.device {
            socket.bind_device(Some(UPLINK.as_bytes()))?;
        }
        socket.bind(&address.into()).with_context(|| format!("{name} on {address}"))?;
        socket.listen(128)?;
        socket.set_nonblocking(true)?;
        Ok(Ear { name, cookie: socket_cookie(&socket)?, listener: socket.into() })
    })
    .unwrap()
}

fn ear(node: &Node, name: &'static str, address: &str) -> Ear {
    ear_with(node, name, address, &Options::default())
}

fn uplink(node: &Node) -> u32 {
    let table = node.enter(|| Ok(AddressReader::new().read())).unwrap();
    table.value().unwrap().links.iter().find(|link| link.name == UPLINK).unwrap().ifindex
}

/// The name of the ear that gets a real connection from the neighbour's `source_port`, or none for a refusal.
fn connect(node: &Node, ears: &[&Ear], address: IpAddr, source_port: u16) -> Option<&'static str> {
    let from: IpAddr = if address.is_ipv4() { NEIGHBOUR_V4.into() } else { NEIGHBOUR_V6.into() };
    let from = SocketAddr::new(from, source_port);
    let connected = node.outside().enter(|| {
        let socket = Socket::new(Domain::for_address(from), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
        match socket.connect_timeout(&SocketAddr::new(address, PORT).into(), SOON) {
            Ok(()) => Ok(Some(TcpStream::from(socket))),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(None),
            Err(error) => Err(error.into()),
        }
    });
    let _stream = connected.unwrap()?;
    let name = eventually(SOON, || {
        for ear in ears {
            if let Ok((_, peer)) = ear.listener.accept() {
                anyhow::ensure!(peer.ip().to_canonical() == from.ip() && peer.port() == source_port, "a stranger: {peer}");
                return Ok(ear.name);
            }
        }
        bail!("nobody accepted")
    });
    Some(name.unwrap())
}

/// Names that the lookup predicts for these real clients; each is compared with who really accepted.
fn served(node: &Node, ears: &[&Ear], address: IpAddr, clients: u16) -> Vec<Option<&'static str>> {
    let ingress = uplink(node);
    let mut reader = SocketReader::new();
    let mut names = Vec::new();
    for _ in 0..clients {
        // Never the same tuple twice: the rest of an old connection would answer in place of the listener.
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let source_port = 20_000 + NEXT.fetch_add(37, Ordering::Relaxed) % 12_000;
        let from: IpAddr = if address.is_ipv4() { NEIGHBOUR_V4.into() } else { NEIGHBOUR_V6.into() };
        let (local, remote) = (SocketAddr::new(address, PORT), SocketAddr::new(from, source_port));
        let predicted = node.enter(|| Ok(reader.read_listener_for(local, remote, ingress)?)).unwrap();
        let predicted = predicted.map(|listener| name_of(ears, listener.id.cookie));
        assert_eq!(connect(node, ears, address, source_port), predicted, "{remote} to {local}");
        names.push(predicted);
    }
    names
}

fn name_of(ears: &[&Ear], cookie: u64) -> &'static str {
    ears.iter().find(|ear| ear.cookie == cookie).unwrap().name
}

fn plan(node: &Node) -> ReadPlan {
    let ingress_if = uplink(node);
    let addresses = node.addresses().into_iter().map(|ip| JudgedAddress { ip, ingress_if }).collect();
    ReadPlan { addresses, ports: vec![PORT], families: Family::ALL.to_vec() }
}

fn read(node: &Node) -> SocketTable {
    let plan = plan(node);
    match node.enter(|| Ok(SocketReader::new().read(&plan))).unwrap() {
        Reading::Observed { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

/// Who the made-up clients of [`SocketReader::read`] would reach at this address.
fn looked_up(node: &Node, ears: &[&Ear], address: IpAddr) -> Vec<Option<&'static str>> {
    let lookups = read(node).lookups;
    let mine = lookups.iter().filter(|lookup| lookup.endpoint.address == address);
    mine.map(|lookup: &Lookup| lookup.picked.as_ref().map(|picked| name_of(ears, picked.id.cookie))).collect()
}

/// One owner for all: real clients, their predictions and the made-up clients agree.
fn assert_all(node: &Node, ears: &[&Ear], address: IpAddr, name: Option<&'static str>) {
    let served = served(node, ears, address, 8);
    assert!(served.iter().all(|one| *one == name), "{address}: {served:?}, not all {name:?}");
    let looked_up = looked_up(node, ears, address);
    assert!(!looked_up.is_empty() && looked_up.iter().all(|one| *one == name), "{address}: {looked_up:?}, not all {name:?}");
}

fn v4(n: u8) -> IpAddr {
    node_v4(n).into()
}

fn v6(n: u8) -> IpAddr {
    node_v6(n).into()
}

#[test]
fn a_specific_bind_takes_its_address_alone() {
    let node = Node::new().unwrap();
    let envoy = ear(&node, "envoy", "0.0.0.0");
    let thief = ear(&node, "thief", "10.77.0.1");
    assert_all(&node, &[&envoy, &thief], v4(1), Some("thief"));
    assert_all(&node, &[&envoy, &thief], v4(2), Some("envoy"));
}

#[test]
fn a_group_is_shared_by_a_hash_that_the_lookup_knows() {
    let node = Node::new().unwrap();
    let ears = [ear(&node, "envoy", "0.0.0.0"), ear(&node, "envoy", "0.0.0.0"), ear(&node, "thief", "0.0.0.0")];
    let ears: Vec<&Ear> = ears.iter().collect();
    let served = served(&node, &ears, v4(1), 60);
    let thief = served.iter().filter(|name| **name == Some("thief")).count();
    assert!((5..55).contains(&thief), "{thief} of 60 went to one of three members");
    assert!(looked_up(&node, &ears, v4(1)).len() > 1, "a group is asked from several source ports");
}

#[test]
fn members_that_look_alike_cost_few_lookups_and_one_that_differs_costs_many() {
    let node = Node::new().unwrap();
    let _envoy = [ear(&node, "envoy", "0.0.0.0"), ear(&node, "envoy", "0.0.0.0")];
    assert_eq!(read(&node).lookups.iter().filter(|lookup| lookup.endpoint.address.is_ipv4()).count(), 4, "over both addresses");
    let marked = ear(&node, "marked", "0.0.0.0");
    node.enter(|| Ok(socket2::SockRef::from(&marked.listener).set_mark(0xb00)?)).unwrap();
    assert_eq!(read(&node).lookups.iter().filter(|lookup| lookup.endpoint.address == v4(1)).count(), 64);
    assert_eq!(read(&node).lookups.iter().filter(|lookup| lookup.endpoint.address == v6(1)).count(), 1, "nobody there");
}

#[test]
fn a_device_bound_socket_takes_every_address_of_the_device_but_not_from_loopback() {
    let node = Node::new().unwrap();
    let envoy = ear(&node, "envoy", "0.0.0.0");
    let specific = ear(&node, "specific", "10.77.0.1");
    let thief = ear_with(&node, "thief", "0.0.0.0", &Options { device: true, ..Options::default() });
    let ears = [&envoy, &specific, &thief];
    assert_all(&node, &ears, v4(2), Some("thief"));
    // A specific address and a device score the same or not by kernel version: only the kernel's own answer counts.
    served(&node, &ears, v4(1), 8);
    let (local, remote) = (SocketAddr::new(v4(2), PORT), SocketAddr::new(MADE_UP_V4, 40_000));
    let on_loopback = node.enter(|| Ok(SocketReader::new().read_listener_for(local, remote, 1)?)).unwrap();
    assert_eq!(on_loopback.map(|listener| name_of(&ears, listener.id.cookie)), Some("envoy"));
}

#[test]
fn a_dual_stack_thief_beside_split_sockets_gets_all_of_ipv6_or_nothing() {
    let v6only = Options { v6only: true, ..Options::default() };
    for thief_first in [false, true] {
        let node = Node::new().unwrap();
        let first = thief_first.then(|| ear(&node, "thief", "::"));
        let envoy4 = ear(&node, "envoy", "0.0.0.0");
        let envoy6 = ear_with(&node, "envoy", "::", &v6only);
        let thief = first.unwrap_or_else(|| ear(&node, "thief", "::"));
        let ears = [&envoy4, &envoy6, &thief];
        assert_all(&node, &ears, v4(1), Some("envoy"));
        let winner = served(&node, &ears, v6(1), 1)[0];
        assert!(winner.is_some());
        assert_all(&node, &ears, v6(1), winner);
    }
}

#[test]
fn a_dual_stack_envoy_loses_all_of_ipv4_to_an_ipv4_socket() {
    let node = Node::new().unwrap();
    let envoy = ear(&node, "envoy", "::");
    assert_all(&node, &[&envoy], v4(1), Some("envoy"));
    let thief = ear(&node, "thief", "0.0.0.0");
    assert_all(&node, &[&envoy, &thief], v4(1), Some("thief"));
    assert_all(&node, &[&envoy, &thief], v6(1), Some("envoy"));
}

#[test]
fn a_mapped_bind_takes_that_ipv4_address() {
    let node = Node::new().unwrap();
    let envoy = ear(&node, "envoy", "0.0.0.0");
    let thief = ear(&node, "thief", "::ffff:10.77.0.1");
    assert_all(&node, &[&envoy, &thief], v4(1), Some("thief"));
    assert_all(&node, &[&envoy, &thief], v4(2), Some("envoy"));
    let row = read(&node).listeners.into_iter().find(|row| row.id.cookie == thief.cookie).unwrap();
    assert_eq!((row.family, row.address), (Family::Ipv6, "::ffff:10.77.0.1".parse().unwrap()));
}

#[test]
fn loopback_alone_and_nothing_at_all_are_refusals() {
    let node = Node::new().unwrap();
    assert_all(&node, &[], v4(1), None);
    let local = ear_with(&node, "envoy", "127.0.0.1", &Options { alone: true, ..Options::default() });
    assert_all(&node, &[&local], v4(1), None);
    assert_all(&node, &[&local], v6(1), None);
    assert_eq!(read(&node).listeners.len(), 1, "the row explains what the lookup decided");
}

#[test]
fn a_node_without_ipv6_is_read_all_the_same() {
    let node = Node::builder().without_ipv6().build().unwrap();
    let envoy = ear(&node, "envoy", "0.0.0.0");
    assert_all(&node, &[&envoy], v4(1), Some("envoy"));
    assert_eq!(read(&node).lookups.len(), 2, "two IPv4 addresses, one port");
}

#[test]
fn a_listener_of_another_namespace_is_not_ours() {
    let node = Node::new().unwrap();
    let elsewhere = node.outside().enter(|| Ok(TcpListener::bind(("0.0.0.0", PORT))?)).unwrap();
    let table = read(&node);
    assert_eq!(table.listeners, []);
    assert!(table.lookups.iter().all(|lookup| lookup.picked.is_none()));
    drop(elsewhere);
}

#[test]
fn a_real_connection_of_a_made_up_client_does_not_hide_the_listener() {
    let node = Node::new().unwrap();
    let envoy = ear_with(&node, "envoy", "0.0.0.0", &Options { alone: true, ..Options::default() });
    let before = read(&node).lookups;
    let source_port = before[0].source_port;
    run_batch(node.outside(), &format!("addr add {MADE_UP_V4}/32 dev lo\n")).unwrap();
    let stream = node.outside().enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&SocketAddr::new(MADE_UP_V4, source_port).into())?;
        socket.connect_timeout(&SocketAddr::new(v4(1), PORT).into(), SOON)?;
        Ok(socket)
    });
    let stream = stream.unwrap();
    let after = read(&node).lookups;
    let lookup = after.iter().find(|lookup| lookup.endpoint.address == v4(1)).unwrap();
    assert_ne!(lookup.source_port, source_port, "another source port was taken");
    assert_eq!(lookup.picked.as_ref().map(|picked| picked.id.cookie), Some(envoy.cookie));
    drop(stream);
}

#[test]
fn the_accepted_end_tells_who_accepted_a_connection_of_this_host() {
    let node = Node::new().unwrap();
    let envoy = ear_with(&node, "envoy", "::", &Options { alone: true, ..Options::default() });
    node.enter(|| Ok(socket2::SockRef::from(&envoy.listener).set_mark(0xb00)?)).unwrap();
    let server = SocketAddr::new(v4(1), PORT);
    let stream = node.enter(|| Ok(TcpStream::connect(server)?)).unwrap();
    let (client, cookie) = (stream.local_addr().unwrap(), socket_cookie(&stream).unwrap());
    let mut lookup = TupleLookup::new();
    let mut acceptor = || node.enter(|| Ok(lookup.read_acceptor(client, server, cookie))).unwrap();
    assert_eq!(acceptor(), Acceptor::Local { inode: 0, mark: Some(0xb00), listener: None }, "not accepted yet");
    let (accepted, _) = envoy.listener.accept().unwrap();
    let inode = rustix::fs::fstat(&accepted).unwrap().st_ino;
    assert_eq!(acceptor(), Acceptor::Local { inode, mark: Some(0xb00), listener: None });
    drop(accepted);
    drop(stream);
    drop(envoy);
}

#[test]
fn the_listener_of_a_probe_is_known_before_it_connects_and_its_acceptor_inherits() {
    let node = Node::new().unwrap();
    let ears = [ear(&node, "envoy", "0.0.0.0"), ear(&node, "thief", "0.0.0.0")];
    let ears: Vec<&Ear> = ears.iter().collect();
    let server = SocketAddr::new(v4(1), PORT);
    for _ in 0..8 {
        let socket = node.enter(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
            socket.bind(&SocketAddr::new(v4(1), 0).into())?;
            Ok(socket)
        });
        let socket = socket.unwrap();
        let client = socket.local_addr().unwrap().as_socket().unwrap();
        let listener = node.enter(|| Ok(TupleLookup::new().read_listener(client, server)?)).unwrap().unwrap();
        socket.connect(&server.into()).unwrap();
        let accepted = ears.iter().find(|ear| ear.listener.accept().is_ok_and(|(_, peer)| peer == client)).unwrap();
        assert_eq!(name_of(&ears, listener.id.cookie), accepted.name);
        assert_eq!(node.enter(|| Ok(TupleLookup::new().read_listener(client, server)?)).unwrap(), None, "it is a connection now");
    }
}

#[test]
fn a_connection_that_went_elsewhere_is_translated_or_has_left_the_host() {
    let node = Node::new().unwrap();
    let elsewhere = node.outside().enter(|| Ok(TcpListener::bind(("0.0.0.0", 8080))?)).unwrap();
    let real = SocketAddr::new(NEIGHBOUR_V4.into(), 8080);
    let stream = node.enter(|| Ok(TcpStream::connect(real)?)).unwrap();
    let (client, cookie) = (stream.local_addr().unwrap(), socket_cookie(&stream).unwrap());
    let acceptor = |asked: SocketAddr, cookie: u64| node.enter(|| Ok(TupleLookup::new().read_acceptor(client, asked, cookie))).unwrap();
    assert_eq!(acceptor(real, cookie), Acceptor::Elsewhere);
    // As after a socket load balancer's translation: the owner believes to talk to the node's port 80, and so would a listener.
    let _envoy = ear(&node, "envoy", "0.0.0.0");
    let believed = SocketAddr::new(v4(1), PORT);
    assert_eq!(acceptor(believed, cookie), Acceptor::Translated { to: Some((real.ip(), real.port())), inode: None, mark: None });
    assert_eq!(acceptor(believed, cookie + 1), Acceptor::Unknown, "another socket's cookie");
    // Translated to a socket of this very host: its accepted end is found there.
    let backend = node.enter(|| Ok(TcpListener::bind(("10.77.0.2", 8081))?)).unwrap();
    let stream = node.enter(|| Ok(TcpStream::connect(("10.77.0.2", 8081))?)).unwrap();
    let (client, cookie) = (stream.local_addr().unwrap(), socket_cookie(&stream).unwrap());
    let (accepted, _) = backend.accept().unwrap();
    let inode = rustix::fs::fstat(&accepted).unwrap().st_ino;
    let acceptor = node.enter(|| Ok(TupleLookup::new().read_acceptor(client, believed, cookie))).unwrap();
    let to = Some((v4(2), 8081));
    assert_eq!(acceptor, Acceptor::Translated { to, inode: Some(inode), mark: Some(0) });
    drop(elsewhere);
}
