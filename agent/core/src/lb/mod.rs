//! Cilium's load-balancer maps: layouts, rows, and the datapath's rule for a SYN.

pub mod facts;
