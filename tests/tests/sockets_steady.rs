//! A read that nothing asked for: the rows of the last dump stand while the lookups answer the same, and no longer.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use anyhow::ensure;
use gwready::observe::addresses::AddressReader;
use gwready::observe::sockets::SocketReader;
use gwready_core::facts::Reading;
use gwready_core::facts::sockets::SocketTable;
use gwready_core::net::Family;
use gwready_core::plan::{JudgedAddress, ReadPlan};
use gwready_tests::node::{UPLINK, node_v4};
use gwready_tests::{Node, eventually};
use socket2::{Domain, Protocol, Socket, Type};

const SOON: std::time::Duration = std::time::Duration::from_secs(5);
const PORT: u16 = 80;

fn listen(node: &Node, address: &str) -> TcpListener {
    listen_at(node, address, PORT)
}

fn listen_at(node: &Node, address: &str, port: u16) -> TcpListener {
    let address = SocketAddr::new(address.parse().unwrap(), port);
    node.enter(|| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(128)?;
        Ok(socket.into())
    })
    .unwrap()
}

/// Two workers on each wildcard, as Envoy has them.
fn envoy(node: &Node) -> Vec<TcpListener> {
    ["0.0.0.0", "0.0.0.0", "::", "::"].iter().map(|address| listen(node, address)).collect()
}

fn plan(node: &Node) -> ReadPlan {
    let table = node.enter(|| Ok(AddressReader::new().read())).unwrap();
    let ingress_if = table.value().unwrap().links.iter().find(|link| link.name == UPLINK).unwrap().ifindex;
    let addresses = node.addresses().into_iter().map(|ip| JudgedAddress { ip, ingress_if }).collect();
    ReadPlan { addresses, ports: vec![PORT], families: Family::ALL.to_vec() }
}

