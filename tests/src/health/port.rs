//! The real health port in the test's own process, with a verdict that the test sets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use gwready::health::{HealthSettings, Serving, Unready, bind};
use gwready::publish::Publisher;
use gwready_core::verdict::State;

use super::verdict::{answers, verdict};

/// A serving health port and agent-check port, on numbers that the kernel chose. Closed when dropped.
#[derive(Debug)]
pub struct Port {
    serving: Serving,
    publisher: Arc<Publisher>,
    judged: IpAddr,
}

impl Port {
    /// Serves without a verdict. `judged` is the judged address of the node: any in 127/8 can be connected to.
    pub fn open(unready: Unready, judged: IpAddr) -> Result<Self> {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let settings = HealthSettings { listen: any, agent_check: Some(any), unready, ..HealthSettings::default() };
        let publisher = Arc::new(Publisher::new(answers()));
        let serving = bind(settings)?.serve(Arc::clone(&publisher))?;
        Ok(Self { serving, publisher, judged })
    }

    /// Publishes a verdict in which everything is in this state.
    pub fn set(&self, state: State) {
        self.publisher.publish(verdict(state, &[self.judged]));
    }

    /// The health port on the judged address.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(self.judged, self.serving.address().context("no health port")?.port()))
    }

    /// The agent-check port on the judged address.
    pub fn agent_check(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(self.judged, self.serving.agent_check_address().context("no agent-check port")?.port()))
    }

    /// The server itself.
    #[must_use]
    pub const fn serving(&self) -> &Serving {
        &self.serving
    }
}
