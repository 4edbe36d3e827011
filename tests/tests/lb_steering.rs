//! The TPROXY path's rule, route and listener, and a real sk_lookup program, as the readers see them on a real node.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gwready::observe::addresses::AddressReader;
use gwready::observe::cilium::{TproxyReader, read_sk_lookup};
use gwready::observe::sockets::SocketReader;
use gwready_core::condition::Status;
use gwready_core::facts::{Reading, Snapshot};
use gwready_core::judge::intercepted::sk_lookup_finding;
use gwready_core::judge::tproxy::judge_tproxy;
use gwready_core::lb::frontends::L7Frontend;
use gwready_core::net::{Endpoint, Family};
use gwready_core::plan::{JudgedAddress, ReadPlan};
use gwready_core::reason::Reason;
use gwready_core::time::Window;
use gwready_tests::Node;
use gwready_tests::node::{UPLINK, node_v4};
use gwready_tests::steer::steer;

fn plan() -> Result<ReadPlan> {
    let table = AddressReader::new().read();
    let links = &table.value().context("addresses")?.links;
    let ingress_if = links.iter().find(|link| link.name == UPLINK).context("no uplink")?.ifindex;
    let addresses = vec![JudgedAddress { ip: IpAddr::V4(node_v4(1)), ingress_if }];
    Ok(ReadPlan { addresses, ports: vec![80], families: Family::ALL.to_vec() })
}

fn judged(reader: &mut TproxyReader, frontends: &[L7Frontend]) -> Result<(Status, Option<Reason>)> {
    let mut snapshot = Snapshot::default();
    snapshot.lb.l7 = Reading::Observed { value: frontends.to_vec(), window: Window::default() };
    snapshot.tproxy = reader.read(&plan()?, frontends);
    let finding = judge_tproxy(&snapshot, |_| Some(true));
    Ok((finding.status, finding.reason))
}

#[test]
fn rule_route_and_listener_are_each_missed_and_found_again() -> Result<()> {
    let node = Node::new()?;
    let ip = |family: &str, words: &str| -> Result<()> {
        let args: Vec<&str> = std::iter::once(family).chain(words.split(' ')).collect();
        node.space().output("ip", &args).map(drop)
    };
    for (flag, address, loopback) in [("-4", "10.9.9.9", "127.0.0.1"), ("-6", "fd00:9::9", "::1")] {
        let endpoint = Endpoint { address: address.parse()?, port: 80 };
        let frontends = [L7Frontend { endpoint, proxy_port: 12345, routable: true, load_balancer: true }];
        let now = |reason| -> Result<()> {
            let found = node.enter(|| judged(&mut TproxyReader::new(), &frontends))?;
            ensure!(found.1 == reason, "{flag}: {found:?} instead of {reason:?}");
            Ok(())
        };
        now(Some(Reason::ProxyPortClosed))?;
        let listener = node.enter(|| Ok(TcpListener::bind((loopback.parse::<IpAddr>()?, 12345))?));
        // Not transparent: for the target it is as if nobody listened.
        now(Some(Reason::ProxyPortClosed))?;
        drop(listener);
        let transparent = node.enter(|| bind_transparent(loopback.parse()?, 12345))?;
        now(Some(Reason::RuleMissing))?;
        ip(flag, "rule add pref 9 fwmark 0x200/0xf00 lookup 2004")?;
        now(Some(Reason::RouteMissing))?;
        ip(flag, "route add local default dev lo table 2004")?;
        now(None)?;
        ip(flag, "route del local default dev lo table 2004")?;
        now(Some(Reason::RouteMissing))?;
        ip(flag, "route add default dev lo table 2004")?;
        now(Some(Reason::RouteMissing))?;
        ip(flag, "route del default dev lo table 2004")?;
        ip(flag, "route add local default dev lo table 2004")?;
        ip(flag, "rule del pref 9")?;
        now(Some(Reason::RuleMissing))?;
        drop(transparent);
    }
    Ok(())
}

fn bind_transparent(address: IpAddr, port: u16) -> Result<socket2::Socket> {
    let socket = socket2::Socket::new(socket2::Domain::for_address((address, port).into()), socket2::Type::STREAM, None)?;
    match address {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        IpAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    socket.bind(&std::net::SocketAddr::new(address, port).into())?;
    socket.listen(16)?;
    Ok(socket)
}

#[test]
fn a_real_sk_lookup_program_is_found_while_it_steers_and_not_after() -> Result<()> {
    let node = Node::new()?;
    let here = Endpoint { address: IpAddr::V4(node_v4(1)), port: 80 };
    node.enter(|| {
        let served = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 80))?;
        let thief = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 9000))?;
        thief.set_nonblocking(true)?;
        let plan = plan()?;
        let look = || {
            let snapshot = Snapshot { sockets: SocketReader::new().read(&plan), steering: read_sk_lookup(), ..Snapshot::default() };
            sk_lookup_finding(&snapshot, here, &|_| Some(false))
        };
        ensure!(look().is_none(), "before");
        let steering = steer(80, thief.as_fd())?;
        let finding = look().context("steered, and nothing found")?;
        ensure!(finding.reason == Some(Reason::SkLookup), "{finding:?}");
        ensure!(finding.evidence["programs"] == steering.id.to_string(), "{finding:?}");
        ensure!(finding.evidence["thief"].starts_with("0.0.0.0:9000"), "{finding:?}");
        // The finding is what a client meets.
        let client = node.outside().enter(|| Ok(std::net::TcpStream::connect((node_v4(1), 80))?));
        ensure!(client.is_ok(), "{client:?}");
        gwready_tests::eventually(Duration::from_secs(5), || Ok(thief.accept().map(drop)?))?;
        drop(steering);
        // A child that another test forks at this moment holds a copy of the link until it becomes another program.
        gwready_tests::eventually(Duration::from_secs(5), || {
            ensure!(look().is_none(), "after");
            Ok(())
        })?;
        drop(served);
        Ok(())
    })
}
