//! Someone else gets the connections, by the socket table, by Cilium's map or on the way to both.

use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

use anyhow::{Result, ensure};
use gwready_core::lb::service::ServiceKey;

use super::stage::untold;
use super::{Fault, Stage};
use crate::lbmaps::{LbMaps, kind};
use crate::netfilter::Tool;
use crate::node::UPLINK;
use crate::pod::{Detour, ENDPOINT, POD, Pod};
use crate::scene::{maps, quick, tell_pod, wait_reason};
use crate::steer::steer;
use crate::{Envoy, Nginx, Node, Scene, Thief};

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        id: "12",
        what: "ingress-nginx holds hostPort 80 in Cilium's map, Envoy's sockets are perfect",
        answer: "state=down reason=HostPort port=80",
        make: || row(kind::HOST_PORT),
    },
    Fault {
        id: "13",
        what: "a NodePort service is on the node's address and port",
        answer: "state=down reason=NodePort port=80",
        make: || row(kind::NODE_PORT),
    },
    Fault {
        id: "13",
        what: "an externalIP is the node's address",
        answer: "state=down reason=ExternalIP port=80",
        make: || row(kind::EXTERNAL_IP),
    },
    Fault {
        id: "13",
        what: "a LoadBalancer address is the node's address",
        answer: "state=down reason=LoadBalancerIP port=80",
        make: || row(kind::LOAD_BALANCER),
    },
    Fault {
        id: "13b",
        what: "a wildcard drop entry is on the node's address: local checks are fine, clients and balancers get nothing",
        answer: "",
        make: || {
            let (scene, mut maps) = Scene::up_with_maps()?;
            let first = scene.first();
            let detour = Detour::to_nowhere(&scene.node, first)?;
            maps.add_row(ServiceKey::wildcard(first), [0; 4], kind::WILDCARD, &[])?;
            wait_reason(&scene.agent, "NotIntercepted", "WildcardDrop").map_err(|error| untold(&scene.agent, &error))?;
            ensure!(scene.agent.health_from_outside(first).is_err(), "its own port should be dropped too");
            let mut stage = Stage::from(scene).keep(detour);
            stage.said =
                Some("no answer, as its own port is dropped too; the other addresses: `NotIntercepted`: `WildcardDrop`".to_owned());
            Ok(stage)
        },
    },
    Fault {
        id: "14",
        what: "an nftables rule sends the port to a pod ahead of the socket (DNAT)",
        answer: "state=down reason=NetfilterRedirect port=80",
        make: || {
            let node = Node::new()?;
            let pod = Pod::start(&node)?;
            let envoy = Envoy::start(&node)?;
            let scene = Scene::with(&node, envoy, quick(&node))?;
            rule(&node, "nat", "prerouting", &format!("ip daddr 10.77.0.1 tcp dport 80 dnat ip to {POD}:80"))?;
            Ok(Stage::from(scene).keep(pod))
        },
    },
    Fault {
        id: "14",
        what: "an nftables rule sends the port to another one of the node (REDIRECT)",
        answer: "state=down reason=NetfilterRedirect port=80",
        make: || {
            let scene = Scene::up()?;
            let thief = Thief::at(&scene.node, ANY, 8080).http().start()?;
            rule(&scene.node, "nat", "prerouting", "meta nfproto ipv4 tcp dport 80 redirect to :8080")?;
            Ok(Stage::from(scene).keep(thief))
        },
    },
    Fault {
        id: "14",
        what: "an nftables rule drops what comes in for the port",
        answer: "state=down reason=NetfilterDrop port=80",
        make: || {
            let scene = Scene::up()?;
            rule(&scene.node, "filter", "input", "iifname eth0 tcp dport 80 drop")?;
            Ok(scene.into())
        },
    },
    Fault {
        id: "15",
        what: "an sk_lookup program steers the port to another socket",
        answer: "state=down reason=SkLookup port=80",
        make: || {
            let scene = Scene::up()?;
            let greeter = Greeter::start(&scene.node)?;
            let steering = scene.node.enter(|| steer(80, greeter.listener.as_fd()))?;
            Ok(Stage::from(scene).keep(steering).keep(greeter))
        },
    },
    Fault {
        id: "16",
        what: "a second root process is bound to the device: it takes every connection",
        answer: "state=down reason=ShadowedAddress port=80",
        make: || {
            let scene = Scene::up()?;
            let thief = Thief::at(&scene.node, ANY, 80).reuseport().device(UPLINK).http().start()?;
            Ok(Stage::from(scene).keep(thief))
        },
    },
    Fault {
        id: "16",
        what: "a second root process is bound to one address: it takes all of that address",
        answer: "state=down reason=ShadowedAddress port=80",
        make: || {
            let scene = Scene::up()?;
            let nginx = Nginx::start(&scene.node, &["10.77.0.1:80 reuseport"])?;
            Ok(Stage::from(scene).keep(nginx))
        },
    },
    Fault {
        id: "17",
        what: "a second root process shares the port by SO_REUSEPORT and gets its part",
        answer: "state=down reason=SharedPort port=80",
        make: || {
            let scene = Scene::up()?;
            let nginx = Nginx::start(&scene.node, &["80 reuseport"])?;
            Ok(Stage::from(scene).keep(nginx))
        },
    },
    Fault {
        id: "18",
        what: "a left-over cilium-envoy is still in the group",
        answer: "state=down reason=TwoEnvoys port=80,443",
        make: || {
            let scene = Scene::up()?;
            let second = Envoy::builder(&scene.node).second(7).start()?;
            Ok(Stage::from(scene).keep(second))
        },
    },
    Fault {
        id: "21",
        what: "the listener that is seen is in another network namespace (`ss` run in a pod)",
        answer: "state=down reason=NoListener port=80,443",
        make: || {
            let node = Node::new()?;
            let pod = Pod::start(&node)?;
            let envoy = Envoy::builder(&node).listeners(Vec::new()).start_unserved()?;
            let stage = Stage::new(&node, quick(&node).start()?).keep(envoy);
            Ok(Stage { ss_at: Some(pod), ..stage })
        },
    },
    Fault {
        id: "22",
        what: "nothing is wrong: Envoy runs below its starter, with that as its parent",
        answer: "state=up",
        make: || {
            let node = Node::new()?;
            let envoy = Envoy::builder(&node).starter().start()?;
            Ok(Scene::with(&node, envoy, quick(&node))?.into())
        },
    },
    Fault {
        id: "22",
        what: "nothing is wrong: Envoy runs without a starter, as embedded in the agent",
        answer: "state=up",
        make: || Ok(Scene::up()?.into()),
    },
];

