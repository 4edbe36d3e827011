//! The server side: an async task that checks every peer and hands requests to the daemon.

use std::fs::Permissions;
use std::future::Future;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, sleep, timeout};

use super::protocol::{MAX_REQUEST, Request, Response};

/// So many peers are served at once; more wait.
const CONNECTIONS: usize = 16;
/// A peer that neither asks nor reads for so long is cut off.
const IDLE: Duration = Duration::from_secs(10);
/// Between two looks whether the name is still ours.
const LOOK: Duration = Duration::from_secs(2);
/// Pause after an accept that failed for want of descriptors.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Uid of the peer's process when it connected (`SO_PEERCRED`).
    pub uid: u32,
    /// Its pid, where the kernel can tell.
    pub pid: Option<i32>,
}

/// What the daemon does with a request.
pub trait Handler: Send + Sync + 'static {
    /// Answers. Must not block the thread.
    fn handle(&self, request: Request, peer: Peer) -> impl Future<Output = Response> + Send;
}

/// A bound socket. Dropping it removes the name, unless another agent has taken the name over.
#[derive(Debug)]
pub struct Bound {
    listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
}

/// Binds under a new name, closes it to others, and renames it over whatever is there: the path is never without a socket,
/// and an older agent keeps serving those who are already connected to it.
///
/// # Errors
/// The folder can't be made, or the socket can't be bound or renamed. Must be called within a tokio runtime.
pub fn bind(path: &Path) -> io::Result<Bound> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
    let identity = identity(&fresh)?;
    std::fs::rename(&fresh, path)?;
    Ok(Bound { listener, path: path.to_owned(), identity })
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = path.symlink_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Drop for Bound {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Bound {
    /// Nobody can reach us by the name any more, nor anybody else: it is gone, or what took it over is dead. A live
    /// successor keeps it.
    async fn is_orphaned(&self) -> bool {
        match identity(&self.path) {
            Ok(now) if now == self.identity => false,
            Ok(_) => UnixStream::connect(&self.path).await.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// Serves for ever, and takes the name again if it is lost. Only root and `own_uid` are answered.
pub async fn serve<H: Handler>(mut bound: Bound, own_uid: u32, handler: Arc<H>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = bound.listener.accept() => accepted,
            _ = look.tick() => {
                restore(&mut bound).await;
                continue;
            }
        };
        match accepted {
            Ok((stream, _)) => {
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    let _ = converse(stream, own_uid, &*handler).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(BACK_OFF).await,
        }
    }
}

/// Binds the name anew if somebody removed it, e.g. with its folder. A failure is tried again at the next look.
async fn restore(bound: &mut Bound) {
    if !bound.is_orphaned().await {
        return;
    }
    match bind(&bound.path) {
        Ok(again) => {
            tracing::info!(path = %bound.path.display(), "the control socket was gone and is there again");
            *bound = again;
        }
        Err(error) => tracing::debug!(path = %bound.path.display(), %error, "the control socket is gone and can't be bound again"),
    }
}

/// Root, and the user that the agent runs as.
pub(super) const fn is_served(peer_uid: u32, own_uid: u32) -> bool {
    peer_uid == 0 || peer_uid == own_uid
}

async fn converse<H: Handler>(mut stream: UnixStream, own_uid: u32, handler: &H) -> io::Result<()> {
    let credentials = stream.peer_cred()?;
    let peer = Peer { uid: credentials.uid(), pid: credentials.pid() };
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = String::new();
        let length = timeout(IDLE, (&mut read).take(MAX_REQUEST).read_line(&mut line)).await??;
        if length == 0 {
            return Ok(());
        }
        let response = match serde_json::from_str(&line) {
            _ if !is_served(peer.uid, own_uid) => Response::Error(format!("uid {} may not talk to this daemon", peer.uid)),
            Ok(request) => handler.handle(request, peer).await,
            Err(error) => Response::Error(format!("not a request: {error}")),
        };
        let mut answer = serde_json::to_vec(&response)?;
        answer.push(b'\n');
        timeout(IDLE, write.write_all(&answer)).await??;
        if !line.ends_with('\n') {
            return Ok(());
        }
    }
}
