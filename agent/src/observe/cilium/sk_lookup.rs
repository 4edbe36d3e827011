//! Which programs are attached to the sk_lookup hook of this network namespace: evidence for `SkLookup`, never its proof.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use gwready_core::facts::steering::SkLookupPrograms;
use gwready_core::facts::{Reading, Unavailable, Why};
use gwready_core::time::Window;

use super::bpf::query_sk_lookup;
use crate::clock;

/// The program ids of the calling thread's network namespace, or why they could not be read (EPERM without `CAP_NET_ADMIN`).
#[must_use]
pub fn read_sk_lookup() -> Reading<SkLookupPrograms> {
    let begin = clock::mono();
    let result = File::open("/proc/thread-self/ns/net").and_then(|netns| query_sk_lookup(netns.as_fd()));
    let window = Window { begin, end: clock::mono() };
    match result {
        Ok(ids) => Reading::Observed { value: SkLookupPrograms { ids }, window },
        Err(error) => {
            let why = match (error.kind(), error.raw_os_error()) {
                (io::ErrorKind::PermissionDenied, _) => Why::Permission,
                // The kernel does not know the hook.
                (_, Some(libc::EINVAL)) => Why::Absent,
                _ => Why::Failed,
            };
            Reading::Unavailable(Unavailable { why, detail: format!("cannot ask for sk_lookup programs: {error}"), window })
        }
    }
}
