//! `Accepting` on real sockets: queues that stand still, one worker of several, and a flood that Envoy works off.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gwready::clock;
use gwready::observe::queue_sampler::QueueSampler;
use gwready::observe::sockets::SocketReader;
use gwready_core::condition::{Finding, Status};
use gwready_core::facts::processes::{Holders, Owners, Process, Readable, RunState};
use gwready_core::facts::{Reading, Snapshot};
use gwready_core::judge::accepting::judge_accepting;
use gwready_core::judge::queues::remember_queues;
use gwready_core::memory::Memory;
use gwready_core::net::{Endpoint, Family};
use gwready_core::plan::{JudgedAddress, ReadPlan};
use gwready_core::policy::Policy;
use gwready_core::reason::Reason;
use gwready_core::time::Window;
use gwready_tests::{Envoy, Listener, Node, Thief, eventually};

const SOON: Duration = Duration::from_secs(20);
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Reads and judges port 80 of the node's first address, as the observer does: a pass per second, samples while suspected.
struct Observer {
    node: Node,
    sampler: QueueSampler,
    memory: Memory,
    plan: ReadPlan,
    passed_at: Instant,
}

impl Observer {
    fn new(node: &Node) -> Self {
        let plan = ReadPlan {
            addresses: vec![JudgedAddress { ip: node.addresses()[0], ingress_if: 2 }],
            ports: vec![80],
            families: vec![Family::Ipv4],
        };
        let sampler = node.enter(|| Ok(QueueSampler::spawn()?)).unwrap();
        Self { node: node.clone(), sampler, memory: Memory::default(), plan, passed_at: Instant::now() }
    }

    fn pass(&mut self) -> Finding {
        let mut snapshot = Snapshot {
            sockets: self.node.enter(|| Ok(SocketReader::new().read(&self.plan))).unwrap(),
            queues: self.sampler.take(),
            ..Snapshot::default()
        };
        let inodes = snapshot.sockets.value().unwrap().listeners.iter().map(|row| row.id.inode).collect::<Vec<_>>();
        snapshot.owners = Reading::Observed { value: owned_by_envoy(&inodes), window: Window { begin: clock::mono(), end: clock::mono() } };
        remember_queues(&mut self.memory.queues, &snapshot);
        self.sampler.watch(&self.plan.ports, self.memory.queues.suspects());
        let endpoint = Endpoint { address: self.node.addresses()[0], port: 80 };
        judge_accepting(&Policy::default(), &snapshot, &self.memory, endpoint, clock::mono())
    }

    /// Waits for the next second to be over, then judges.
    fn tick(&mut self) -> Finding {
        let due = self.passed_at + Duration::from_secs(1);
        eventually(SOON, || {
            ensure!(Instant::now() >= due, "not due");
            Ok(())
        })
        .unwrap();
        self.passed_at = Instant::now();
        self.pass()
    }

    fn tick_until(&mut self, reason: Option<Reason>) -> Result<Duration> {
        let begin = Instant::now();
        loop {
            let finding = self.tick();
            if finding.reason == reason {
                return Ok(begin.elapsed());
            }
            ensure!(begin.elapsed() < SOON, "{finding:?}");
        }
    }
}

/// The state of the process is not what is tested here: somebody alive.
fn owned_by_envoy(inodes: &[u64]) -> Owners {
    let process = Process {
        pid: 7,
        start_ticks: 7,
        exe: Readable::Is("cilium-envoy".into()),
        comm: "cilium-envoy".into(),
        uid: 0,
        no_new_privs: None,
        cap_effective: None,
        cap_permitted: None,
        parent: 1,
        parent_name: None,
        state: RunState::Alive,
        frozen: None,
        same_netns: Some(true),
        pod: None,
        open_files: None,
        open_files_limit: None,
    };
    let holders = inodes.iter().map(|inode| (*inode, Holders::Known { pids: vec![7], complete: true })).collect();
    Owners { holders, processes: [(7, process)].into(), envoys: vec![7], envoys_complete: true, ..Owners::default() }
}

fn connect(node: &Node, count: usize) -> Vec<TcpStream> {
    let to = SocketAddr::new(node.addresses()[0], 80);
    let connected =
        node.outside().enter(|| Ok((0..count).filter_map(|_| TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok()).collect()));
    connected.unwrap()
}

#[test]
fn a_queue_from_which_nobody_accepts_is_stuck_within_four_seconds() {
    let node = Node::builder().addresses(1).without_ipv6().build().unwrap();
    let _deaf = Thief::at(&node, ANY, 80).no_accept().start().unwrap();
    let mut observer = Observer::new(&node);
    assert_eq!(observer.tick().status, Status::True, "an empty queue proves nothing");
    let _waiting = connect(&node, 3);
    let took = observer.tick_until(Some(Reason::QueueStuck)).unwrap();
    assert!(took < Duration::from_millis(4500), "{took:?}");
    assert!(!observer.sampler.has_ended());
}

#[test]
fn one_deaf_member_of_a_group_is_a_stuck_worker_until_it_goes() {
    let node = Node::builder().addresses(1).without_ipv6().build().unwrap();
    let _awake = Thief::at(&node, ANY, 80).reuseport().start().unwrap();
    let deaf = Thief::at(&node, ANY, 80).reuseport().no_accept().start().unwrap();
    let mut observer = Observer::new(&node);
    observer.tick();
    let _clients = connect(&node, 32);
    observer.tick_until(Some(Reason::WorkerStuck)).unwrap();
    drop(deaf);
    observer.tick_until(None).unwrap();
}

#[test]
fn a_flood_that_envoy_works_off_never_counts_as_stuck() {
    let node = Node::builder().addresses(1).without_ipv6().build().unwrap();
    let listener = Listener { backlog: Some(4), ..Listener::http(80) };
    let _envoy = Envoy::builder(&node).concurrency(1).listeners(vec![listener]).start().unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let to = SocketAddr::new(node.addresses()[0], 80);
    let flood: Vec<_> = (0..4)
        .map(|_| {
            let (ends, node) = (Arc::clone(&ends), node.clone());
            std::thread::spawn(move || {
                let connect_on = || {
                    while !ends.load(Ordering::SeqCst) {
                        drop(TcpStream::connect_timeout(&to, Duration::from_millis(200)));
                    }
                    Ok(())
                };
                node.outside().enter(connect_on)
            })
        })
        .collect();
    let mut observer = Observer::new(&node);
    let findings: Vec<Finding> = (0..10).map(|_| observer.tick()).collect();
    ends.store(true, Ordering::SeqCst);
    for thread in flood {
        thread.join().unwrap().unwrap();
    }
    for finding in findings {
        assert_eq!(finding.status, Status::True, "{finding:?}");
    }
}
