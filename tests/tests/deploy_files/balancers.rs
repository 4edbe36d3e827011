//! The shipped balancer configurations, loaded by the real programs where there are any.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gwready_core::verdict::State;
use gwready_tests::bigip::{Finding, Monitor, Prober, probe};
use gwready_tests::eventually;
use gwready_tests::health::stand::Stand;
use gwready_tests::process::{Place, Process};
use gwready_tests::{Node, Space};
use serde_json::Value;

use crate::tools::{deploy, objects, read, succeed};

const PATIENCE: Duration = Duration::from_secs(20);

/// The health port with a verdict that the test sets, at its usual place in the node.
fn stand(node: &Node) -> Stand {
    stand_in(node.space(), node.dir())
}

fn stand_in(space: &Space, folder: &Path) -> Stand {
    let space = format!("--net={}", space.net_path());
    let arguments = [&space, env!("CARGO_BIN_EXE_health-stand"), "--listen", "[::]:9680", "--state", "up"];
    let mut stand = Stand::start(Path::new("nsenter"), &arguments, &folder.join("stand.log")).unwrap();
    stand.wait_serving().unwrap();
    stand
}

fn address(node: &Node) -> IpAddr {
    node.addresses()[0]
}

/// The shipped text with the first example member replaced by the node; the others stay and answer nothing.
fn for_node(node: &Node, path: &str) -> String {
    let text = read(&deploy(path));
    assert!(text.contains("10.0.0.11"), "{path} has the example addresses");
    text.replace("10.0.0.11", &address(node).to_string()).replace("10.0.0.1", "10.77.0.21")
}

fn haproxy_status(socket: &Path, backend: &str, server: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"show stat\n")?;
    let mut table = String::new();
    stream.read_to_string(&mut table)?;
    let start = format!("{backend},{server},");
    let row = table.lines().find(|line| line.starts_with(&start)).ok_or_else(|| anyhow::anyhow!("no {start}"))?;
    Ok(row.split(',').nth(17).unwrap_or_default().to_owned())
}

