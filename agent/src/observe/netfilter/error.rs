//! How a read of the rules fails, and which [`Why`] that is for the snapshot.

use std::io;

use gwready_core::facts::{Unavailable, Why};
use gwready_core::net::Family;
use gwready_core::time::Window;

use crate::observe::failure::sentence;
use crate::observe::netlink::NetlinkError;

/// A failed read. Nothing of it was used.
#[derive(Debug, thiserror::Error)]
pub enum NetfilterError {
    /// nf_tables did not answer.
    #[error("cannot read nf_tables: {what}")]
    Nft {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: NetlinkError,
    },
    /// The rules changed during every try.
    #[error("the rules changed while they were read, {0} times in a row")]
    Changing(u32),
    /// The list of legacy tables is there and can't be read.
    #[error("cannot read {path}")]
    Names {
        /// The list.
        path: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A legacy table is listed and can't be read.
    #[error("cannot read the legacy iptables table {table} ({family})")]
    Legacy {
        /// Its family.
        family: Family,
        /// Its name.
        table: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A legacy table is not laid out as this agent knows it.
    #[error("the legacy iptables table {table} ({family}) is not understood: {sentence}")]
    Layout {
        /// Its family.
        family: Family,
        /// Its name.
        table: String,
        /// What is wrong.
        sentence: String,
    },
}

impl NetfilterError {
    /// The kind of failure, for the snapshot and the metric label.
    #[must_use]
    pub fn why(&self) -> Why {
        match self {
            Self::Nft { source, .. } => source.why(),
            Self::Changing(_) => Why::Interrupted,
            Self::Layout { .. } => Why::Layout,
            Self::Names { source, .. } | Self::Legacy { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => Why::Permission,
                io::ErrorKind::NotFound => Why::Absent,
                _ => Why::Failed,
            },
        }
    }

    /// The failed reading, with the whole chain of causes as its sentence.
    #[must_use]
    pub fn unavailable(&self, window: Window) -> Unavailable {
        Unavailable { why: self.why(), detail: sentence(self), window }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn each_failure_has_its_why_and_names_its_cause() {
        let os = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let legacy = |errno| NetfilterError::Legacy { family: Family::Ipv4, table: "nat".to_owned(), source: os(errno) };
        let nft = |source| NetfilterError::Nft { what: "rules", source };
        let cases = [
            (nft(NetlinkError::Refused(Errno::PERM)), Why::Permission),
            (nft(NetlinkError::Interrupted(3)), Why::Interrupted),
            (NetfilterError::Changing(3), Why::Interrupted),
            (NetfilterError::Names { path: "names", source: os(Errno::ACCESS) }, Why::Permission),
            (legacy(Errno::PERM), Why::Permission),
            (legacy(Errno::NOENT), Why::Absent),
            (legacy(Errno::NOMEM), Why::Failed),
            (NetfilterError::Layout { family: Family::Ipv6, table: "nat".to_owned(), sentence: String::new() }, Why::Layout),
        ];
        for (error, why) in cases {
            assert_eq!(error.why(), why, "{error}");
        }
        let detail = nft(NetlinkError::Refused(Errno::PERM)).unavailable(Window::default()).detail;
        assert!(detail.starts_with("cannot read nf_tables: rules: the kernel refused the netlink request: "), "{detail}");
    }
}
