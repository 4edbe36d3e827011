//! What one pass knows of the LB maps. Source: pinned maps `cilium_lb4/6_services_v2`, `cilium_lb4/6_backends_v3`, `cilium_lxc`, `cilium_lb4/6_source_range`.

use serde::{Deserialize, Serialize};

use crate::facts::Reading;

/// Rows of one family's maps that touch the expected endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LbTable {}

/// Both families. A family whose map does not exist is [`crate::facts::Why::Absent`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LbFacts {
    /// `cilium_lb4_*`.
    pub v4: Reading<LbTable>,
    /// `cilium_lb6_*`.
    pub v6: Reading<LbTable>,
}
