//! Steering by an sk_lookup program: the kernel's own lookup picks a socket that the socket table can't explain.

use std::net::IpAddr;

use super::KIND;
use crate::condition::Finding;
use crate::facts::Snapshot;
use crate::facts::sockets::{Listener, Lookup};
use crate::net::{Endpoint, Family};
use crate::reason::Reason;

/// False `SkLookup` where a lookup for this endpoint picked a foreign socket that no bind explains, or none although one is bound and
/// programs are attached. Unknown where the steered-to socket's owner can't be told. None where every lookup is explained.
#[must_use]
pub fn sk_lookup_finding(snapshot: &Snapshot, endpoint: Endpoint, is_envoy: &impl Fn(&Listener) -> Option<bool>) -> Option<Finding> {
    let sockets = snapshot.sockets.value()?;
    let programs = snapshot.steering.value().map(|programs| programs.ids.as_slice()).unwrap_or_default();
    let shown = programs.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let lookups: Vec<&Lookup> = sockets.lookups.iter().filter(|lookup| same(lookup.endpoint, endpoint)).collect();
    let steered = lookups.iter().find_map(|lookup| lookup.picked.as_ref().filter(|picked| !explains(picked, endpoint, lookup.ingress_if)));
    if let Some(picked) = steered {
        let to = format!("{} (inode {})", Endpoint { address: picked.address, port: picked.port }, picked.id.inode);
        let finding = match is_envoy(picked) {
            Some(true) => return None,
            Some(false) => {
                Finding::fails(KIND, Reason::SkLookup, format!("an sk_lookup program steers connections to {endpoint} to the socket {to}"))
            }
            None => {
                let message = format!("connections to {endpoint} are steered to the socket {to}, whose owner can't be told");
                Finding::unknown(KIND, Reason::Unidentified, message)
            }
        };
        return Some(finding.with("thief", to).with("programs", shown));
    }
    let swallowed = lookups
        .iter()
        .find(|lookup| lookup.picked.is_none() && sockets.listeners.iter().any(|listener| explains(listener, endpoint, lookup.ingress_if)));
    if swallowed.is_some() && !programs.is_empty() {
        let message = format!("an sk_lookup program refuses connections to {endpoint} although a socket listens there");
        return Some(Finding::fails(KIND, Reason::SkLookup, message).with("programs", shown));
    }
    None
}

fn same(a: Endpoint, b: Endpoint) -> bool {
    a.port == b.port && a.address.to_canonical() == b.address.to_canonical()
}

/// Whether the kernel's ordinary rules can pick this listener: port, address and device agree (`compute_score` in
/// `net/ipv4/inet_hashtables.c` and `net/ipv6/inet6_hashtables.c`).
fn explains(listener: &Listener, endpoint: Endpoint, ingress_if: u32) -> bool {
    let address = listener.address.to_canonical();
    let covers = match (listener.family, endpoint.front().family) {
        (Family::Ipv4, Family::Ipv4) | (Family::Ipv6, Family::Ipv6) => address == endpoint.address || listener.address.is_unspecified(),
        (Family::Ipv6, Family::Ipv4) => {
            let dual = listener.address == IpAddr::from([0_u16; 8]) && listener.v6only != Some(true);
            dual || address == endpoint.address || address == IpAddr::from([0_u8; 4])
        }
        (Family::Ipv4, Family::Ipv6) => false,
    };
    listener.port == endpoint.port && covers && (listener.bound_if == 0 || listener.bound_if == ingress_if)
}
