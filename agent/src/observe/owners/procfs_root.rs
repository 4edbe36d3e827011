//! Access to a procfs by descriptors: the root, and one `/proc/PID` folder per process. A folder's descriptor stays with its
//! process: when the pid is reused, reads through it fail instead of describing the new process.
//!
//! Parsing is the `procfs` crate's where it can be (`stat`, `limits`); opening is by hand, see `docs/decisions/owners.md`.
//! Must not decide what a refusal means.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use gwready_core::decode::proc_status::{ProcStatus, parse_proc_status};
use gwready_core::facts::processes::Readable;
use procfs::FromRead;
use procfs::process::{LimitValue, Limits, Stat};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, readlinkat, readlinkat_raw, statat};
use rustix::io::{Errno, read};
use thiserror::Error;

/// Why a zombie's or a kernel thread's executable can't be read.
pub(super) const NO_EXECUTABLE: &str = "no executable: a kernel thread, or it ends";

/// Why something of a process could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Fault {
    /// The process (or descriptor) ended meanwhile: an ordinary case.
    #[error("gone")]
    Gone,
    /// The kernel refused: ptrace access, hidepid, a security module.
    #[error("{0}")]
    Refused(String),
    /// The reader has no descriptor or memory left: says nothing about the process.
    #[error("{0}")]
    Exhausted(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::SRCH => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Refused(std::io::Error::from(errno).kind().to_string()),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Exhausted(std::io::Error::from(errno).to_string()),
            other => Self::Failed(std::io::Error::from(other).to_string()),
        }
    }
}

/// A mounted procfs.
#[derive(Debug)]
pub(super) struct ProcRoot {
    dir: OwnedFd,
    path: PathBuf,
}

impl ProcRoot {
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let dir = openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { dir, path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Every pid that the reader may see, in the kernel's order (ascending).
    pub(super) fn pids(&self) -> Result<Vec<u32>, Errno> {
        let mut pids = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            if let Some(pid) = entry?.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    pub(super) fn process(&self, pid: u32) -> Result<ProcessDir, Fault> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(ProcessDir { pid, dir: openat(&self.dir, pid.to_string(), flags, Mode::empty())? })
    }

    /// Inode of the calling thread's network namespace.
    pub(super) fn own_netns(&self) -> Option<u64> {
        ["thread-self/ns/net", "self/ns/net"]
            .iter()
            .find_map(|path| statat(&self.dir, *path, AtFlags::empty()).ok())
            .map(|stat| stat.st_ino)
    }

    /// `net.ipv4.ip_unprivileged_port_start` of the calling thread's network namespace.
    pub(super) fn unprivileged_port_start(&self) -> Option<u16> {
        let text = read_at(&self.dir, "sys/net/ipv4/ip_unprivileged_port_start").ok()?;
        // The sysctl may be 65536 ("every port is privileged"); no port is that high.
        let start: u32 = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
        Some(u16::try_from(start).unwrap_or(u16::MAX))
    }

    /// Base name of the executable or, where hidden, comm; for naming a parent.
    pub(super) fn name_of(&self, pid: u32) -> Option<String> {
        if pid == 0 {
            return None;
        }
        if let Ok(link) = readlinkat(&self.dir, format!("{pid}/exe"), Vec::new()) {
            return Some(base_name(link.as_bytes()));
        }
        let comm = read_at(&self.dir, &format!("{pid}/comm")).ok()?;
        Some(String::from_utf8_lossy(comm.trim_ascii_end()).into_owned())
    }
}

/// One process, for as long as it lives.
#[derive(Debug)]
pub(super) struct ProcessDir {
    pid: u32,
    dir: OwnedFd,
}

impl ProcessDir {
    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Fault> {
        Ok(read_at(&self.dir, name)?)
    }

    pub(super) fn stat(&self) -> Result<Stat, Fault> {
        let text = self.read("stat")?;
        // An empty read is a process on its way out.
        if text.is_empty() {
            return Err(Fault::Gone);
        }
        Stat::from_read(text.as_slice()).map_err(|error| Fault::Failed(format!("stat: {error}")))
    }

