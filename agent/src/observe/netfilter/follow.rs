//! Asks the core what the rules do with each wanted connection, and says which connections are wanted. Must not read anything.

use gwready_core::facts::addresses::AddressTable;
use gwready_core::facts::steering::NetfilterPath;
use gwready_core::net::Endpoint;
use gwready_core::netfilter::follow::{Connection, Follower, Ingress};
use gwready_core::netfilter::ruleset::Ruleset;
use gwready_core::plan::ReadPlan;

use super::nft::Chains;

/// The connections that the rules are followed for.
pub type Wanted = Vec<Connection>;

/// A client's connection to each endpoint of the plan, by the interface on which its clients are expected.
#[must_use]
pub fn wanted_connections(plan: &ReadPlan, table: &AddressTable) -> Wanted {
    let local: Vec<_> = table.addresses.iter().map(|address| address.ip).collect();
    let connection = |(destination, ifindex): (Endpoint, u32)| {
        let addresses = || table.addresses.iter().filter(|address| address.ifindex == ifindex).map(|address| address.ip).collect();
        let ingress = |name: &str| Ingress { index: ifindex, name: name.to_owned(), addresses: addresses() };
        Connection {
            // A link that is not known: any.
            ingress: table.link(ifindex).map(|link| ingress(&link.name)).into_iter().collect(),
            local: local.clone(),
            ..Connection::to(destination)
        }
    };
    plan.endpoints().map(connection).collect()
}

/// The path of each wanted connection, and the chains that any of them met. `transparent` are the transparent listeners, where they matter
/// and are known.
pub(super) fn follow_all(
    ruleset: &Ruleset,
    wanted: &Wanted,
    transparent: Option<&Vec<Endpoint>>,
) -> (Vec<(Endpoint, NetfilterPath)>, Chains) {
    let follower = Follower::new(ruleset);
    let mut chains = Chains::new();
    let mut paths = Vec::with_capacity(wanted.len());
    for connection in wanted {
        let mut followed = follower.follow_through(&Connection { transparent: transparent.cloned(), ..connection.clone() });
        chains.append(&mut followed.chains);
        paths.push((connection.destination, followed.path));
    }
    (paths, chains)
}
