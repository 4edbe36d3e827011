//! A gateway node to play with: real Envoy with Cilium's marks, the agent, a neighbour to ask
//! from. Prints what to try, shows the agent's log, and leaves nothing behind at Ctrl-C.
//! Arguments are passed on to `gwready run`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use gwready_tests::theft::HostPortTheft;
use gwready_tests::{Agent, Envoy, Node, paths};
use tokio::signal::unix::{Signal, SignalKind, signal};

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Registered before anything is started, so that an early Ctrl-C tears down too.
    let stop = runtime.block_on(async {
        Ok::<_, std::io::Error>(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            theft: signal(SignalKind::user_defined1())?,
        })
    })?;
    println!("making a node, starting Envoy …");
    let node = Node::new()?;
    let stolen = node.addresses().first().copied().context("a node without addresses")?;
    let mut theft = HostPortTheft::prepare(&node, stolen)?;
    theft.stamp()?;
    let envoy = start_envoy(&node)?;
    let mut agent = Agent::builder(&node).args(std::env::args().skip(1)).start()?;
    print_hints(&node, &envoy, &agent)?;
    let outcome = runtime.block_on(follow(&mut agent, &mut theft, stop));
    println!("ending …");
    // An agent that ended by itself is the reason; that it can't be stopped any more is not.
    outcome.and_then(|()| agent.stop())
}

fn start_envoy(node: &Node) -> Result<Envoy> {
    let envoy = Envoy::builder(node);
    match paths::own("cilium-envoy-starter") {
        Ok(_) => envoy.starter().start(),
        Err(error) => {
            println!("Envoy runs without a starter: {error:#}");
            envoy.start()
        }
    }
}

fn print_hints(node: &Node, envoy: &Envoy, agent: &Agent) -> Result<()> {
    let outside = format!("nsenter --net={}", node.outside().net_path());
    let inside = format!("nsenter --net={} --mount={}", node.space().net_path(), node.space().mount_path());
    println!("\nA balancer asks the node:");
    for address in node.addresses() {
        println!("  {outside} curl -s -g http://{}/healthz", url(address, 9680));
    }
    println!("A client asks the gateway:");
    println!("  {outside} curl -si -H 'Host: ok.example' http://10.77.0.1/");
    println!("  {outside} curl -sik --resolve gw.example:443:10.77.0.1 https://gw.example/ -H 'Host: ok.example'");
    println!("The node itself:");
    println!("  {inside} ss -tlnpe");
    println!("  {inside} curl -s http://127.0.0.1:9681/metrics");
    let gwready = paths::gwready()?;
    for (command, into) in [("status", ""), ("snapshot", " > snapshot.json")] {
        println!("  {inside} {} {command} --config {}{into}", gwready.display(), agent.config().display());
    }
    println!("  {} explain snapshot.json", gwready.display());
    println!("Faults to try:");
    println!(
        "  kill -USR1 {}    # a HostPort entry in Cilium's map takes one address; again: gone. No Cilium is here, clients are served on",
        std::process::id()
    );
    println!("  {inside} {} 10.77.0.2:80 --reuseport    # a process takes one address", paths::own("thief")?.display());
    println!("  {inside} curl -s -X POST --unix-socket {} http://x/drain_listeners", node.admin_socket().display());
    println!("  kill -STOP {0}; kill -CONT {0}    # Envoy", envoy.pid()?);
    println!("Ctrl-C ends all of it.\n");
    Ok(())
}

fn url(address: std::net::IpAddr, port: u16) -> std::net::SocketAddr {
    std::net::SocketAddr::new(address, port)
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    theft: Signal,
}

async fn follow(agent: &mut Agent, theft: &mut HostPortTheft, mut signals: Signals) -> Result<()> {
    let mut shown = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let mut stamp = tokio::time::interval(Duration::from_secs(1));
    loop {
        let log = agent.log();
        if let Some(fresh) = log.get(shown..) {
            print!("{fresh}");
            std::io::stdout().flush()?;
        }
        shown = log.len();
        agent.process().ensure_running()?;
        tokio::select! {
            _ = signals.interrupt.recv() => return Ok(()),
            _ = signals.terminate.recv() => return Ok(()),
            _ = signals.theft.recv() => println!("box: {}", theft.toggle()?),
            _ = stamp.tick() => theft.stamp()?,
            _ = tick.tick() => {}
        }
    }
}