    pub(super) fn status(&self) -> Result<ProcStatus, Fault> {
        let text = self.read("status")?;
        parse_proc_status(&text).map_err(|error| if text.is_empty() { Fault::Gone } else { Fault::Failed(error.to_string()) })
    }

    /// Base name of the executable without the ` (deleted)` marker.
    pub(super) fn exe(&self) -> Readable<String> {
        let link = match readlinkat(&self.dir, "exe", Vec::new()) {
            Err(Errno::NOENT) => {
                self.thread_left().map_or(Err(Errno::NOENT), |thread| readlinkat(&self.dir, format!("{thread}/exe"), Vec::new()))
            }
            link => link,
        };
        match link {
            Ok(link) => Readable::Is(base_name(link.as_bytes())),
            Err(Errno::NOENT | Errno::SRCH) => Readable::Hidden(NO_EXECUTABLE.to_owned()),
            Err(errno) => Readable::Hidden(Fault::from(errno).to_string()),
        }
    }

    /// Socket inode behind one descriptor; none if it is something else.
    pub(super) fn socket_at(&self, fd: u32) -> Result<Option<u64>, Fault> {
        match socket_link(&self.dir, &format!("fd/{fd}")) {
            Err(Fault::Gone) => match self.thread_left() {
                Some(thread) => socket_link(&self.dir, &format!("{thread}/fd/{fd}")),
                None => Err(Fault::Gone),
            },
            found => found,
        }
    }

    pub(super) fn descriptors(&self) -> Result<OwnedFd, Fault> {
        self.descriptors_of("fd")
    }

    /// The descriptors as a thread sees them whose main thread has ended: theirs are shown as none.
    pub(super) fn descriptors_left(&self) -> Result<Option<OwnedFd>, Fault> {
        self.thread_left().map(|thread| self.descriptors_of(&format!("{thread}/fd"))).transpose()
    }

    fn descriptors_of(&self, folder: &str) -> Result<OwnedFd, Fault> {
        Ok(openat(&self.dir, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// A process whose main thread has ended shows neither executable nor descriptors, though the other threads have both: the folder
    /// of one of these. None where the process has one thread, and for kernel threads.
    fn thread_left(&self) -> Option<String> {
        let folder = openat(&self.dir, "task", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let threads = Dir::read_from(&folder).ok()?.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok());
        threads.into_iter().find(|thread: &u32| *thread != self.pid).map(|thread| format!("task/{thread}"))
    }

    /// Open descriptors without listing them: `st_size` of the folder since Linux 6.2 (fs/proc/fd.c `proc_fd_getattr`), 0 before.
    pub(super) fn open_files(&self) -> Option<u64> {
        let size = statat(&self.dir, "fd", AtFlags::empty()).ok()?.st_size;
        u64::try_from(size).ok().filter(|&count| count > 0)
    }

    /// Soft `RLIMIT_NOFILE`; none if unlimited or unreadable.
    pub(super) fn open_files_limit(&self) -> Option<u64> {
        let limits = Limits::from_read(self.read("limits").ok()?.as_slice()).ok()?;
        match limits.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        }
    }

    /// Inode of its network namespace (needs ptrace access).
    pub(super) fn netns(&self) -> Option<u64> {
        statat(&self.dir, "ns/net", AtFlags::empty()).ok().map(|stat| stat.st_ino)
    }
}

/// `socket:[N]` behind a link under an open folder.
pub(super) fn socket_link(dir: impl AsFd, name: &str) -> Result<Option<u64>, Fault> {
    let mut target = [0_u8; 64];
    let length = readlinkat_raw(dir, name, &mut target[..])?;
    let target = target.get(..length).unwrap_or_default();
    let digits = target.strip_prefix(b"socket:[").and_then(|rest| rest.strip_suffix(b"]"));
    Ok(digits.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| digits.parse().ok()))
}

fn base_name(path: &[u8]) -> String {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    String::from_utf8_lossy(name).into_owned()
}

fn read_at(dir: impl AsFd, name: &str) -> Result<Vec<u8>, Errno> {
    let file = openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    let mut chunk = [0_u8; 4096];
    loop {
        match read(&file, &mut chunk) {
            Ok(0) => return Ok(text),
            Ok(length) => text.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
