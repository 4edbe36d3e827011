//! Records of the ring buffer to [`KernelEvent`]: bytes in, facts out.
//!
//! Offsets come from the records' own type, so the two sides can't differ. Must not trust a length or
//! a discriminant: what does not fit is `None`.

use super::{Actor, KernelEvent, SignalResult};
use gwready_core::time::Mono;
use gwready_ebpf::records::{EXIT, Exit, LISTENER, Listener, SIGNAL, Signal};
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// One record. `None`: an unknown kind, a record that is too short, an unknown family.
pub(super) fn decode_record(record: &[u8]) -> Option<KernelEvent> {
    let kind = u32::from_ne_bytes(bytes(record, 0)?);
    match kind {
        LISTENER if record.len() >= size_of::<Listener>() => decode_listener(record),
        SIGNAL if record.len() >= size_of::<Signal>() => decode_signal(record),
        EXIT if record.len() >= size_of::<Exit>() => Some(KernelEvent::Exit {
            at: Mono(u64::from_ne_bytes(bytes(record, offset_of!(Exit, time))?)),
            pid: u32::from_ne_bytes(bytes(record, offset_of!(Exit, tgid))?),
            comm: comm(record, offset_of!(Exit, comm))?,
        }),
        _ => None,
    }
}

fn decode_listener(record: &[u8]) -> Option<KernelEvent> {
    let address = offset_of!(Listener, address);
    let address = match *record.get(offset_of!(Listener, family))? {
        AF_INET => IpAddr::V4(Ipv4Addr::from(bytes::<4>(record, address)?)),
        AF_INET6 => IpAddr::V6(Ipv6Addr::from(bytes::<16>(record, address)?)),
        _ => return None,
    };
    let netns = u32::from_ne_bytes(bytes(record, offset_of!(Listener, netns))?);
    let cgroup = u64::from_ne_bytes(bytes(record, offset_of!(Listener, cgroup))?);
    Some(KernelEvent::Listener {
        at: Mono(u64::from_ne_bytes(bytes(record, offset_of!(Listener, time))?)),
        port: u16::from_ne_bytes(bytes(record, offset_of!(Listener, port))?),
        address,
        listening: *record.get(offset_of!(Listener, listening))? != 0,
        netns: Some(netns).filter(|inode| *inode != 0),
        by: Actor {
            pid: u32::from_ne_bytes(bytes(record, offset_of!(Listener, tgid))?),
            comm: comm(record, offset_of!(Listener, comm))?,
            // 1 is the root, and all there is on hosts without cgroup v2.
            cgroup: Some(cgroup).filter(|id| *id > 1),
        },
    })
}

fn decode_signal(record: &[u8]) -> Option<KernelEvent> {
    let result = match i32::from_ne_bytes(bytes(record, offset_of!(Signal, result))?) {
        0 => SignalResult::Delivered,
        1 => SignalResult::Ignored,
        2 => SignalResult::AlreadyPending,
        _ => SignalResult::Lost,
    };
    Some(KernelEvent::Signal {
        at: Mono(u64::from_ne_bytes(bytes(record, offset_of!(Signal, time))?)),
        signal: i32::from_ne_bytes(bytes(record, offset_of!(Signal, signal))?),
        target: u32::from_ne_bytes(bytes(record, offset_of!(Signal, target))?),
        result,
        by: Actor {
            pid: u32::from_ne_bytes(bytes(record, offset_of!(Signal, sender))?),
            comm: comm(record, offset_of!(Signal, comm))?,
            cgroup: None,
        },
    })
}

fn bytes<const N: usize>(record: &[u8], offset: usize) -> Option<[u8; N]> {
    record.get(offset..)?.first_chunk().copied()
}

fn comm(record: &[u8], offset: usize) -> Option<String> {
    let padded: [u8; 16] = bytes(record, offset)?;
    let text = padded.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> Vec<u8> {
        let mut record = vec![0; size_of::<Listener>()];
        let mut put = |offset: usize, bytes: &[u8]| record[offset..offset + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(Listener, kind), &LISTENER.to_ne_bytes());
        put(offset_of!(Listener, netns), &4_026_531_840_u32.to_ne_bytes());
        put(offset_of!(Listener, time), &77_u64.to_ne_bytes());
        put(offset_of!(Listener, cgroup), &1_u64.to_ne_bytes());
        put(offset_of!(Listener, tgid), &4242_u32.to_ne_bytes());
        put(offset_of!(Listener, port), &443_u16.to_ne_bytes());
        put(offset_of!(Listener, family), &[AF_INET]);
        put(offset_of!(Listener, listening), &[1]);
        put(offset_of!(Listener, address), &[10, 0, 0, 11]);
        put(offset_of!(Listener, comm), b"cilium-envoy");
        record
    }

    #[test]
    fn a_listener_of_ipv4() {
        let expected = KernelEvent::Listener {
            at: Mono(77),
            port: 443,
            address: IpAddr::from([10, 0, 0, 11]),
            listening: true,
            netns: Some(4_026_531_840),
            by: Actor { pid: 4242, comm: "cilium-envoy".to_owned(), cgroup: None },
        };
        assert_eq!(decode_record(&listener()), Some(expected));
    }

    #[test]
    fn an_unknown_namespace_and_the_wildcard_of_ipv6() {
        let mut record = listener();
        record[offset_of!(Listener, family)] = AF_INET6;
        record[offset_of!(Listener, address)..][..16].fill(0);
        record[offset_of!(Listener, netns)..][..4].fill(0);
        record[offset_of!(Listener, cgroup)..][..8].copy_from_slice(&9_u64.to_ne_bytes());
        let Some(KernelEvent::Listener { address, netns, by, .. }) = decode_record(&record) else { panic!("not decoded") };
        assert_eq!((address, netns, by.cgroup), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), None, Some(9)));
    }

    #[test]
    fn a_signal_keeps_its_result() {
        for (number, expected) in
            [(0, SignalResult::Delivered), (1, SignalResult::Ignored), (2, SignalResult::AlreadyPending), (4, SignalResult::Lost)]
        {
            let mut record = vec![0; size_of::<Signal>()];
            record[..4].copy_from_slice(&SIGNAL.to_ne_bytes());
            record[offset_of!(Signal, signal)..][..4].copy_from_slice(&15_i32.to_ne_bytes());
            record[offset_of!(Signal, result)..][..4].copy_from_slice(&i32::to_ne_bytes(number));
            let Some(KernelEvent::Signal { signal, result, .. }) = decode_record(&record) else { panic!("not decoded") };
            assert_eq!((signal, result), (15, expected));
        }
    }

    #[test]
    fn a_name_of_sixteen_bytes_and_one_that_is_not_utf8_are_names_all_the_same() {
        let mut record = vec![0; size_of::<Exit>()];
        record[..4].copy_from_slice(&EXIT.to_ne_bytes());
        record[offset_of!(Exit, comm)..].copy_from_slice(b"0123456789abcde\xff");
        let Some(KernelEvent::Exit { comm, .. }) = decode_record(&record) else { panic!("not decoded") };
        assert_eq!(comm, "0123456789abcde\u{fffd}");
    }

    #[test]
    fn what_does_not_fit_is_nothing() {
        assert_eq!(decode_record(&[]), None);
        assert_eq!(decode_record(&99_u32.to_ne_bytes()), None);
        let whole = listener();
        for length in 0..whole.len() {
            assert_eq!(decode_record(&whole[..length]), None, "{length} bytes");
        }
        let mut family = listener();
        family[offset_of!(Listener, family)] = 1;
        assert_eq!(decode_record(&family), None);
    }
}
