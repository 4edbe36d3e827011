//! The bpf(2) commands that aya does not offer: opening a pin read-only, looking up a batch, querying the sk_lookup hook.
//!
//! The only unsafe code of the Cilium readers. Knows nothing of what the bytes mean.
#![expect(unsafe_code, reason = "bpf(2) has no safe wrapper that opens a pin read-only, reads in batches or queries a netns hook")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const BPF_OBJ_GET: libc::c_long = 7;
const BPF_PROG_QUERY: libc::c_long = 16;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
/// `BPF_F_RDONLY`: updates and deletions through the descriptor fail with EPERM.
const BPF_F_RDONLY: u32 = 1 << 3;
/// `enum bpf_attach_type`.
const BPF_SK_LOOKUP: u32 = 36;

/// `union bpf_attr` of `BPF_OBJ_GET`.
#[repr(C)]
struct ObjGet {
    path: u64,
    fd: u32,
    flags: u32,
}

/// `union bpf_attr` of `BPF_MAP_*_BATCH`.
#[repr(C)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: RawFd,
    elem_flags: u64,
    flags: u64,
}

/// `union bpf_attr` of `BPF_PROG_QUERY`, up to what every kernel with sk_lookup (5.9) knows.
#[repr(C)]
struct Query {
    target_fd: RawFd,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    padding: u32,
}

fn bpf<T>(command: libc::c_long, attribute: &mut T) -> io::Result<i32> {
    // SAFETY: `attribute` is a live, exclusively borrowed #[repr(C)] value without padding, whose size is passed; the kernel reads and
    // writes within it, and within the buffers that it points to, which each caller keeps alive and sizes by its count.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attribute), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { i32::try_from(result).map_err(io::Error::other) }
}

/// Opens a pinned object for reading only. A new descriptor is close-on-exec (the kernel sets it).
///
/// # Errors
/// As the kernel's: EPERM or EACCES without the right, ENOENT without the pin.
pub(super) fn obj_get_read_only(path: &CStr) -> io::Result<OwnedFd> {
    let mut attribute = ObjGet { path: path.as_ptr().addr() as u64, fd: 0, flags: BPF_F_RDONLY };
    let fd = bpf(BPF_OBJ_GET, &mut attribute)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Where a walk of a hash map stands: the kernel's bucket number. None = at the beginning.
pub(super) type Cursor = Option<u32>;

/// One batch of a walk: rows found, and whether the walk is over.
pub(super) struct Batched {
    /// Rows written to the front of the buffers.
    pub(super) count: usize,
    /// There are no further rows.
    pub(super) done: bool,
}

/// Reads the next rows of a hash map into `keys` and `values` (buffers of equal length) and moves the cursor. Linux 5.6.
///
/// # Errors
/// ENOSPC where a bucket has more rows than the buffers: enlarge them and try again. Else as the kernel's.
pub(super) fn lookup_batch<K: Copy, V: Copy>(
    map: BorrowedFd<'_>,
    cursor: &mut Cursor,
    keys: &mut [K],
    values: &mut [V],
) -> io::Result<Batched> {
    let room = keys.len().min(values.len());
    let from = cursor.unwrap_or_default();
    let mut to = 0_u32;
    let mut attribute = Batch {
        in_batch: if cursor.is_some() { std::ptr::from_ref(&from).addr() as u64 } else { 0 },
        out_batch: std::ptr::from_mut(&mut to).addr() as u64,
        keys: keys.as_mut_ptr().addr() as u64,
        values: values.as_mut_ptr().addr() as u64,
        count: u32::try_from(room).map_err(io::Error::other)?,
        map_fd: map.as_raw_fd(),
        elem_flags: 0,
        flags: 0,
    };
    let done = match bpf(BPF_MAP_LOOKUP_BATCH, &mut attribute) {
        Ok(_) => false,
        // The last batch: its rows are there.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
        Err(error) => return Err(error),
    };
    *cursor = Some(to);
    Ok(Batched { count: room.min(usize::try_from(attribute.count).map_err(io::Error::other)?), done })
}

/// Ids of the programs on a network namespace's sk_lookup hook, in the order in which they run.
///
/// # Errors
/// EPERM without `CAP_NET_ADMIN`, EINVAL before Linux 5.9.
pub(super) fn query_sk_lookup(netns: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut ids = vec![0_u32; 64];
    loop {
        let mut attribute = Query {
            target_fd: netns.as_raw_fd(),
            attach_type: BPF_SK_LOOKUP,
            query_flags: 0,
            attach_flags: 0,
            prog_ids: ids.as_mut_ptr().addr() as u64,
            prog_cnt: u32::try_from(ids.len()).map_err(io::Error::other)?,
            padding: 0,
        };
        match bpf(BPF_PROG_QUERY, &mut attribute) {
            Ok(_) => {
                ids.truncate(usize::try_from(attribute.prog_cnt).map_err(io::Error::other)?);
                return Ok(ids);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && ids.len() < 4096 => ids.resize(ids.len() * 4, 0),
            Err(error) => return Err(error),
        }
    }
}
