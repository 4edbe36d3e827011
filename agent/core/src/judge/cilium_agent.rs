//! `CiliumAgentAlive` (advisory): the liveness stamp is fresh, so the load-balancer map is being kept up.

use std::time::Duration;

use crate::condition::{ConditionType, Finding};
use crate::facts::Reading;
use crate::facts::platform::CiliumAgent;
use crate::reason::Reason;

/// The agent writes every second, whatever else happens (Cilium `pkg/datapath/agentliveness`).
pub const STALE_AFTER: Duration = Duration::from_secs(10);

const KIND: ConditionType = ConditionType::CiliumAgentAlive;

/// Judges the stamp by the monotonic time at which it was read. Both are `CLOCK_MONOTONIC`, which stands still while the machine is
/// suspended, so a resumed node does not look as if its agent had been dead for the night.
#[must_use]
pub fn judge_cilium_agent(reading: &Reading<CiliumAgent>) -> Finding {
    let (agent, window) = match reading {
        Reading::Observed { value, window } => (value, window),
        Reading::NotRead => return Finding::unknown(KIND, Reason::NoLivenessStamp, "the liveness stamp was not read yet"),
        Reading::Unavailable(unavailable) => return Finding::unknown(KIND, Reason::NoLivenessStamp, unavailable.detail.clone()),
    };
    if agent.stamp.0 == 0 {
        return Finding::unknown(KIND, Reason::NoLivenessStamp, "the cilium-agent never wrote a liveness stamp");
    }
    let age = window.begin.since(agent.stamp);
    let version = agent.version.map_or_else(|| "not known".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    let finding = if age > STALE_AFTER {
        let message = format!("the cilium-agent last gave a sign of life {} s ago: the load-balancer map stands still", age.as_secs());
        Finding::fails(KIND, Reason::CiliumAgentStale, message)
    } else {
        Finding::holds(KIND)
    };
    finding.with("age_ms", age.as_millis()).with("version", version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Status;
    use crate::facts::{Unavailable, Why};
    use crate::time::{Mono, Window};

    const SECOND: u64 = 1_000_000_000;

    fn read(stamp: u64, at: u64) -> Finding {
        let window = Window { begin: Mono(at), end: Mono(at) };
        judge_cilium_agent(&Reading::Observed { value: CiliumAgent { stamp: Mono(stamp), ..CiliumAgent::default() }, window })
    }

    #[test]
    fn ten_seconds_are_the_limit() {
        assert_eq!(read(100 * SECOND, 110 * SECOND).status, Status::True);
        let stale = read(100 * SECOND, 111 * SECOND);
        assert_eq!((stale.status, stale.reason), (Status::False, Some(Reason::CiliumAgentStale)));
        assert!(stale.message.contains("11 s ago"), "{}", stale.message);
    }

    #[test]
    fn a_stamp_written_during_the_read_is_fresh() {
        assert_eq!(read(101 * SECOND, 100 * SECOND).status, Status::True);
    }

    #[test]
    fn no_stamp_is_unknown() {
        assert_eq!(read(0, 100 * SECOND).reason, Some(Reason::NoLivenessStamp));
        assert_eq!(judge_cilium_agent(&Reading::NotRead).status, Status::Unknown);
        let gone = Unavailable { why: Why::Absent, detail: "no such pin".to_owned(), window: Window::default() };
        assert_eq!(judge_cilium_agent(&Reading::Unavailable(gone)).reason, Some(Reason::NoLivenessStamp));
    }
}
