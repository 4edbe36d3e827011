//! A reader that has run out of its own descriptors says that it can't see, and never that somebody has gone. In a binary of its own,
//! because the limit is the whole process's.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gwready::observe::owners::{OwnerReader, Settings};
use gwready_core::facts::processes::{Holders, Owners};
use gwready_core::facts::sockets::{Listener, SocketId};
use gwready_core::facts::{Reading, Why};
use gwready_tests::paths::copy_program;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const BOUND: Duration = Duration::from_secs(20);

/// Listens and says so with its socket's inode.
const ENVOY: &str = "import os, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
print(os.fstat(listener.fileno()).st_ino, flush=True)
sys.stdin.read()";

fn observed(reading: Reading<Owners>) -> Owners {
    match reading {
        Reading::Observed { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_descriptor_of_its_own_the_reader_takes_nobody_for_gone() {
    let folder = tempfile::tempdir().unwrap();
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let exe = folder.path().join("cilium-envoy");
    copy_program(&python, &exe).unwrap();
    let mut envoy =
        Command::new(&exe).env("PYTHONHOME", "/usr").args(["-c", ENVOY]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut inode = String::new();
    BufReader::new(envoy.stdout.take().unwrap()).read_line(&mut inode).unwrap();
    let id = SocketId { inode: inode.trim().parse().unwrap(), cookie: 1 };
    let rows = [Listener::bound_to(id, (Ipv4Addr::LOCALHOST, 80).into())];
    let pid = envoy.id();
    let held = |owners: &Owners| matches!(&owners.holders[&id.inode], Holders::Known { pids, .. } if *pids == [pid]);

    let (send, woken) = std::sync::mpsc::channel();
    let wake = Arc::new(move || {
        let _ = send.send(());
    });
    let mut reader = OwnerReader::new(Settings::default(), wake);
    let mut before = observed(reader.read(&rows));
    while reader.searching() {
        woken.recv_timeout(BOUND).unwrap_or_else(|_| panic!("{before:?}"));
        before = observed(reader.read(&rows));
    }
    assert!(held(&before) && before.envoys.contains(&pid), "{before:?}");

    let limit = getrlimit(Resource::Nofile);
    let lowest_free = File::open("/dev/null").unwrap().as_raw_fd();
    setrlimit(Resource::Nofile, Rlimit { current: Some(u64::try_from(lowest_free).unwrap()), ..limit }).unwrap();
    let starved = reader.read(&rows);
    setrlimit(Resource::Nofile, limit).unwrap();
    let unavailable = starved.unavailable().unwrap_or_else(|| panic!("{starved:?}"));
    assert_eq!(unavailable.why, Why::Failed);
    assert!(unavailable.detail.contains("open files"), "{}", unavailable.detail);

    let after = observed(reader.read(&rows));
    assert!(held(&after) && after.envoys.contains(&pid) && !reader.searching(), "nothing was forgotten: {after:?}");
    drop(envoy.stdin.take());
    envoy.wait().unwrap();
}
