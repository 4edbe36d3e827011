//! Cilium's pinned maps, opened read-only, and the TPROXY path's rules and routes.
