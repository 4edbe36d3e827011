//! Real keepalived with a `vrrp_script` on the real health port: the state is the one that keepalived notifies. In a
//! namespace of its own with a veth, since VRRP needs a real interface. Needs root.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gwready::health::Unready;
use gwready_core::verdict::State;
use gwready_tests::health::port::Port;
use gwready_tests::{Space, eventually};
use tempfile::TempDir;

const NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends keepalived and its children in order, so that it takes its virtual address back.
struct Keepalived(Child);

impl Drop for Keepalived {
    fn drop(&mut self) {
        // Each fails only if it has ended.
        _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), rustix::process::Signal::TERM);
        if eventually(Duration::from_secs(5), || self.0.try_wait()?.ok_or_else(|| anyhow::anyhow!("runs"))).is_err() {
            _ = self.0.kill();
        }
        _ = self.0.wait();
    }
}

fn start(space: &Space, folder: &Path, port: u16) -> Result<Keepalived> {
    let check = folder.join("check.sh");
    std::fs::write(
        &check,
        format!(
            "#!/bin/sh\necho >> {}/checks\nprintf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' | socat -t 2 - TCP:{NODE}:{port} | grep -q '^state=up '\n",
            folder.display()
        ),
    )?;
    let notify = folder.join("notify.sh");
    std::fs::write(&notify, format!("#!/bin/sh\necho \"$3\" > {}/state\n", folder.display()))?;
    for script in [&check, &notify] {
        std::fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let configuration = format!(
        "global_defs {{\n script_user root\n enable_script_security\n vrrp_startup_delay 0\n}}\n\
         vrrp_script gwready {{\n script \"{}\"\n interval 1\n timeout 1\n rise 1\n fall 1\n}}\n\
         vrrp_instance gateway {{\n interface gw0\n state BACKUP\n virtual_router_id 51\n priority 100\n advert_int 0.1\n version 3\n\
         virtual_ipaddress {{ 192.0.2.100/24 }}\n track_script {{ gwready }}\n notify \"{}\"\n}}\n",
        check.display(),
        notify.display()
    );
    let file = folder.join("keepalived.conf");
    std::fs::write(&file, configuration)?;
    let log = std::fs::File::create(folder.join("keepalived.log"))?;
    let mut command = Command::new("keepalived");
    command.args(["--dont-fork", "--log-console", "--vrrp", "--use-file"]).arg(&file);
    for (option, name) in [("--pid", "pid"), ("--vrrp_pid", "vrrp-pid")] {
        command.arg(option).arg(folder.join(name));
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(Keepalived(space.spawn(command)?))
}

#[test]
fn keepalived_holds_the_virtual_address_only_while_up() -> Result<()> {
    let space = Space::new("keepalived")?;
    space.output("ip", &["link", "set", "lo", "up"])?;
    space.output("ip", &["link", "add", "gw0", "type", "veth", "peer", "name", "gw1"])?;
    space.output("ip", &["link", "set", "gw1", "up"])?;
    space.output("ip", &["link", "set", "gw0", "up"])?;
    space.output("ip", &["address", "add", "192.0.2.1/24", "dev", "gw0"])?;
    let port = space.enter(|| Port::open(Unready::Status, NODE))?;
    port.set(State::Up);
    // Not under /tmp itself: keepalived refuses scripts that others could replace.
    let folder = TempDir::new_in("/var/lib")?;
    let _keepalived = start(&space, folder.path(), port.address()?.port())?;
    let reaches = |wanted: &str| {
        eventually(PATIENCE, || {
            let state = std::fs::read_to_string(folder.path().join("state")).unwrap_or_default();
            let log = || std::fs::read_to_string(folder.path().join("keepalived.log")).unwrap_or_default();
            ensure!(state.trim() == wanted, "{state:?}, not {wanted}; log:\n{}", log());
            let holds = space.output("ip", &["address", "show", "dev", "gw0"])?.contains("192.0.2.100");
            ensure!(holds == (wanted == "MASTER"), "{wanted} and the virtual address: {holds}");
            Ok(())
        })
    };
    reaches("MASTER")?;
    let checks = || Ok::<_, anyhow::Error>(std::fs::read(folder.path().join("checks"))?.len());
    for (state, wanted) in [
        (State::Down, "FAULT"),
        (State::Drain, "FAULT"),
        (State::Up, "MASTER"),
        (State::Drain, "FAULT"),
        (State::Down, "FAULT"),
        (State::Up, "MASTER"),
    ] {
        port.set(state);
        // One check may have asked before; after two the state is the new one's.
        let before = checks()?;
        eventually(PATIENCE, || {
            ensure!(checks()? >= before + 3, "not yet checked");
            Ok(())
        })?;
        reaches(wanted).with_context(|| format!("{state}"))?;
    }
    Ok(())
}
