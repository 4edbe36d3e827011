//! The socket for `live` and `ready`: in the pod's own temporary folder.
//!
//! In a pod `/tmp` is an emptyDir of that pod alone, so `exec: gwready ready` asks the agent of the same pod, also while an
//! old and a new agent overlap on a node. On a host the newest agent of a uid takes the name over. The folder belongs to
//! our uid and is closed to others: `/tmp` is writable for everyone.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// `${TMPDIR:-/tmp}/gwready-<uid>/agent.sock`.
#[must_use]
pub fn own_socket_path(temporary: Option<&OsStr>, uid: u32) -> PathBuf {
    let base = temporary.filter(|folder| !folder.is_empty()).unwrap_or(OsStr::new("/tmp"));
    Path::new(base).join(format!("gwready-{uid}")).join("agent.sock")
}

/// Makes the folder of that socket, or makes sure that an existing one is ours and closed to others.
///
/// # Errors
/// It can't be made, is no folder, belongs to somebody else, or is open to others.
pub fn prepare_own_folder(socket: &Path, uid: u32) -> io::Result<()> {
    let folder = socket.parent().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket has no folder"))?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = folder.symlink_metadata()?;
    if !metadata.is_dir() || metadata.uid() != uid || metadata.mode() & 0o077 != 0 {
        let sentence = format!("{} must be a folder of uid {uid} with mode 0700", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence));
    }
    Ok(())
}
