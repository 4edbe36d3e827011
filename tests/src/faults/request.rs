//! The configuration is in order, and the answer to a request is not what a monitor hopes for.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Fault, Stage};
use crate::listener::HOST_DEAD;
use crate::scene::quick;
use crate::{Agent, Envoy, Listener, Node, Scene, client};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        id: "43",
        what: "the routes are missing: 404 for a real host, and 404 is also right for `GET /`",
        answer: "state=down reason=UnexpectedStatus port=80",
        make: || {
            let node = Node::new()?;
            let envoy = Envoy::start(&node)?;
            let probe = json!([{"port": 80, "host": "shop.example", "path": "/", "expect_status": [200]}]);
            let agent = quick(&node).set("probes", probe).start()?;
            Ok(Stage::new(&node, agent).keep(envoy).note("with a probe of the operator's own; without one up"))
        },
    },
    Fault {
        id: "45",
        what: "no backend is healthy anywhere: every node answers 503, and the pool must not be emptied",
        answer: "state=up",
        make: || {
            let stage = Stage::from(Scene::up()?);
            Ok(Stage { request: format!("GET / HTTP/1.1\r\nHost: {HOST_DEAD}\r\nConnection: close\r\n\r\n"), ..stage })
        },
    },
    Fault {
        id: "47",
        what: "the gateway wants a PROXY header, the monitor sends none",
        answer: "state=up",
        make: || {
            let header = "PROXY TCP4 10.77.0.100 10.77.0.1 50000 80\r\n";
            let node = Node::new()?;
            // Whether it serves can't be asked without the header.
            let envoy = Envoy::builder(&node).listeners(vec![Listener { proxy_protocol: true, ..Listener::gateway() }]).start_unserved()?;
            let mut agent = quick(&node).start()?;
            agent.wait_state("state=up", crate::scene::SOON)?;
            speaks(&node, &agent, &format!("{header}GET / HTTP/1.1\r\nHost: gw\r\n\r\n"))?;
            let stage = Stage::new(&node, agent).keep(envoy);
            Ok(Stage { saying: format!("{header}{}", stage.saying), ..stage }.note("its health port takes the header too"))
        },
    },
    Fault {
        id: "48",
        what: "the monitor speaks HTTP/1.0 or 0.9: Envoy answers 426 or 400",
        answer: "state=up",
        make: || {
            let scene = Scene::up()?;
            for request in ["GET / HTTP/1.0\r\n\r\n", "GET /\r\n"] {
                speaks(&scene.node, &scene.agent, request)?;
            }
            let stage = Stage::from(scene).note("its health port speaks both");
            Ok(Stage { request: "GET / HTTP/1.0\r\n\r\n".to_owned(), ..stage })
        },
    },
];

/// The health port answers this request with the state.
fn speaks(node: &Node, agent: &Agent, request: &str) -> Result<()> {
    let to = SocketAddr::new(crate::node::node_v4(1).into(), crate::agent::HEALTH_PORT);
    let reply = node.outside().enter(|| Ok(client::exchange(to, request.as_bytes(), client::PATIENCE)?))?;
    let reply = String::from_utf8_lossy(&reply);
    ensure!(reply.contains("state=up "), "{request:?} to the health port: {reply}; the agent's log:\n{}", agent.log());
    Ok(())
}
