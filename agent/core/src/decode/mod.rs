//! Decoding: bytes of the kernel's and Cilium's formats to facts. Safe and total: any input gives a value or an error.

pub mod cgroup;
pub mod envoy_admin;
pub mod http_reply;
pub mod inet_diag_attributes;
pub mod inet_diag_request;
pub mod inet_diag_row;
pub mod iptables;
pub mod nft;
pub mod pod_folder;
pub mod proc_status;
pub mod xt;