/// A healthy node, then a row for the first address and port 80 with a pod behind it, and the packets turned as the row says.
pub(super) fn row(kind: (u8, u8)) -> Result<Stage> {
    let node = Node::new()?;
    let pod = Pod::start(&node)?;
    let mut maps: LbMaps = maps(&node)?;
    maps.add_endpoint(POD.into(), ENDPOINT, false)?;
    tell_pod(&node, ENDPOINT, "kube-system", "rke2-ingress-nginx-x")?;
    let envoy = Envoy::start(&node)?;
    let scene = Scene::with(&node, envoy, quick(&node))?;
    let first = scene.first();
    let detour = Detour::to_pod(&node, first, 80)?;
    maps.add(first, 80, kind, &[(POD.into(), 80)])?;
    Ok(Stage::from(scene).keep(detour).keep(pod))
}

/// One rule in a chain of its own.
fn rule(node: &Node, kind: &str, hook: &str, rule: &str) -> Result<()> {
    let chain = format!("table inet foreign {{ chain way {{ type {kind} hook {hook} priority -10; {rule}; }}; }}\n");
    Tool::Nft.load(node.space(), &chain)
}

/// A socket of this process on another port that answers whoever is sent to it.
struct Greeter {
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Greeter {
    fn start(node: &Node) -> Result<Self> {
        let listener = node.enter(|| Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 9000))?))?;
        let accepting = listener.try_clone()?;
        let thread = std::thread::Builder::new().name("greeter".into()).spawn(move || {
            // Ends when the listener is shut down.
            for stream in accepting.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    use std::io::{Read, Write};
                    let mut sink = [0; 1024];
                    drop(stream.read(&mut sink));
                    drop(stream.write_all(b"HTTP/1.1 404 Not Found\r\nserver: thief\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
                });
            }
        })?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Greeter {
    fn drop(&mut self) {
        let socket = socket2::SockRef::from(&self.listener);
        if let Err(error) = socket.shutdown(Shutdown::Both) {
            eprintln!("greeter: {error}");
            return;
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