#[test]
fn haproxy_loads_its_configuration_and_tells_drain_from_down() {
    let node = Node::new().unwrap();
    let mut stand = stand(&node);
    let socket = node.dir().join("haproxy.sock");
    let text = for_node(&node, "balancers/haproxy/haproxy.cfg");
    let text = text.replace("\nglobal\n", &format!("\nglobal\n    stats socket {}\n", socket.display()));
    let file = node.dir().join("haproxy.cfg");
    std::fs::write(&file, text).unwrap();
    succeed(Command::new("haproxy").arg("-c").arg("-f").arg(&file));
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file);
    let haproxy = Process::start(node.outside(), command, &node.dir().join("haproxy.log"), Place::Plain).unwrap();
    let wait = |server: &str, wanted: &str| {
        for backend in ["gateway_80", "gateway_443"] {
            eventually(PATIENCE, || {
                let status = haproxy_status(&socket, backend, server)?;
                anyhow::ensure!(status.split(' ').next() == Some(wanted), "{backend}/{server} is {status:?}, not {wanted}");
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{error:#}\n{}", haproxy.log()));
        }
    };
    wait("gateway-1", "UP");
    wait("gateway-2", "DOWN");
    for (state, status) in
        [(State::Drain, "NOLB"), (State::Down, "DOWN"), (State::Up, "UP"), (State::Down, "DOWN"), (State::Drain, "DOWN"), (State::Up, "UP")]
    {
        stand.set(state).unwrap();
        wait("gateway-1", status);
    }
    drop(stand);
    wait("gateway-1", "DOWN");
}

/// One pass of the script for nginx, from outside of the node.
fn write_upstreams(from: &Space, folder: &Path, nodes: &[String]) {
    let mut command = from.command("sh");
    command.arg(deploy("balancers/nginx/gwready-upstreams.sh")).arg(folder).arg("80 443").args(nodes);
    command.env("RELOAD", format!("echo x >>{}", folder.join("reloads").display()));
    succeed(&mut command);
}

#[test]
fn the_script_for_nginx_follows_every_state_and_never_empties_an_upstream() {
    let node = Node::new().unwrap();
    let mut stand = stand(&node);
    let folder = node.dir().join("upstreams");
    let v4 = address(&node).to_string();
    let v6 = node.addresses().iter().map(ToString::to_string).find(|text| text.contains(':')).unwrap();
    // The neighbour's own address: refused until a second health port runs there.
    let neighbour = "10.77.0.100".to_owned();
    let all = [v4.clone(), v6.clone(), neighbour.clone()];
    let (v4, v6, neighbour) = (format!("{v4}:443"), format!("[{v6}]:443"), format!("{neighbour}:443"));
    let pass = || write_upstreams(node.outside(), &folder, &all);
    let used = || used(&folder.join("443.conf"));
    let reloads = || read(&folder.join("reloads")).lines().count();
    pass();
    assert_eq!(used(), [v4.as_str(), &v6], "the one that does not answer is out");
    assert_eq!(reloads(), 1);
    pass();
    assert_eq!(reloads(), 1, "nothing has changed");

    let conf = node.dir().join("nginx.conf");
    let includes = format!("include {}/", folder.display());
    std::fs::write(&conf, read(&deploy("balancers/nginx/nginx.conf")).replace("include /etc/nginx/gwready/", &includes)).unwrap();
    let pid = format!("pid {};", node.dir().join("nginx.pid").display());
    succeed(node.outside().command("nginx").arg("-t").arg("-c").arg(&conf).arg("-g").arg(pid));

    for state in [State::Drain, State::Down] {
        stand.set(state).unwrap();
        pass();
        assert_eq!(used(), [v4.as_str(), &v6], "nobody else is up: the last list stays");
        assert_eq!(reloads(), 1);
    }
    let mut other = stand_in(node.outside(), node.dir());
    for (state, others, expected) in [
        (State::Down, State::Up, vec![&neighbour]),
        (State::Up, State::Up, vec![&v4, &v6, &neighbour]),
        (State::Drain, State::Up, vec![&neighbour]),
        (State::Up, State::Drain, vec![&v4, &v6]),
    ] {
        stand.set(state).unwrap();
        other.set(others).unwrap();
        pass();
        assert_eq!(used().iter().collect::<Vec<_>>(), expected, "{state} and {others}");
    }
    assert_eq!(reloads(), 5);
}

/// The servers that a list sends clients to.
fn used(list: &Path) -> Vec<String> {
    let in_use = |line: &&str| line.contains("max_fails");
    read(list).lines().filter(in_use).map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_fresh_list_with_nobody_up_has_everybody() {
    let node = Node::new().unwrap();
    let folder = node.dir().join("upstreams");
    write_upstreams(node.outside(), &folder, &["10.77.0.100".to_owned(), "10.77.0.101".to_owned()]);
    assert_eq!(used(&folder.join("80.conf")), ["10.77.0.100:80", "10.77.0.101:80"]);
}

#[test]
fn keepalived_reads_both_configurations() {
    let node = Node::new().unwrap();
    let complaints = |text: &str| {
        let (file, log) = (node.dir().join("keepalived.conf"), node.dir().join("keepalived.log"));
        std::fs::write(&file, text).unwrap();
        let mut test = node.command("keepalived");
        // Its exit code tells nothing once a script is configured; what it complains about, it writes to the file.
        test.arg(format!("--config-test={}", log.display())).arg("-f").arg(&file).output().unwrap();
        std::fs::read_to_string(&log).unwrap_or_default()
    };
    for path in ["balancers/keepalived/ipvs.conf", "balancers/keepalived/vrrp.conf"] {
        assert_eq!(complaints(&read(&deploy(path))), "", "{path}");
    }
    let broken =
        read(&deploy("balancers/keepalived/vrrp.conf")).replace("track_script {\n        gwready", "track_script {\n        nobody");
    assert!(!complaints(&broken).is_empty(), "a fault is found");
}

/// The monitors of an AS3 declaration: pool, then its monitor.
fn as3_monitors() -> Vec<(u64, Monitor, Value)> {
    let declaration: Value = serde_json::from_str(&read(&deploy("balancers/f5/as3.json"))).unwrap();
    let application = &declaration["declaration"]["gateway"]["public"];
    let pools = application.as_object().unwrap().values().filter(|object| object["class"] == "Pool");
    pools
        .map(|pool| {
            let monitors = pool["monitors"].as_array().unwrap();
            assert_eq!(monitors.len(), 1, "one monitor per pool");
            assert_eq!(pool["minimumMonitors"], "all");
            let monitor = application[monitors[0]["use"].as_str().unwrap()].clone();
            let text = |key: &str| monitor[key].as_str().unwrap().to_owned();
            let ours = Monitor { send: text("send"), recv: text("receive"), recv_disable: text("receiveDown"), ..Monitor::default() };
            (pool["members"][0]["servicePort"].as_u64().unwrap(), ours, monitor)
        })
        .collect()
}

#[test]
fn a_big_ip_with_the_as3_declaration_reads_every_state() {
    let node = Node::new().unwrap();
    let mut stand = stand(&node);
    let monitors = as3_monitors();
    assert_eq!(monitors.len(), 2);
    for (port, monitor, written) in monitors {
        assert!(monitor.send.starts_with(&format!("GET /healthz/{port} HTTP/1.1")));
        assert_eq!(written["targetPort"], 9680);
        let (interval, timeout) = (written["interval"].as_u64().unwrap(), written["timeout"].as_u64().unwrap());
        assert_eq!(timeout, 3 * interval + 1);
        for (state, finding) in [(State::Up, Finding::Good), (State::Drain, Finding::Disabled), (State::Down, Finding::Bad)] {
            stand.set(state).unwrap();
            for prober in [Prober::Bigd, Prober::InTmm] {
                let found = node.outside().enter(|| probe(&monitor, prober, (address(&node), 9680).into(), PATIENCE)).unwrap();
                assert_eq!(found, finding, "port {port} {state} {prober:?}");
            }
        }
    }
}

#[test]
fn tmsh_and_as3_say_the_same() {
    let script = read(&deploy("balancers/f5/gwready.tmsh"));
    for (port, monitor, written) in as3_monitors() {
        let block = script.split(&format!("ltm monitor http gwready_{port} {{")).nth(1).unwrap().split("\n}").next().unwrap();
        let value = |key: &str| {
            let line = block.lines().find_map(|line| line.trim().strip_prefix(&format!("{key} "))).unwrap_or_else(|| panic!("no {key}"));
            line.trim_matches('"').to_owned()
        };
        assert_eq!(value("send"), monitor.send);
        assert_eq!(value("recv"), monitor.recv);
        assert_eq!(value("recv-disable"), monitor.recv_disable);
        assert_eq!(value("destination"), format!("*:{}", written["targetPort"]));
        assert_eq!(value("interval"), written["interval"].to_string());
        assert_eq!(value("timeout"), written["timeout"].to_string());
        assert!(script.contains(&format!("    monitor gwready_{port}\n")), "the pool has this monitor alone");
    }
    assert_eq!(script.matches('{').count(), script.matches('}').count());
    assert!(!script.contains("monitor tcp") && !script.contains("monitor min"), "no monitor beside it");
}

#[test]
fn the_custom_resource_has_one_monitor_that_the_script_makes() {
    let objects = objects(&read(&deploy("balancers/f5/cis.yaml")));
    let server = crate::tools::only(&objects, "TransportServer");
    let pool = &server["spec"]["pool"];
    assert_eq!(pool["monitor"]["reference"], "bigip");
    assert_eq!(pool.get("monitors"), None);
    let name = pool["monitor"]["name"].as_str().unwrap().strip_prefix("/Common/").unwrap().to_owned();
    assert!(read(&deploy("balancers/f5/gwready.tmsh")).contains(&format!("ltm monitor http {name} {{")));
    let service = crate::tools::only(&objects, "Service");
    assert_eq!(service["spec"]["clusterIP"], "None", "no entry in Cilium's map");
    assert_eq!(pool["service"], service["metadata"]["name"]);
}

#[test]
fn nginx_plus_asks_the_health_port_for_the_port_it_serves() {
    // No free build of NGINX Plus exists: the text is read, not loaded.
    let text = read(&deploy("balancers/nginx-plus/gateway.conf"));
    for port in ["80", "443"] {
        assert!(text.contains(&format!("GET /healthz/{port} HTTP/1.1\\r\\n")));
        let server = text.split(&format!("listen {port};")).nth(1).unwrap().split("\n}").next().unwrap();
        assert!(server.contains(&format!("health_check port=9680 match=gwready_{port} ")) && server.contains(" mandatory"));
    }
    assert_eq!(text.matches("expect ~ \"state=up\";").count(), 2);
    assert_eq!(text.matches('{').count(), text.matches('}').count());
}
