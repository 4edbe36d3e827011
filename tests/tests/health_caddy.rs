//! Real Caddy with active checks of the real health port: what it does is seen by a client that goes through it.
//! Needs `XTASK_CADDY`, which `cargo xtask test` sets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gwready::health::Unready;
use gwready_core::verdict::State;
use gwready_tests::eventually;
use gwready_tests::health::exchange::{Act, exchange};
use gwready_tests::health::port::Port;
use tempfile::TempDir;

const NODE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(20);

struct Caddy(Child);

impl Drop for Caddy {
    fn drop(&mut self) {
        // Fails only if it has ended, and then wait() tells.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A proxy on `front` to a gateway on `gateway`, which Caddy plays itself.
fn start(folder: &Path, front: SocketAddr, gateway: SocketAddr, health: u16) -> Result<Caddy> {
    let program = std::env::var_os("XTASK_CADDY").context("XTASK_CADDY is not set: run `cargo xtask test`")?;
    let file = folder.join("Caddyfile");
    let configuration = format!(
        "{{\n admin off\n auto_https off\n persist_config off\n}}\n\
         http://{front} {{\n reverse_proxy {gateway} {{\n health_uri /healthz\n health_port {health}\n health_interval 100ms\n\
         health_timeout 1s\n health_status 200\n }}\n}}\n\
         http://{gateway} {{\n respond \"gateway\"\n}}\n"
    );
    std::fs::write(&file, configuration)?;
    let log = std::fs::File::create(folder.join("caddy.log"))?;
    let mut command = Command::new(program);
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file).env("HOME", folder);
    Ok(Caddy(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?))
}

fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind((NODE, 0))?.local_addr()?)
}

#[test]
fn caddy_sends_clients_only_while_up() -> Result<()> {
    let folder = TempDir::new()?;
    let port = Port::open(Unready::Status, NODE)?;
    port.set(State::Up);
    let (front, gateway) = (free()?, free()?);
    let _caddy = start(folder.path(), front, gateway, port.address()?.port())?;
    let answers = |wanted: &str| {
        eventually(PATIENCE, || {
            let request = format!("GET / HTTP/1.1\r\nHost: {front}\r\nConnection: close\r\n\r\n");
            let log = || std::fs::read_to_string(folder.path().join("caddy.log")).unwrap_or_default();
            let seen = exchange(front, &[Act::Send(request.into_bytes())], Duration::from_secs(5)).with_context(log)?;
            ensure!(seen.reply.starts_with(wanted), "{:?}, not {wanted}", seen.reply);
            Ok(())
        })
    };
    answers("HTTP/1.1 200 ")?;
    for (state, wanted) in
        [(State::Down, "503"), (State::Drain, "503"), (State::Up, "200"), (State::Drain, "503"), (State::Down, "503"), (State::Up, "200")]
    {
        port.set(state);
        let wanted = format!("HTTP/1.1 {wanted} ");
        answers(&wanted).with_context(|| format!("{state}"))?;
        // Nor does it change its mind with the checks that follow, of which one comes every 100 ms.
        let end = Instant::now() + Duration::from_millis(400);
        while Instant::now() < end {
            answers(&wanted).with_context(|| format!("{state}, later"))?;
        }
    }
    Ok(())
}
