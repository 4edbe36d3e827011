//! NETLINK_SOCK_DIAG: exact listener lookups and LISTEN dumps.
