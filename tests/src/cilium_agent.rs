//! The traces that a cilium-agent leaves on a node, and what becomes of them when it is restarted: its sign of life, its maps,
//! the way to its proxy ports, its end of Envoy's configuration stream.
//!
//! Stands for the agent alone: maps, rules, routes and sockets are the kernel's. What a restart does to them: facts of Cilium
//! `pkg/maps` (a map of another size is unpinned and made anew), `pkg/datapath/linux/route`, `pkg/datapath/agentliveness`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use gwready::clock;

use crate::lbmaps::LbMaps;
use crate::listener::Listener;
use crate::node::Node;

/// Where Envoy finds it.
pub const CONTROL_PLANE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 18_000);
/// A service of another address, redirected to [`PROXY_PORT`].
const FRONTEND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 50, 200));
const PROXY_PORT: u16 = 12_345;
/// How often it gives a sign of life (Cilium's `agent-liveness-update-interval`).
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
const RULE: &str = "pref 9 fwmark 0x200/0xf00 lookup 2004";
const ROUTE: &str = "local default dev lo table 2004";

/// A running cilium-agent's traces.
#[derive(Debug)]
pub struct CiliumAgent {
    node: Node,
    control_plane: TcpListener,
    streams: Vec<TcpStream>,
    life: Option<Life>,
    size: u32,
}

#[derive(Debug)]
struct Life {
    over: Sender<()>,
    thread: JoinHandle<Result<LbMaps>>,
}

impl CiliumAgent {
    /// The listener of the proxy port, which Envoy must have beside the gateway's.
    #[must_use]
    pub fn proxy_listener() -> Listener {
        let addresses = vec![Ipv4Addr::LOCALHOST.into()];
        Listener { name: "default/cec/listener".into(), addresses, mark: 0xa00, ..Listener::http(PROXY_PORT) }
    }

    /// Starts on a node that has none.
    pub fn start(node: &Node) -> Result<Self> {
        let mut agent = Self { node: node.clone(), control_plane: listen(node)?, streams: Vec::new(), life: None, size: 1024 };
        agent.live()?;
        agent.open_proxy_path()?;
        Ok(agent)
    }

    /// Takes Envoy's configuration stream, which opens it by itself.
    pub fn accept_envoy(&mut self) -> Result<()> {
        self.streams.push(self.control_plane.accept()?.0);
        Ok(())
    }

    /// Ends: no sign of life any more, Envoy's stream closed. Maps, rule and route stay, as they do.
    pub fn stop(&mut self) -> Result<()> {
        self.streams.clear();
        // Nobody listens there until it is back. The kernel needs another socket to let go of the port.
        self.control_plane = self.node.enter(|| Ok(TcpListener::bind("127.0.0.1:0")?))?;
        drop(self.end_life()?);
        Ok(())
    }

    /// Takes the rule and the route of the proxy ports away, as a starting agent does before it sets its own.
    pub fn close_proxy_path(&self) -> Result<()> {
        self.ip(&format!("rule del {RULE}"))?;
        self.ip(&format!("route del {ROUTE}"))
    }

    /// Sets them.
    pub fn open_proxy_path(&self) -> Result<()> {
        self.ip(&format!("rule add {RULE}"))?;
        self.ip(&format!("route add {ROUTE}"))
    }

    /// Starts again, with maps of another size: those that are pinned are replaced.
    pub fn start_again(&mut self) -> Result<()> {
        self.size *= 2;
        self.control_plane = listen(&self.node)?;
        self.live()
    }

    fn ip(&self, words: &str) -> Result<()> {
        self.node.space().output("ip", &words.split(' ').collect::<Vec<_>>()).map(drop)
    }

    fn live(&mut self) -> Result<()> {
        let mut maps = self.node.enter(|| LbMaps::create(&self.node.bpffs(), self.size))?;
        for own in self.node.addresses() {
            maps.add_endpoint(own, 0, true)?;
        }
        maps.add_l7(FRONTEND, 80, PROXY_PORT)?;
        maps.stamp(clock::mono().0)?;
        let (over, is_over) = channel::<()>();
        let thread = std::thread::Builder::new().name("cilium-agent".into()).spawn(move || {
            while is_over.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                maps.stamp(clock::mono().0)?;
            }
            Ok(maps)
        })?;
        self.life = Some(Life { over, thread });
        Ok(())
    }

    fn end_life(&mut self) -> Result<Option<LbMaps>> {
        let Some(Life { over, thread }) = self.life.take() else { return Ok(None) };
        drop(over);
        thread.join().map_err(|_| anyhow!("the sign of life panicked"))?.map(Some)
    }
}

impl Drop for CiliumAgent {
    fn drop(&mut self) {
        if let Err(error) = self.end_life() {
            eprintln!("cilium-agent: {error:#}");
        }
    }
}

fn listen(node: &Node) -> Result<TcpListener> {
    node.enter(|| Ok(TcpListener::bind(CONTROL_PLANE)?))
}
