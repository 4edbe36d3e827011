//! The maps, and the one way to send a record.
#![expect(unsafe_code, reason = "maps are symbols with fixed names, and their values are shared memory")]

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, PerCpuHashMap, RingBuf};
use gwready_ebpf::{COUNTED_PORTS, PORT_WORDS, RING_BYTES, WATCHED_PIDS, port_bit};

#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);
#[map]
static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);
#[map]
static PORTS: Array<u64> = Array::with_max_entries(PORT_WORDS, 0);
#[map]
static ESTABLISHED: PerCpuHashMap<u16, u64> = PerCpuHashMap::with_max_entries(COUNTED_PORTS, 0);
#[map]
static PIDS: HashMap<u32, u8> = HashMap::with_max_entries(WATCHED_PIDS, 0);

/// Sends `record`, or counts it as lost where the ring is full.
#[inline(always)]
pub(crate) fn send<T: 'static>(record: T) {
    if let Some(mut entry) = EVENTS.reserve::<T>(0) {
        entry.write(record);
        entry.submit(0);
    } else if let Some(lost) = LOST.get_ptr_mut(0) {
        // SAFETY: a per-CPU value; programs on one CPU do not interleave within this addition.
        unsafe { *lost += 1 };
    }
}

/// Whether user space watches `port`. One lookup that the kernel inlines.
#[inline(always)]
pub(crate) fn port_is_watched(port: u16) -> bool {
    let (word, bit) = port_bit(port);
    PORTS.get(word).is_some_and(|bits| bits & bit != 0)
}

/// Counts one connection on `port`, if user space asked for that.
#[inline(always)]
pub(crate) fn count_connection(port: u16) {
    if let Some(count) = ESTABLISHED.get_ptr_mut(port) {
        // SAFETY: a per-CPU value; an interruption between load and store could lose one count at most.
        unsafe { *count += 1 };
    }
}

/// Whether user space watches the process.
#[inline(always)]
pub(crate) fn pid_is_watched(tgid: u32) -> bool {
    PIDS.get_ptr(tgid).is_some()
}