fn value(reading: Reading<SocketTable>) -> SocketTable {
    match reading {
        Reading::Observed { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

/// One steady read, which had to dump or not.
fn read(node: &Node, reader: &mut SocketReader, plan: &ReadPlan, dumps: bool) -> SocketTable {
    let before = reader.dumps();
    let table = value(node.enter(|| Ok(reader.read_steady(plan))).unwrap());
    assert_eq!(reader.dumps() > before, dumps, "dumped: {}", reader.dumps() - before);
    table
}

#[test]
fn nothing_new_is_read_without_a_dump_and_says_the_same() {
    let node = Node::new().unwrap();
    let _envoy = envoy(&node);
    let plan = plan(&node);
    let mut reader = SocketReader::new();
    let first = read(&node, &mut reader, &plan, true);
    assert_eq!(first.listeners.len(), 4);
    for _ in 0..3 {
        assert_eq!(read(&node, &mut reader, &plan, false), first);
    }
    assert_eq!(value(node.enter(|| Ok(reader.read(&plan))).unwrap()), first, "as the kernel has it");
    read(&node, &mut reader, &plan, true);
}

#[test]
fn the_queue_of_every_member_is_fresh() {
    let node = Node::new().unwrap();
    let _envoy = envoy(&node);
    let plan = plan(&node);
    let mut reader = SocketReader::new();
    read(&node, &mut reader, &plan, true);
    let at = SocketAddr::new(node_v4(1).into(), PORT);
    // Nobody accepts: 40 clients wait in the queues of both IPv4 workers.
    let _clients: Vec<TcpStream> = (0..40).map(|_| node.outside().enter(|| Ok(TcpStream::connect(at)?)).unwrap()).collect();
    let waiting = eventually(SOON, || {
        let table = read(&node, &mut reader, &plan, false);
        let v4: Vec<u32> = table.listeners.iter().filter(|row| row.family == Family::Ipv4).map(|row| row.queue_length).collect();
        ensure!(v4.iter().sum::<u32>() == 40, "{v4:?}");
        Ok(v4)
    });
    assert!(waiting.unwrap().iter().all(|length| *length > 0), "each worker has its share");
}

#[test]
fn whoever_takes_a_client_is_found_and_gone_again() {
    let node = Node::new().unwrap();
    let envoy = envoy(&node);
    let plan = plan(&node);
    // In turn: joins the group, takes one address, takes an address of the other family; then each leaves again.
    for address in ["0.0.0.0", "10.77.0.1", "::"] {
        let mut reader = SocketReader::new();
        read(&node, &mut reader, &plan, true);
        read(&node, &mut reader, &plan, false);
        let thief = listen(&node, address);
        // One join in a thousand moves none of the answers that are asked for: then age finds it.
        let mut sees = |count: usize| {
            let seen = eventually(2 * SOON, || {
                let rows = value(node.enter(|| Ok(reader.read_steady(&plan)))?).listeners.len();
                ensure!(rows == count, "{rows} listeners");
                Ok(())
            });
            seen.unwrap_or_else(|error| panic!("{address}: {error}"));
        };
        sees(5);
        drop(thief);
        sees(4);
    }
    let mut reader = SocketReader::new();
    read(&node, &mut reader, &plan, true);
    drop(envoy);
    assert!(read(&node, &mut reader, &plan, true).listeners.is_empty());
}

#[test]
fn another_plan_is_read_whole() {
    let node = Node::new().unwrap();
    let _envoy = envoy(&node);
    let mut plan = plan(&node);
    let mut reader = SocketReader::new();
    read(&node, &mut reader, &plan, true);
    plan.ports.push(443);
    read(&node, &mut reader, &plan, true);
    read(&node, &mut reader, &plan, false);
    let gone: IpAddr = plan.addresses.remove(0).ip;
    let table = read(&node, &mut reader, &plan, true);
    assert!(table.lookups.iter().all(|lookup| lookup.endpoint.address != gone));
}

#[test]
fn a_socket_that_no_client_of_a_judged_address_gets_is_found_with_age() {
    let node = Node::new().unwrap();
    let _envoy = envoy(&node);
    let plan = plan(&node);
    let mut reader = SocketReader::new();
    read(&node, &mut reader, &plan, true);
    let _elsewhere = listen(&node, "127.0.0.1");
    let found = eventually(2 * SOON, || {
        let table = value(node.enter(|| Ok(reader.read_steady(&plan)))?);
        ensure!(table.listeners.len() == 5, "{} listeners", table.listeners.len());
        Ok(())
    });
    found.unwrap();
}

/// A join moves each of the ten answers that are asked for with a chance of one in two: hardly one in a thousand moves none. Whoever asked
/// only once per judged address and member would miss one in sixteen.
#[test]
fn who_joins_a_group_is_seen_at_the_next_read() {
    // The kernel's hash is the same for the same ports: each port is another throw of the dice.
    const PORTS: std::ops::Range<u16> = 8000..8100;
    let node = Node::new().unwrap();
    let mut plan = plan(&node);
    let missed = PORTS.filter(|&port| {
        let _group = [listen_at(&node, "0.0.0.0", port), listen_at(&node, "0.0.0.0", port)];
        plan.ports = vec![port];
        let mut reader = SocketReader::new();
        read(&node, &mut reader, &plan, true);
        let _thief = listen_at(&node, "0.0.0.0", port);
        value(node.enter(|| Ok(reader.read_steady(&plan))).unwrap()).listeners.len() != 3
    });
    let missed: Vec<u16> = missed.collect();
    assert!(missed.len() <= 2, "joins that were not seen: {missed:?}");
}

#[test]
fn who_takes_an_address_is_seen_at_the_next_read_and_so_is_the_end_of_it() {
    let node = Node::new().unwrap();
    let _envoy = envoy(&node);
    let plan = plan(&node);
    let mut reader = SocketReader::new();
    read(&node, &mut reader, &plan, true);
    let thief = listen(&node, "10.77.0.1");
    assert_eq!(read(&node, &mut reader, &plan, true).listeners.len(), 5);
    drop(thief);
    assert_eq!(read(&node, &mut reader, &plan, true).listeners.len(), 4);
}
