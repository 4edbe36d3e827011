//! Where the running kernel keeps the fields that the programs read.
//!
//! Taken from the kernel's own type information; `super::prove` shows that they are right before anyone
//! relies on them. The type information (megabytes) is dropped before this returns.

use super::btf::Btf;
use gwready_ebpf::names::GLOBALS;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Byte offsets, 0 = not known. None of these fields is the first of its struct.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Offsets {
    family: u32,
    port: u32,
    address4: u32,
    address6: u32,
    protocol: u32,
    net: u32,
    inum: u32,
    tgid: u32,
}

impl Offsets {
    /// Of the running kernel. The error is a sentence for a person.
    pub(super) fn read() -> Result<Self, String> {
        let bytes = std::fs::read(Path::new(KERNEL_BTF))
            .map_err(|error| format!("the kernel's type information can't be read ({KERNEL_BTF}: {error})"))?;
        let btf = Btf::parse(&bytes).ok_or("the kernel's type information has an unknown form")?;
        Ok(Self::find(&btf))
    }

    fn find(btf: &Btf<'_>) -> Self {
        let common = |field| btf.offset("sock", &["__sk_common", field]).unwrap_or(0);
        Self {
            family: common("skc_family"),
            port: common("skc_num"),
            address4: common("skc_rcv_saddr"),
            address6: common("skc_v6_rcv_saddr"),
            protocol: btf.offset("sock", &["sk_protocol"]).unwrap_or(0),
            // possible_net_t holds the pointer as its only field.
            net: common("skc_net"),
            inum: btf.offset("net", &["ns", "inum"]).unwrap_or(0),
            tgid: btf.offset("task_struct", &["tgid"]).unwrap_or(0),
        }
    }

    /// The fields without which a listener can't be described.
    pub(super) fn has_socket(&self) -> bool {
        [self.family, self.port, self.address4].iter().all(|offset| *offset != 0)
    }

    /// A socket's namespace can be read.
    pub(super) fn has_namespace(&self) -> bool {
        self.net != 0 && self.inum != 0
    }

    /// A signal's target can be read.
    pub(super) fn has_task(&self) -> bool {
        self.tgid != 0
    }

    /// The same without the namespace, for when it proved wrong.
    pub(super) fn without_namespace(self) -> Self {
        Self { net: 0, inum: 0, ..self }
    }

    /// Values of the programs' globals, with their names. `only` = inode number of the one namespace
    /// whose sockets are reported, 0 = all.
    pub(super) fn globals(&self, only: u32) -> [(&'static str, u32); 9] {
        let values = [self.family, self.port, self.address4, self.address6, self.protocol, self.net, self.inum, self.tgid, only];
        std::array::from_fn(|index| (GLOBALS[index], values[index]))
    }
}

/// Inode number of the calling thread's network namespace, as the kernel's `net.ns.inum` has it.
pub(super) fn own_namespace() -> Option<u32> {
    let inode = std::fs::metadata("/proc/thread-self/ns/net").ok()?.ino();
    u32::try_from(inode).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_globals_stand_in_the_order_of_their_names() {
        let offsets = Offsets { family: 1, port: 2, address4: 3, address6: 4, protocol: 5, net: 6, inum: 7, tgid: 8 };
        let globals = offsets.globals(9);
        assert_eq!(globals.map(|(_, value)| value), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(globals[1].0, "SKC_NUM");
        assert_eq!(globals[6].0, "NET_INUM");
        assert_eq!(globals[8].0, "ONLY_NETNS");
    }

    #[test]
    fn what_is_missing_is_said_by_group() {
        let whole = Offsets { family: 1, port: 2, address4: 3, address6: 0, protocol: 0, net: 6, inum: 7, tgid: 8 };
        assert!(whole.has_socket() && whole.has_namespace() && whole.has_task());
        assert!(!whole.without_namespace().has_namespace() && whole.without_namespace().has_socket());
        assert!(!Offsets { port: 0, ..whole }.has_socket());
        assert!(!Offsets { tgid: 0, ..whole }.has_task());
    }
}
