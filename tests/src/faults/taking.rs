//! Envoy listens and does not take: queues that stand, threads that stand, limits that are reached. And what only looks like it.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::look::Asking;
use super::{Fault, Stage};
use crate::client;
use crate::freezer::freeze;
use crate::halt::halt;
use crate::node::node_v4;
use crate::scene::{SOON, wait_reason};
use crate::{Listener, Node, Scene, eventually};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        id: "27",
        what: "no worker accepts any more, the accept queues are full",
        answer: "state=down reason=QueueStuck port=80",
        make: || {
            let scene = Scene::up_with(|envoy| envoy.listeners(vec![Listener { backlog: Some(4), ..Listener::http(80) }]))?;
            let workers = halt(scene.envoy.pid()?, "wrk:")?;
            let waiting = connect(&scene.node, 64)?;
            Ok(Stage::from(scene).hold(workers).keep(waiting))
        },
    },
    Fault {
        id: "28",
        what: "one of two workers is stuck: its part of the connections hangs, its queue is far from full",
        answer: "state=down reason=WorkerStuck port=80",
        make: || {
            let scene = Scene::up_with(|envoy| envoy.listeners(vec![Listener::http(80)]))?;
            let worker = halt(scene.envoy.pid()?, "wrk:worker_0")?;
            let waiting = connect(&scene.node, 32)?;
            Ok(Stage::from(scene).hold(worker).keep(waiting))
        },
    },
    Fault {
        id: "29",
        what: "Envoy is stopped: the kernel goes on completing handshakes",
        answer: "state=down reason=ProcessStopped port=80,443",
        make: || {
            let scene = Scene::up()?;
            scene.envoy.stop()?;
            Ok(scene.into())
        },
    },
    Fault {
        id: "29",
        what: "Envoy's cgroup is frozen",
        answer: "state=down reason=ProcessStopped port=80,443",
        make: || {
            let scene = Scene::up()?;
            let frozen = freeze(0, scene.envoy.pid()?)?;
            Ok(Stage::from(scene).hold(frozen))
        },
    },
    Fault {
        id: "30",
        what: "nothing is wrong for clients: Envoy's main thread is blocked, its workers serve",
        answer: "state=up",
        make: || {
            let scene = Scene::up()?;
            scene.envoy.block_main_thread()?;
            wait_reason(&scene.agent, "EnvoyLive", "AdminUnreachable")?;
            Ok(Stage::from(scene).note("`EnvoyLive`: `AdminUnreachable`, unknown"))
        },
    },
    Fault {
        id: "31",
        what: "the overload manager accepts every connection and closes it",
        answer: "state=down reason=ProbeReset port=80",
        make: || {
            let scene = Scene::up_with(crate::EnvoyBuilder::overload)?;
            scene.envoy.set_pressure(1.0)?;
            Ok(scene.into())
        },
    },
    Fault {
        id: "31b",
        what: "every node is at its limit: the queue is full and moves",
        answer: "state=up",
        make: || {
            let listeners = vec![Listener { backlog: Some(2), ..Listener::http(80) }];
            let mut scene = Scene::up_with(|envoy| envoy.concurrency(1).listeners(listeners))?;
            let busy = Busy::start(scene.envoy.pid()?)?;
            let crowd = Crowding::start(&scene.node);
            wait_reason(&scene.agent, "Accepting", "Overloaded")?;
            // Longer than any grace, and than it takes three probes to fail.
            let watched = Instant::now() + Duration::from_secs(6);
            eventually(SOON, || {
                let line = scene.agent.state_line()?;
                ensure!(!line.starts_with("state=up ") || Instant::now() >= watched, "still watching");
                Ok(())
            })?;
            scene.agent.process().ensure_running()?;
            let stage = Stage::from(scene).hold(busy).keep(crowd).note("`Accepting`: `Overloaded`");
            Ok(Stage { asking: Asking::SPREAD, ..stage })
        },
    },
    Fault {
        id: "33",
        what: "the limit of open files is reached: accept fails",
        answer: "state=down reason=OutOfFileDescriptors port=80",
        make: || {
            let scene = Scene::up_with(|envoy| envoy.listeners(vec![Listener::http(80)]))?;
            let pid = Pid::from_raw(scene.envoy.pid()?).context("pid 0")?;
            prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(8), ..getrlimit(Resource::Nofile) })?;
            Ok(scene.into())
        },
    },
    Fault {
        id: "34",
        what: "a tiny backlog: all is fine until there is load",
        answer: "state=up",
        make: || {
            let scene = Scene::up_with(|envoy| envoy.listeners(vec![Listener { backlog: Some(1), ..Listener::gateway() }]))?;
            let limit = scene.agent.metric_value("gwready_accept_queue_limit", &[("port", "80"), ("family", "ipv4")])?;
            ensure!((limit - 1.0).abs() < f64::EPSILON, "accept_queue_limit is {limit}");
            Ok(Stage { asking: Asking::ONCE, ..Stage::from(scene) }.note("metric `accept_queue_limit` is 1"))
        },
    },
];

/// Connections from outside that nobody need answer, those that the kernel completes.
fn connect(node: &Node, count: usize) -> Result<Vec<TcpStream>> {
    let to = SocketAddr::new(node_v4(1).into(), 80);
    node.outside().enter(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..count).map(|_| scope.spawn(move || TcpStream::connect_timeout(&to, Duration::from_millis(500)))).collect();
            Ok(threads.into_iter().filter_map(|thread| thread.join().ok()?.ok()).collect())
        })
    })
}

/// Clients that ask one after the other without a pause, until dropped.
struct Crowding {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowding {
    fn start(node: &Node) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let to = SocketAddr::new(node_v4(1).into(), 80);
        let threads = (0..6).map(|_| {
            let (over, node) = (Arc::clone(&over), node.clone());
            std::thread::spawn(move || {
                let asked = node.outside().enter(|| {
                    while !over.load(Ordering::Relaxed) {
                        // Whoever is turned away comes again.
                        drop(client::ask_here(to, Duration::from_secs(2)));
                    }
                    Ok(())
                });
                drop(asked);
            })
        });
        Self { threads: threads.collect(), over }
    }
}

impl Drop for Crowding {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A worker that has more to do than it can: it works for a moment and stands for two, until dropped.
struct Busy {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start(pid: i32) -> Result<Self> {
        let (over, is_over) = channel::<()>();
        let moment = Duration::from_millis(60);
        let thread = std::thread::Builder::new().name("busy".into()).spawn(move || {
            while is_over.recv_timeout(moment) == Err(RecvTimeoutError::Timeout) {
                // Fails when Envoy has ended, and then the box says so.
                let Ok(_standing) = halt(pid, "wrk:") else { return };
                if is_over.recv_timeout(2 * moment) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { over: Some(over), thread: Some(thread) })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
