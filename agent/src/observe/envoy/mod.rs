//! Envoy's admin socket: GET only, with a deadline.
