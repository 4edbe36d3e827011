//! An owner with very many descriptors: the pass does not depend on their number, the search off the pass finds the socket.
//! In a binary of its own, because a process with the machine's limit of descriptors is a heavy neighbour. Needs root.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use gwready::observe::owners::{OwnerReader, Settings};
use gwready_core::facts::Reading;
use gwready_core::facts::processes::{Holders, Owners};
use gwready_core::facts::sockets::{Listener, SocketId};
use rustix::process::{Resource, getrlimit};

const BOUND: Duration = Duration::from_secs(60);

fn row(inode: u64) -> Listener {
    Listener::bound_to(SocketId { inode, cookie: inode }, (Ipv4Addr::LOCALHOST, 80).into())
}

fn bound() -> (OwnedFd, u64) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let inode = rustix::fs::fstat(&listener).unwrap().st_ino;
    (listener.into(), inode)
}

#[track_caller]
fn read(reader: &mut OwnerReader, rows: &[Listener]) -> Owners {
    match reader.read(rows) {
        Reading::Observed { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

fn held(owners: &Owners, inode: u64, pid: u32) -> bool {
    matches!(&owners.holders[&inode], Holders::Known { pids, .. } if *pids == [pid])
}

/// The median of 21 passes.
fn pass_time(reader: &mut OwnerReader, rows: &[Listener]) -> Duration {
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let window = reader.read(rows).window().unwrap();
            window.end.since(window.begin)
        })
        .collect();
    times.sort_unstable();
    times[10]
}

/// What a pass would cost that read every descriptor, on the machine as loaded as it is.
fn listing_time(pid: u32) -> Duration {
    let begin = std::time::Instant::now();
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    assert!(links.count() > 3_000);
    begin.elapsed()
}

#[test]
fn fifty_thousand_descriptors_do_not_slow_a_pass() {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let count = hard.saturating_sub(100).min(50_000);
    assert!(count >= 4_000, "a hard limit of {hard} descriptors is too low to tell anything");
    let ((first, early), (second, late)) = (bound(), bound());
    // Opens null devices up to `count`, and the second socket behind all of them; then becomes a sleeper.
    let script = format!(
        "ulimit -Sn $(ulimit -Hn); for ((fd = 20; fd < {count}; fd++)); do eval \"exec $fd</dev/null\"; done; \
         exec {count}<&0 0</dev/null; echo ready; exec sleep 600 1>&-"
    );
    // The first socket arrives as standard error, a low number as in an Envoy that opened it at its start.
    let mut command = Command::new("bash");
    command.args(["-c", &script]).stdin(Stdio::from(second)).stderr(Stdio::from(first)).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = child.id();

    let outcome = std::panic::catch_unwind(|| {
        assert_eq!(line.trim(), "ready");
        let (send, woken) = channel();
        let wake = Arc::new(move || {
            let _ = send.send(());
        });
        let mut reader = OwnerReader::new(Settings { first_walk: BOUND, ..Settings::default() }, wake);
        let owners = read(&mut reader, &[row(early)]);
        assert!(held(&owners, early, pid), "{owners:?}");
        let open = owners.processes[&pid].open_files.unwrap();
        assert!(open > count - 50, "{open} of {count} open");

        // A socket that appears behind all others: the pass gives up on it in time, the walk does not.
        let begin = std::time::Instant::now();
        let mut owners = read(&mut reader, &[row(early), row(late)]);
        assert!(held(&owners, early, pid));
        while !held(&owners, late, pid) {
            assert!(begin.elapsed() < BOUND, "{owners:?}");
            let _ = woken.recv_timeout(Duration::from_millis(100));
            owners = read(&mut reader, &[row(early), row(late)]);
        }
        while reader.searching() {
            woken.recv_timeout(BOUND).unwrap();
            read(&mut reader, &[row(early), row(late)]);
        }
        let many = pass_time(&mut reader, &[row(early), row(late)]);
        let listing = listing_time(pid);
        println!("one pass over an owner of {open} descriptors: {many:?}; reading them all: {listing:?}");
        assert!(many * 4 < listing, "a pass ({many:?}) looks at the descriptors (reading them all: {listing:?})");
    });
    child.kill().unwrap();
    child.wait().unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
