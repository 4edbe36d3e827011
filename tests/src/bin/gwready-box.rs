//! A gateway node to play with: real Envoy with Cilium's marks, the agent, a neighbour to ask
//! from. Prints what to try, shows the agent's log, and leaves nothing behind at Ctrl-C.
//! Arguments are passed on to `gwready run`.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use gwready_tests::{Agent, Envoy, Node, paths};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Registered before anything is started, so that an early Ctrl-C tears down too.
    let stop = runtime.block_on(async {
        let streams = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok::<_, std::io::Error>(streams)
    })?;
    println!("making a node, starting Envoy …");
    let node = Node::new()?;
    let envoy = start_envoy(&node)?;
    let mut agent = Agent::builder(&node).args(std::env::args().skip(1)).start()?;
    print_hints(&node, &envoy)?;
    let outcome = runtime.block_on(follow(&mut agent, stop));
    println!("ending …");
    agent.stop()?;
    outcome
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

fn print_hints(node: &Node, envoy: &Envoy) -> Result<()> {
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
    println!("Faults to try:");
    println!("  {inside} curl -s -X POST --unix-socket {} http://x/drain_listeners", node.admin_socket().display());
    println!("  kill -STOP {0}; kill -CONT {0}    # Envoy", envoy.pid()?);
    println!("Ctrl-C ends all of it.\n");
    Ok(())
}

fn url(address: std::net::IpAddr, port: u16) -> std::net::SocketAddr {
    std::net::SocketAddr::new(address, port)
}

async fn follow(
    agent: &mut Agent,
    (mut interrupt, mut terminate): (tokio::signal::unix::Signal, tokio::signal::unix::Signal),
) -> Result<()> {
    let mut shown = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        let log = agent.log();
        if let Some(fresh) = log.get(shown..) {
            print!("{fresh}");
            std::io::stdout().flush()?;
        }
        shown = log.len();
        agent.process().ensure_running()?;
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = tick.tick() => {}
        }
    }
}
