//! Envoy, the node or the cilium-agent come and go.

use std::time::Duration;

use anyhow::{Result, ensure};
use gwready::clock;
use rustix::process::Signal;

use super::stage::untold;
use super::{Fault, Stage};
use crate::scene::{SOON, quick, wait_reason};
use crate::{Agent, Envoy, Node, Scene, eventually};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        id: "35",
        what: "`/drain_listeners`: the ports are closed, Envoy says LIVE",
        answer: "state=down reason=NoListener port=80,443",
        make: || {
            let scene = Scene::up()?;
            scene.envoy.post("/drain_listeners")?;
            Ok(scene.into())
        },
    },
    Fault {
        id: "36",
        what: "`/healthcheck/fail`: Envoy wants to leave and still serves",
        answer: "state=drain reason=EnvoyDraining",
        make: || {
            let scene = Scene::up()?;
            scene.envoy.post("/healthcheck/fail")?;
            Ok(scene.into())
        },
    },
    Fault {
        id: "37",
        what: "Envoy's pod is being ended: it serves for another moment",
        answer: "state=drain reason=EnvoyTerminating",
        make: || {
            let node = Node::new()?;
            let mut envoy = Envoy::builder(&node).starter().start()?;
            let mut agent = quick(&node).start()?;
            agent.wait_state("state=up", Duration::from_secs(15))?;
            attached(&agent)?;
            envoy.process().signal(Signal::TERM)?;
            Ok(Stage::new(&node, agent).keep(envoy))
        },
    },
    Fault {
        id: "38",
        what: "the node is under maintenance: `gwready drain`",
        answer: "state=drain reason=DrainRequested",
        make: || {
            let scene = Scene::up()?;
            let drained = scene.agent.command(&["drain", "--for", "10m", "--reason", "new kernel"])?.output()?.status;
            ensure!(drained.success(), "gwready drain: {drained}");
            Ok(scene.into())
        },
    },
    Fault {
        id: "39",
        what: "the cilium-agent is dead: maps are frozen, the configuration ages",
        answer: "state=up",
        make: || {
            let (scene, mut maps) = Scene::up_with_maps()?;
            maps.stamp(clock::mono().0.saturating_sub(11_000_000_000).max(1))?;
            wait_reason(&scene.agent, "CiliumAgentAlive", "CiliumAgentStale").map_err(|error| untold(&scene.agent, &error))?;
            Ok(Stage::from(scene).note("`CiliumAgentAlive`: `CiliumAgentStale`"))
        },
    },
    Fault {
        id: "41",
        what: "a new node: nothing is known yet, and a balancer that waits for nothing sends clients",
        answer: "",
        make: || {
            let node = Node::new()?;
            let envoy = Envoy::start(&node)?;
            let agent = quick(&node).start()?;
            let first = eventually(SOON, || agent.state_line_of(crate::node::node_v4(1).into()))?;
            ensure!(first.starts_with("state=down ") && first.contains("reason=Starting"), "the first answer is {first}");
            let mut stage = Stage::new(&node, agent).keep(envoy).note("in the first answer");
            stage.said = Some(first);
            Ok(stage)
        },
    },
    Fault {
        id: "42",
        what: "the node lost its label: the listener is gone, its address is still published",
        answer: "state=down reason=NoListener port=80,443",
        make: || {
            let mut scene = Scene::up()?;
            scene.envoy.set_listeners(&[])?;
            Ok(scene.into())
        },
    },
];

/// Waits until the agent hears the kernel's own word of a signal.
fn attached(agent: &Agent) -> Result<()> {
    eventually(SOON, || {
        let value = agent.metric_value("gwready_ebpf_attached", &[("program", "signal_generate")])?;
        ensure!(value > 0.5, "not attached");
        Ok(())
    })
    .map_err(|error| untold(agent, &error))
}
