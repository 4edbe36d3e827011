//! Where the health port listens, and what it says about clients that can't work. Needs root for the namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use gwready::health::Unready;
use gwready_core::verdict::State;
use gwready_tests::Space;
use gwready_tests::health::exchange::{Act, exchange};
use gwready_tests::health::port::Port;
use gwready_tests::health::probe::probe;
use gwready_tests::health::stand::Stand;
use tempfile::TempDir;

#[test]
fn both_families_are_served_though_the_host_says_bindv6only() -> Result<()> {
    let space = Space::new("bindv6only")?;
    space.output("ip", &["link", "set", "lo", "up"])?;
    space.set_sysctl("net/ipv6/bindv6only", "1")?;
    let port = space.enter(|| Port::open(Unready::Status, IpAddr::V4(Ipv4Addr::LOCALHOST)))?;
    port.set(State::Up);
    let number = port.address()?.port();
    for (address, judged) in [(IpAddr::V4(Ipv4Addr::LOCALHOST), "127.0.0.1"), (IpAddr::V6(Ipv6Addr::LOCALHOST), "all")] {
        let line = space.enter(|| probe(SocketAddr::new(address, number), Duration::from_secs(2)).map_err(anyhow::Error::msg))?;
        ensure!(line.starts_with(&format!("state=up node=worker-1 address={judged} ")), "{address}: {line}");
    }
    Ok(())
}

#[test]
fn a_monitor_without_version_is_warned_about_once_and_only_in_status_mode() -> Result<()> {
    for (unready, expected) in [("status", 1), ("close", 0)] {
        let folder = TempDir::new()?;
        let arguments = ["--listen", "[::]:0", "--state", "up", "--unready", unready];
        let mut stand = Stand::start(Path::new(env!("CARGO_BIN_EXE_health-stand")), &arguments, &folder.path().join("log"))?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, stand.wait_serving()?.0.port()));
        for request in ["GET / HTTP/1.0\r\n\r\n", "GET /\r\n", "GET /\r\n"] {
            let seen = exchange(server, &[Act::Send(request.into())], Duration::from_secs(2))?;
            ensure!(seen.reply.contains("state=up "), "{seen:?}");
        }
        // The line is written before the answer is sent.
        let warnings = stand.log().matches("WARN").count();
        ensure!(warnings == expected, "{unready}: {warnings} warnings in\n{}", stand.log());
    }
    Ok(())
}
