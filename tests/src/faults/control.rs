//! Faults of Envoy's control path: what it was told and did not do.

use std::net::TcpListener;

use anyhow::Result;
use serde_json::json;

use super::{Fault, Stage};
use crate::scene::{quick, wait_reason, wait_status};
use crate::{Caps, Envoy, Listener, Nginx, Node, Scene, Thief, Tls};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        id: "1",
        what: "a changed listener is rejected: the old ports keep serving, the new one never opens",
        answer: "state=down reason=ListenerRejected port=8443",
        make: || {
            let mut scene = Scene::up()?;
            let changed = Listener { ports: vec![80, 443, 8443], broken: true, ..Listener::gateway() };
            scene.envoy.set_listeners(&[changed])?;
            let first = scene.first();
            Ok(Stage::from(scene).clients_at(first, 8443))
        },
    },
    Fault {
        id: "1b",
        what: "a changed listener is rejected, all of its ports keep serving",
        answer: "state=up",
        make: || {
            let mut scene = Scene::up()?;
            scene.envoy.set_listeners(&[Listener { broken: true, ..Listener::gateway() }])?;
            wait_reason(&scene.agent, "ConfigCurrent", "UpdateRejected")?;
            Ok(Stage::from(scene).note("`ConfigCurrent`: `UpdateRejected`"))
        },
    },
    Fault {
        id: "3",
        what: "Envoy may not bind: NET_BIND_SERVICE is missing, or the chart key was mistyped",
        answer: "state=down reason=BindPermissionDenied port=80,443",
        make: || unserved(|node| Envoy::builder(node).caps(Caps::None).start_unserved()),
    },
    Fault {
        id: "4",
        what: "443 is taken by another process: the listener of both ports is refused, and never tried again",
        answer: "state=down port=443",
        make: || {
            let node = Node::new()?;
            let squatter = Thief::at(&node, [0, 0, 0, 0].into(), 443).http().start()?;
            let envoy = Envoy::builder(&node).start_unserved()?;
            Ok(Stage::new(&node, quick(&node).start()?).keep(envoy).keep(squatter).at_port(443))
        },
    },
    Fault {
        id: "5",
        what: "two listeners of one name: the configuration is refused",
        answer: "state=down reason=ListenerRejected port=8443",
        make: || {
            let mut scene = Scene::up()?;
            let twin = Listener { ports: vec![8443], ..Listener::gateway() };
            scene.envoy.set_listeners(&[Listener::gateway(), twin])?;
            let first = scene.first();
            Ok(Stage::from(scene).clients_at(first, 8443))
        },
    },
    Fault {
        id: "7",
        what: "a TLS passthrough port (8443) is folded into 443 and never bound",
        answer: "state=down reason=NoListener port=8443",
        make: || {
            let node = Node::new()?;
            let envoy = Envoy::start(&node)?;
            let scene = Scene { agent: quick(&node).set("ports", json!([80, 443, 8443])).start()?, envoy, node };
            let first = scene.first();
            Ok(Stage::from(scene).at_port(443).clients_at(first, 8443))
        },
    },
    Fault {
        id: "8",
        what: "adding HTTPS breaks HTTP: the connection is accepted and closed",
        answer: "state=down reason=ProbeReset port=80",
        make: || {
            let mut scene = Scene::up()?;
            scene.envoy.set_listeners(&[Listener { plain: false, ..Listener::gateway() }])?;
            Ok(scene.into())
        },
    },
    Fault {
        id: "9",
        what: "the certificate's Secret is missing: reset after the ClientHello",
        answer: "state=down reason=TlsFailed port=443",
        make: || {
            let keyless = Listener { tls: Tls::MissingSecret(vec![crate::listener::SNI.into()]), ..Listener::gateway() };
            let stage = unserved(|node| Envoy::builder(node).listeners(vec![keyless]).start())?;
            Ok(Stage { tls: true, ..stage.at_port(443) })
        },
    },
    Fault {
        id: "10",
        what: "Envoy has lost its control plane and serves what it has",
        answer: "state=up",
        make: || {
            let node = Node::new()?;
            let control_plane = node.enter(|| Ok(TcpListener::bind("127.0.0.1:18000")?))?;
            let envoy = Envoy::builder(&node).control_plane(control_plane.local_addr()?).start()?;
            let scene = Scene::with(&node, envoy, quick(&node))?;
            let (stream, _) = control_plane.accept()?;
            wait_status(&scene.agent, "ConfigCurrent", "true")?;
            drop((stream, control_plane));
            wait_reason(&scene.agent, "ConfigCurrent", "XdsDisconnected")?;
            Ok(Stage::from(scene).note("`ConfigCurrent`: `XdsDisconnected`"))
        },
    },
    Fault {
        id: "11",
        what: "the wait for the configuration timed out: Envoy is LIVE without a gateway listener",
        answer: "state=down reason=NoListener port=80,443",
        make: || unserved(|node| Envoy::builder(node).listeners(Vec::new()).start_unserved()),
    },
    Fault {
        id: "19",
        what: "another proxy took 80 first; its 404 counts as healthy",
        answer: "state=down reason=ForeignOwner port=80",
        make: || {
            let node = Node::new()?;
            let nginx = Nginx::start(&node, &["80", "[::]:80 ipv6only=on"])?;
            let https = Listener { ports: vec![443], ..Listener::gateway() };
            let envoy = Envoy::builder(&node).listeners(vec![https, Listener::http(80)]).start_unserved()?;
            Ok(Stage::new(&node, quick(&node).start()?).keep(envoy).keep(nginx))
        },
    },
];

/// A new node with an Envoy that does not serve, and an agent that never saw it better.
fn unserved(envoy: impl FnOnce(&Node) -> Result<Envoy>) -> Result<Stage> {
    let node = Node::new()?;
    let envoy = envoy(&node)?;
    Ok(Scene { agent: quick(&node).start()?, envoy, node }.into())
}
