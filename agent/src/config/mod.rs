//! Configuration: one YAML file, overrides, and the effective values. All faults are reported at once.
