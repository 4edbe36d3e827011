//! One pinned map: opened read-only, its layout checked, opened anew when the pin is another one.
//!
//! A held descriptor outlives its pin, so each pass compares the pin's inode: a map that the agent unpinned and recreated, that appears
//! late or goes away is noticed for the price of a stat. Decodes nothing.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aya::maps::{Map, MapData, MapError};
use gwready_core::lb::layout::Layout;
use rustix::fs::{Stat, stat, statfs};
use rustix::io::Errno;

use super::error::io_error;
use super::{CiliumPaths, PinError, bpf};

/// `BPF_FS_MAGIC` (linux/magic.h).
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The directory of Cilium's pins: `tc/globals` of the configured bpffs, or of Cilium's fallback where that is no bpffs.
pub(super) fn globals(paths: &CiliumPaths) -> Result<PathBuf, PinError> {
    let fallback = paths.run_dir.join("bpffs");
    let is_bpffs = |root: &Path| statfs(root).is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| kind == BPF_FS_MAGIC));
    [&paths.bpffs, &fallback]
        .into_iter()
        .find(|root| is_bpffs(root))
        .map(|root| root.join("tc/globals"))
        .ok_or_else(|| PinError::NoBpffs(paths.bpffs.display().to_string()))
}

/// Opens a pin with `BPF_F_RDONLY`: the kernel refuses updates and deletions through the descriptor.
///
/// # Errors
/// As the kernel's; EINVAL for a path with a NUL byte.
pub fn open_read_only(path: &Path) -> io::Result<OwnedFd> {
    bpf::obj_get_read_only(&CString::new(path.as_os_str().as_bytes())?)
}

/// A pinned map of one known layout, wrapped by aya's `M`.
pub(super) struct Pin<M> {
    layout: Layout,
    wrap: fn(Map) -> Result<M, MapError>,
    open: Option<Open<M>>,
}

struct Open<M> {
    /// Device and inode of the pin: a recreated pin has another inode, a remounted bpffs another device.
    identity: (u64, u64),
    fd: OwnedFd,
    map: M,
}

impl<M> Pin<M> {
    /// A pin that is opened by its first use.
    pub(super) const fn new(layout: Layout, wrap: fn(Map) -> Result<M, MapError>) -> Self {
        Self { layout, wrap, open: None }
    }

    /// The map that the pin stands for now.
    pub(super) fn map(&mut self, globals: &Path) -> Result<&M, PinError> {
        self.refresh(globals).map(|open| &open.map)
    }

    /// As [`Pin::map`], the descriptor itself and the identity of the pin.
    pub(super) fn fd(&mut self, globals: &Path) -> Result<(BorrowedFd<'_>, (u64, u64)), PinError> {
        self.refresh(globals).map(|open| (open.fd.as_fd(), open.identity))
    }

    /// A failed lookup as this pin's error.
    pub(super) fn failed(&self, source: io::Error) -> PinError {
        PinError::Read { pin: self.layout.pin, source }
    }

    fn refresh(&mut self, globals: &Path) -> Result<&Open<M>, PinError> {
        let path = globals.join(self.layout.pin);
        let now = self.identify(&path);
        let kept = self.open.take().filter(|open| now.as_ref().is_ok_and(|now| *now == open.identity));
        let open = match kept {
            Some(open) => open,
            None => self.open(&path, now?)?,
        };
        Ok(self.open.insert(open))
    }

    fn open(&self, path: &Path, mut before: (u64, u64)) -> Result<Open<M>, PinError> {
        let failed = |source| PinError::Open { pin: self.layout.pin, source };
        loop {
            let fd = open_read_only(path).map_err(failed)?;
            let after = self.identify(path)?;
            if after == before {
                let data = MapData::from_fd(fd.try_clone().map_err(failed)?).map_err(|error| failed(io_error(error)))?;
                self.check(&data)?;
                let wrapped = Map::from_map_data(data).and_then(self.wrap);
                let map = wrapped.map_err(|error| PinError::Layout { pin: self.layout.pin, found: error.to_string() })?;
                return Ok(Open { identity: after, fd, map });
            }
            // The pin was replaced in between: what was opened may be the old map.
            before = after;
        }
    }

    fn identify(&self, path: &Path) -> Result<(u64, u64), PinError> {
        match stat(path) {
            Ok(Stat { st_dev, st_ino, .. }) => Ok((st_dev, st_ino)),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(PinError::Absent(path.display().to_string())),
            Err(errno) => Err(PinError::Open { pin: self.layout.pin, source: errno.into() }),
        }
    }

    fn check(&self, data: &MapData) -> Result<(), PinError> {
        let info = data.info().map_err(|error| PinError::Open { pin: self.layout.pin, source: io_error(error) })?;
        let number = info.map_type().map(|kind| kind as isize);
        let expected = isize::try_from(self.layout.kind.number()).unwrap_or_default();
        let sizes = (info.key_size(), info.value_size());
        if number.is_ok_and(|number| number == expected) && sizes == (self.layout.key_size, self.layout.value_size) {
            return Ok(());
        }
        let Layout { pin, kind, key_size, value_size } = self.layout;
        let found = format!(
            "type {:?} with key {} and value {} bytes, not {:?} with {key_size} and {value_size}",
            info.map_type(),
            sizes.0,
            sizes.1,
            kind
        );
        Err(PinError::Layout { pin, found })
    }
}
