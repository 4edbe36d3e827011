//! The admin port: metrics, liveness, status. Served by hyper, without capabilities.
