//! The eBPF programs against a real kernel: what they report, what they leave out, and how they fail.
//!
//! Records are in the ring when the system call that caused them returns, so a drain in the same thread
//! sees all of them: no test here waits for an event, except the one about waiting.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gwready::events::load::{self, Events, LoadError, Options};
use gwready::events::ring::Drained;
use gwready::events::{Actor, KernelEvent, SignalResult};
use gwready_tests::Space;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

const OWN: Options = Options { own_namespace_only: true, debug: false };
const ALL: Options = Options { own_namespace_only: false, debug: false };
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn space(name: &str) -> Result<Space> {
    let space = Space::new(name)?;
    space.output("ip", &["link", "set", "lo", "up"])?;
    Ok(space)
}

fn loaded(options: Options, ports: &[u16]) -> Result<Events> {
    let mut events = load::load(options)?;
    for program in events.programs() {
        ensure!(program.attached.is_ok(), "{program:?}");
    }
    events.watch.set_ports(&ports.iter().copied().collect())?;
    Ok(events)
}

fn drained(events: &mut Events) -> (Vec<KernelEvent>, Drained) {
    let mut all = Vec::new();
    let drained = events.ring.drain(|event| all.push(event));
    (all, drained)
}

/// (port, address, listening) of listener events.
fn listeners(events: &mut Events) -> Vec<(u16, IpAddr, bool)> {
    let what = |event| match event {
        KernelEvent::Listener { port, address, listening, .. } => Some((port, address, listening)),
        _ => None,
    };
    drained(events).0.into_iter().filter_map(what).collect()
}

/// A program that sleeps until it is ended; ended with the value.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Result<Self> {
        Ok(Self(Command::new("sleep").arg("600").spawn()?))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.0.id())?).context("pid 0")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_listener_that_comes_and_goes_is_reported_with_where_and_who() -> Result<()> {
    let space = space("bpf-listener")?;
    let inode = u32::try_from(space.net_inode()?)?;
    space.enter(|| {
        let mut events = loaded(OWN, &[80])?;
        assert_eq!(events.namespace(), Some(inode));
        let before = gwready::clock::mono();
        let listener = TcpListener::bind((LOOPBACK, 80))?;
        let (seen, _) = drained(&mut events);
        let [KernelEvent::Listener { at, port: 80, address, listening: true, netns, by }] = seen.as_slice() else {
            panic!("{seen:?}");
        };
        assert_eq!((*address, *netns), (LOOPBACK, Some(inode)));
        assert!(*at >= before && *at <= gwready::clock::mono(), "the kernel's clock is ours");
        let Actor { pid, comm, .. } = by;
        let own = std::fs::read_to_string("/proc/thread-self/comm")?;
        assert_eq!((*pid, comm.as_str()), (std::process::id(), own.trim_end()));

        drop(listener);
        assert_eq!(listeners(&mut events), [(80, LOOPBACK, false)]);
        Ok(())
    })
}

#[test]
fn both_families_and_only_watched_ports_are_reported() -> Result<()> {
    space("bpf-ports")?.enter(|| {
        let mut events = loaded(OWN, &[443, 64])?;
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        // 63, 65, 442 and 444 are the neighbours in the bitmap.
        for port in [63, 65, 442, 444, 80] {
            drop(TcpListener::bind((LOOPBACK, port))?);
        }
        let held = [TcpListener::bind((v6, 443))?, TcpListener::bind((Ipv6Addr::UNSPECIFIED, 64))?];
        let unspecified = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        assert_eq!(listeners(&mut events), [(443, v6, true), (64, unspecified, true)]);

        events.watch.set_ports(&BTreeSet::from([80, 443]))?;
        drop(held);
        drop(TcpListener::bind((LOOPBACK, 80))?);
        let seen = listeners(&mut events);
        assert_eq!(seen, [(443, v6, false), (80, LOOPBACK, true), (80, LOOPBACK, false)]);
        Ok(())
    })
}

#[test]
fn connections_are_counted_and_are_no_listeners() -> Result<()> {
    space("bpf-count")?.enter(|| {
        let mut events = loaded(OWN, &[80])?;
        let listener = TcpListener::bind((LOOPBACK, 80))?;
        drained(&mut events);
        assert_eq!(events.watch.established(80), Some(0));
        for _ in 0..7 {
            let client = TcpStream::connect((LOOPBACK, 80))?;
            drop((listener.accept()?, client));
        }
        assert_eq!(events.watch.established(80), Some(7));
        assert_eq!(events.watch.established(443), None, "a port that is not watched has no count");
        assert_eq!(listeners(&mut events), [], "an accepted connection is no change of its listener");
        Ok(())
    })
}

#[test]
fn namespaces_are_told_apart() -> Result<()> {
    let (here, elsewhere) = (space("bpf-here")?, space("bpf-elsewhere")?);
    let listen_elsewhere = || {
        elsewhere.enter(|| {
            let listener = TcpListener::bind((LOOPBACK, 80))?;
            let client = TcpStream::connect((LOOPBACK, 80))?;
            drop((listener.accept()?, client));
            Ok(())
        })
    };
    here.enter(|| {
        let mut own = loaded(OWN, &[80])?;
        let mut all = loaded(ALL, &[80])?;
        listen_elsewhere()?;
        assert_eq!(listeners(&mut own), []);
        assert_eq!(own.watch.established(80), Some(0));

        let foreign = u32::try_from(elsewhere.net_inode()?)?;
        let (seen, _) = drained(&mut all);
        // Other tests on this machine may listen on 80 in namespaces of their own.
        let of_foreign =
            seen.iter().filter(|event| matches!(event, KernelEvent::Listener { netns, port: 80, .. } if *netns == Some(foreign)));
        assert_eq!(of_foreign.count(), 2);
        assert_eq!(all.watch.established(80), None, "a count of all namespaces is not ours");
        Ok(())
    })
}

