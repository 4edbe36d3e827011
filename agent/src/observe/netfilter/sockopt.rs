//! The two `getsockopt` calls of legacy iptables: bytes in, bytes out. Knows no rule; `gwready_core::decode::iptables` does.
//! Sources: `net/ipv4/netfilter/ip_tables.c` (`do_ipt_get_ctl`), `net/ipv6/netfilter/ip6_tables.c`.
#![expect(unsafe_code, reason = "getsockopt with structures of the kernel's firewall has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use gwready_core::net::Family;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `XT_TABLE_MAXNAMELEN`.
const NAME: usize = 32;
/// `struct ipt_getinfo`: name, valid hooks, five hook entries, five underflows, number of entries, size.
pub(super) const INFO: usize = 84;
/// Where `ipt_getinfo.size` is.
const SIZE_AT: usize = 80;
/// `struct ipt_get_entries` before its entries, on 64-bit kernels.
const ENTRIES_AT: usize = 40;
/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: i32 = 64;
/// `IPT_SO_GET_ENTRIES` and `IP6T_SO_GET_ENTRIES`.
const GET_ENTRIES: i32 = 65;
/// Largest table that is read: some hundred thousand rules.
const MOST: usize = 256 << 20;

/// A socket to ask through, of one family. Any kind serves; this one needs no privilege to be made.
pub(super) struct TableSocket {
    fd: OwnedFd,
    level: i32,
}

/// One table as the kernel gave it.
pub(super) struct RawTable {
    /// `struct ipt_getinfo`.
    pub(super) info: [u8; INFO],
    /// The entries, one after the other.
    pub(super) entries: Vec<u8>,
}

impl TableSocket {
    pub(super) fn open(family: Family) -> io::Result<Self> {
        let (domain, level) = match family {
            Family::Ipv4 => (AddressFamily::INET, libc::SOL_IP),
            Family::Ipv6 => (AddressFamily::INET6, libc::SOL_IPV6),
        };
        let fd = socket_with(domain, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { fd, level })
    }

    /// Hooks and size of a table.
    pub(super) fn info(&self, name: &str) -> io::Result<[u8; INFO]> {
        let mut info = [0; INFO];
        write_name(&mut info, name)?;
        self.get(GET_INFO, &mut info)?;
        Ok(info)
    }

    /// The whole table. `EAGAIN`: it changed its size since `info`.
    pub(super) fn entries(&self, name: &str, info: &[u8; INFO]) -> io::Result<Vec<u8>> {
        let size = info.get(SIZE_AT..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        if length > MOST {
            return Err(io::Error::other(format!("the table {name} has {length} bytes")));
        }
        let mut buffer = vec![0; ENTRIES_AT + length];
        write_name(&mut buffer, name)?;
        if let Some(place) = buffer.get_mut(NAME..NAME + 4) {
            place.copy_from_slice(&size.to_ne_bytes());
        }
        self.get(GET_ENTRIES, &mut buffer)?;
        buffer.drain(..ENTRIES_AT);
        Ok(buffer)
    }

    fn get(&self, option: i32, buffer: &mut [u8]) -> io::Result<()> {
        let given = buffer.len();
        let mut length = libc::socklen_t::try_from(given).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open; pointer and length are those of one exclusively borrowed slice, and the kernel writes no
        // further than the length says.
        let result = unsafe { libc::getsockopt(self.fd.as_raw_fd(), self.level, option, buffer.as_mut_ptr().cast(), &raw mut length) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        if usize::try_from(length).ok() != Some(given) {
            return Err(io::Error::other(format!("{length} of {given} bytes were answered")));
        }
        Ok(())
    }
}

fn write_name(buffer: &mut [u8], name: &str) -> io::Result<()> {
    // The last byte stays 0.
    match buffer.get_mut(..NAME - 1).and_then(|place| place.get_mut(..name.len())) {
        Some(place) => place.copy_from_slice(name.as_bytes()),
        None => return Err(io::Error::other(format!("{name:?} is no name of a table"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_with_their_end_or_are_refused() {
        let mut buffer = [0xff; INFO];
        write_name(&mut buffer, "nat").unwrap();
        assert_eq!(&buffer[..3], b"nat");
        assert!(write_name(&mut buffer, &"x".repeat(31)).is_ok());
        assert!(write_name(&mut buffer, &"x".repeat(32)).is_err());
    }
}
