//! The health port without the rest of the agent: the real server with a verdict that the test sets, byte-exact clients,
//! and the stand, a process of its own for tests of takeover, limits and real load balancers.

pub mod exchange;
pub mod port;
pub mod probe;
pub mod stand;
pub mod verdict;