#[test]
fn signals_and_the_end_of_a_watched_process_are_reported() -> Result<()> {
    space("bpf-signal")?.enter(|| {
        let mut events = loaded(OWN, &[])?;
        let (mut watched, mut other) = (Sleeper::start()?, Sleeper::start()?);
        events.watch.set_pids(&BTreeSet::from([watched.id()]))?;
        watched.signal(Signal::CONT)?;
        other.signal(Signal::TERM)?;
        // None of those that change what a process can do for a client.
        watched.signal(Signal::WINCH)?;
        watched.signal(Signal::TERM)?;
        watched.0.wait()?;
        other.0.wait()?;

        let (seen, _) = drained(&mut events);
        let facts: Vec<_> = seen
            .iter()
            .map(|event| match event {
                KernelEvent::Signal { signal, target, result, by, .. } => {
                    assert_eq!(by.pid, std::process::id());
                    (*target, Some((*signal, *result)))
                }
                KernelEvent::Exit { pid, comm, .. } => {
                    assert_eq!(comm, "sleep");
                    (*pid, None)
                }
                KernelEvent::Listener { .. } => panic!("{event:?}"),
            })
            .collect();
        let id = watched.id();
        let continued = (id, Some((libc::SIGCONT, SignalResult::Ignored)));
        let terminated = (id, Some((libc::SIGTERM, SignalResult::Delivered)));
        assert_eq!(facts, [continued, terminated, (id, None)]);

        events.watch.set_pids(&BTreeSet::new())?;
        let mut late = Sleeper::start()?;
        late.0.kill()?;
        late.0.wait()?;
        assert_eq!(drained(&mut events).0, []);
        Ok(())
    })
}

#[test]
fn term_to_the_init_of_a_pid_namespace_is_reported_as_ignored() -> Result<()> {
    let space = space("bpf-init")?;
    let mut command = Command::new("sleep");
    command.arg("600");
    let init = Sleeper(space.spawn_as_init(command)?);
    space.enter(|| {
        let mut events = loaded(OWN, &[])?;
        events.watch.set_pids(&BTreeSet::from([init.id()]))?;
        init.signal(Signal::TERM)?;
        let (seen, _) = drained(&mut events);
        let [KernelEvent::Signal { signal: libc::SIGTERM, target, result: SignalResult::Ignored, .. }] = seen.as_slice() else {
            panic!("{seen:?}");
        };
        assert_eq!(*target, init.id());
        Ok(())
    })
}

#[test]
fn what_finds_no_room_in_the_ring_is_counted() -> Result<()> {
    space("bpf-overflow")?.enter(|| {
        let mut events = loaded(OWN, &[80])?;
        const ROUNDS: usize = 3000;
        for _ in 0..ROUNDS {
            drop(TcpListener::bind((LOOPBACK, 80))?);
        }
        let (seen, drained_once) = drained(&mut events);
        assert!(drained_once.lost > 0, "{drained_once:?}");
        assert_eq!(seen.len() + usize::try_from(drained_once.lost)?, 2 * ROUNDS);

        drop(TcpListener::bind((LOOPBACK, 80))?);
        let (seen, after) = drained(&mut events);
        assert_eq!((seen.len(), after.lost), (2, 0), "a drained ring has room again, and a loss is told once");
        Ok(())
    })
}

#[test]
fn the_descriptor_wakes_a_thread_that_polls_it() -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let space = space("bpf-poll")?;
    space.enter(|| {
        let mut events = loaded(OWN, &[80])?;
        let ready = |events: &Events, patience: Duration| -> Result<usize> {
            let mut descriptors = [PollFd::from_borrowed_fd(events.ring.as_fd(), PollFlags::IN)];
            Ok(poll(&mut descriptors, Some(&Timespec::try_from(patience)?))?)
        };
        assert_eq!(ready(&events, Duration::ZERO)?, 0);
        let woken = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ready(&events, Duration::from_secs(10)));
            space.enter(|| Ok(TcpListener::bind((LOOPBACK, 80)).map(drop)?))?;
            waiting.join().map_err(|_| anyhow::anyhow!("the waiting thread panicked"))?
        })?;
        assert_eq!(woken, 1);
        assert_eq!(listeners(&mut events).len(), 2);
        assert_eq!(ready(&events, Duration::ZERO)?, 0, "drained");
        Ok(())
    })
}

#[test]
fn without_privileges_the_reason_is_one_sentence() -> Result<()> {
    space("bpf-bare")?.enter(|| {
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
        let error = load::load(OWN).err().context("loaded without a capability")?;
        let said = error.to_string();
        assert!(said.contains("CAP_BPF and CAP_PERFMON") && !said.contains('\n'), "{said}");
        Ok(())
    })
}

#[test]
fn a_capability_that_lacks_only_perfmon_is_named_too() -> Result<()> {
    space("bpf-noperf")?.enter(|| {
        let only = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
        set_capabilities(None, CapabilitySets { effective: only, permitted: only, inheritable: CapabilitySet::empty() })?;
        match load::load(OWN) {
            Err(LoadError::NothingAttached(reason)) => assert!(reason.contains("CAP_PERFMON"), "{reason}"),
            Err(other) => panic!("{other}"),
            Ok(events) => panic!("{:?}", events.programs()),
        }
        Ok(())
    })
}
