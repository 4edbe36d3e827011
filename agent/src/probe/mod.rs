//! The local probes: does Envoy answer? Runs on the capability-free tokio threads, off the pass.
