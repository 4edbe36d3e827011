//! The monitor, or the agent itself, is what is wrong.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Fault, Stage};
use crate::agent::HEALTH_PORT;
use crate::bigip::{self, Finding, Monitor, Prober};
use crate::halt::halt;
use crate::lbmaps::kind;
use crate::node::{Node, node_v4};
use crate::scene::{SOON, quick};
use crate::{Envoy, Scene, Thief, eventually};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        id: "53",
        what: "the monitor's receive string is empty: any answer counts, 503 too (Envoy is not running)",
        answer: "state=down reason=EnvoyNotRunning",
        make: || {
            let mut scene = Scene::up()?;
            scene.envoy.kill()?;
            scene.agent.wait_state("state=down reason=EnvoyNotRunning", SOON)?;
            ensure!(f5(&scene.node, &Monitor::default())? == Finding::Good, "the stock monitor is not fooled by a status");
            scene.agent.stop()?;
            let closing = quick(&scene.node).set("health.unready", "close").start()?;
            eventually(SOON, || {
                // Up for a moment would be seen too: whatever is answered is Good.
                ensure!(f5(&scene.node, &Monitor::default())? == Finding::Bad, "answered");
                ensure!(closing.log().contains("reason=EnvoyNotRunning"), "not yet judged");
                Ok(())
            })?;
            drop(closing);
            scene.agent = quick(&scene.node).start()?;
            Ok(Stage::from(scene).note("a stock F5 monitor says up, with `health.unready: close` down"))
        },
    },
    Fault {
        id: "55",
        what: "the receive string is part of the answer of a node that drains",
        answer: "state=drain reason=DrainRequested",
        make: || {
            let mut scene = Scene::up()?;
            let drained = scene.agent.command(&["drain", "--reason", "state=up again soon"])?.output()?.status;
            ensure!(drained.success(), "gwready drain: {drained}");
            scene.agent.wait_state("state=drain", SOON)?;
            ensure!(f5(&scene.node, &Monitor::recommended())? == Finding::Disabled, "the shipped monitor does not disable the member");
            Ok(Stage::from(scene).note("no state's token is in the answer of another; the shipped F5 monitor disables the member"))
        },
    },
    Fault {
        id: "57",
        what: "the agent itself hangs with its last verdict (Envoy is stopped after that)",
        answer: "state=down reason=Stale",
        make: || {
            let mut scene = Scene::up()?;
            let hung = halt(scene.agent.pid(), "observer")?;
            scene.envoy.kill()?;
            Ok(Stage::from(scene).hold(hung))
        },
    },
    Fault {
        id: "58",
        what: "the agent is restarted on a bad node",
        answer: "state=down reason=HostPort port=80",
        make: || {
            let mut stage = super::theft::row(kind::HOST_PORT)?;
            let address = stage.wanted.ip();
            stage.agent.wait_state_of(address, "state=down reason=HostPort", SOON)?;
            stage.agent.stop()?;
            stage.agent = quick(&stage.node).start()?;
            eventually(SOON, || {
                let line = stage.agent.state_line_of(address)?;
                if !line.starts_with("state=down ") {
                    return Ok(Err(line));
                }
                ensure!(line.contains("reason=HostPort"), "{line}");
                Ok(Ok(()))
            })?
            .map_err(|line| anyhow::anyhow!("shown as {line}"))?;
            Ok(stage.note("from the first answer on"))
        },
    },
    Fault {
        id: "59",
        what: "an impostor answers on the health port",
        answer: "",
        make: || {
            let node = Node::new()?;
            let envoy = Envoy::start(&node)?;
            let any = "::".parse()?;
            let impostor = Thief::at(&node, any, HEALTH_PORT).v6only(false).http().start()?;
            let mut agent = quick(&node).start()?;
            let status = agent.process().wait_exit(SOON)?;
            ensure!(status.code() == Some(69), "{status}; the agent's log:\n{}", agent.log());
            let mut stage = Stage::new(&node, agent).keep(envoy).keep(impostor);
            stage.said = Some("ends with code 69: the address is in use".to_owned());
            Ok(stage)
        },
    },
];

/// What a BIG-IP with this monitor finds on the health port.
fn f5(node: &Node, monitor: &Monitor) -> Result<Finding> {
    let member = SocketAddr::new(node_v4(1).into(), HEALTH_PORT);
    node.outside().enter(|| bigip::probe(monitor, Prober::Bigd, member, Duration::from_secs(2)))
}
