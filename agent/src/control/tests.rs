//! Server and client against each other over real sockets.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

struct Echo(&'static str);

impl Handler for Echo {
    async fn handle(&self, request: Request, peer: Peer) -> Response {
        match request {
            Request::Undrain => Response::Error("nothing to undrain".to_owned()),
            other => Response::of(&json!({"by": self.0, "request": other, "uid": peer.uid})),
        }
    }
}

fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// An agent of the given name on a thread of its own; it ends, and drops its socket, when this is dropped.
struct Agent {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Agent {
    fn start(path: &Path, name: &'static str, own_uid: u32) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (bound_tx, bound_rx) = std::sync::mpsc::channel();
        let path = path.to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async move {
                let bound = bind(&path).expect("bind");
                bound_tx.send(()).expect("test waits");
                tokio::select! {
                    () = serve(bound, own_uid, Arc::new(Echo(name))) => {}
                    _ = stopped => {}
                }
            });
        });
        bound_rx.recv().expect("bound");
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(std::thread::JoinHandle::join).expect("once").expect("no panic");
    }
}

fn ask(path: &Path) -> Result<Value, CallError> {
    call(path, &Request::Drain { for_ms: Some(5), reason: "a\nb".to_owned() })
}

#[test]
fn a_request_is_answered_with_the_peer_known() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("sub/gwready.sock");
    let _agent = Agent::start(&path, "one", uid());
    let answer = ask(&path).expect("answer");
    assert_eq!(answer, json!({"by": "one", "request": {"do": "drain", "for_ms": 5, "reason": "a\nb"}, "uid": uid()}));
    assert_eq!(path.metadata().expect("socket").permissions().mode() & 0o777, 0o600);
    assert!(matches!(call(&path, &Request::Undrain), Err(CallError::Refused(sentence)) if sentence == "nothing to undrain"));
}

#[test]
fn root_and_the_own_user_are_served() {
    let served = |peer, own| server::is_served(peer, own);
    assert!(served(0, 0) && served(0, 65_532) && served(65_532, 65_532));
    assert!(!served(1000, 0) && !served(1000, 65_532));
}

#[test]
fn a_stranger_is_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("s");
    // The peer's uid can only be our own here, so the server is told that it runs as another one. Root is always served.
    let _agent = Agent::start(&path, "one", uid() + 1);
    match ask(&path) {
        Ok(_) => assert_eq!(uid(), 0),
        Err(CallError::Refused(sentence)) => assert!(sentence.contains("may not talk"), "{sentence}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn nonsense_and_oversized_lines_are_answered_with_an_error() {
    use std::io::{BufRead, BufReader, Write};
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("s");
    let _agent = Agent::start(&path, "one", uid());
    for text in ["hello\n".to_owned(), "{\"do\":\"reboot\"}\n".to_owned(), "x".repeat(70_000)] {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("connect");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("timeout");
        let _ = stream.write_all(text.as_bytes());
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("answer");
        assert!(answer.contains("not a request"), "{answer}");
    }
}

#[test]
fn a_new_agent_takes_the_name_over_and_the_old_one_does_not_remove_it() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("s");
    let old = Agent::start(&path, "old", uid());
    let new = Agent::start(&path, "new", uid());
    assert_eq!(ask(&path).expect("answer")["by"], "new");
    drop(old);
    assert_eq!(ask(&path).expect("still there")["by"], "new");
    drop(new);
    assert!(!path.exists(), "the last one removes its own name");
    assert!(matches!(ask(&path), Err(CallError::NoDaemon { .. })));
}

/// Asks until somebody answers; bounded.
fn ask_until(path: &Path, name: &str) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let answer = ask(path);
        if answer.as_ref().is_ok_and(|answer| answer["by"] == name) {
            return;
        }
        assert!(std::time::Instant::now() < end, "{answer:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_name_that_is_lost_is_taken_again() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("sub/s");
    let _old = Agent::start(&path, "old", uid());
    std::fs::remove_dir_all(path.parent().expect("folder")).expect("removed");
    ask_until(&path, "old");
    drop(Agent::start(&path, "new", uid()));
    ask_until(&path, "old");
    // A successor that was killed leaves a name that nobody serves.
    let dead = std::os::unix::net::UnixListener::bind(dir.path().join("dead")).expect("bind");
    std::fs::rename(dir.path().join("dead"), &path).expect("renamed");
    drop(dead);
    ask_until(&path, "old");
}

#[test]
fn the_own_folder_must_be_ours_and_closed() {
    let dir = tempfile::tempdir().expect("folder");
    let socket = own_socket_path(Some(dir.path().as_os_str()), uid());
    assert_eq!(own_socket_path(None, 7), PathBuf::from("/tmp/gwready-7/agent.sock"));
    prepare_own_folder(&socket, uid()).expect("made");
    prepare_own_folder(&socket, uid()).expect("found");
    let folder = socket.parent().expect("folder");
    assert_eq!(folder.metadata().expect("folder").mode() & 0o777, 0o700);
    assert!(prepare_own_folder(&socket, uid() + 1).is_err(), "somebody else's");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    assert!(prepare_own_folder(&socket, uid()).is_err(), "open to others");
    std::fs::remove_dir(folder).expect("rmdir");
    std::os::unix::fs::symlink(dir.path(), folder).expect("symlink");
    assert!(prepare_own_folder(&socket, uid()).is_err(), "a link");
}
