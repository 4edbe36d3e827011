//! `OwnedByEnvoy`: the socket that gets the client, and every member of its group, belongs to one live cilium-envoy.

use std::collections::BTreeSet;

use crate::condition::{ConditionType, Finding};
use crate::facts::Snapshot;
use crate::facts::processes::Owners;
use crate::facts::sockets::{Listener, SocketTable};
use crate::memory::Memory;
use crate::net::Endpoint;
use crate::policy::Policy;
use crate::reason::Reason;

use super::identity::{Doubt, Identity, identify};
use super::owner_text::describe_process;
use super::reach::{Reach, covers};

const KIND: ConditionType = ConditionType::OwnedByEnvoy;

/// Judges one endpoint. A socket that was proven Envoy's before and can't be identified now keeps its proof (Unknown holds);
/// a new one that can't be identified withdraws it, except one against which nothing speaks while the search for its holder runs:
/// a listener update of a big Envoy must not empty a pool.
#[must_use]
pub fn judge_owned(policy: &Policy, snapshot: &Snapshot, memory: &Memory, endpoint: Endpoint) -> Finding {
    let Some(table) = snapshot.sockets.value() else {
        return Finding::unknown(KIND, Reason::SocketsUnreadable, "the socket table could not be read");
    };
    let reach = Reach::of(table, endpoint);
    if reach.lookups == 0 {
        return Finding::unknown(KIND, Reason::SocketsUnreadable, "this address has not been looked up yet");
    }
    if reach.is_empty() {
        return Finding::unknown(KIND, Reason::Unidentified, "no listener to identify").lapsing();
    }
    let Some(owners) = snapshot.owners.value() else {
        return unidentified(&reach, memory, endpoint, &[(Doubt::Hidden, "the owners could not be read")]);
    };
    let scene = Scene { policy, table, owners, maps: snapshot.lb.maps_exist(), endpoint };
    judge_members(&scene, &reach, memory)
}

/// Everything the identification of a socket needs.
struct Scene<'a> {
    policy: &'a Policy,
    table: &'a SocketTable,
    owners: &'a Owners,
    maps: bool,
    endpoint: Endpoint,
}

struct Member<'a> {
    row: &'a Listener,
    picked: usize,
    identity: Identity,
}

fn judge_members(scene: &Scene<'_>, reach: &Reach<'_>, memory: &Memory) -> Finding {
    let members: Vec<Member<'_>> = reach
        .sockets
        .values()
        .map(|&(row, picked)| Member { row, picked, identity: identify(scene.policy, scene.owners, row, scene.maps) })
        .collect();
    if let Some(theft) = theft(scene, reach, &members) {
        return theft;
    }
    let doubts: Vec<(Doubt, &str)> = members.iter().filter_map(|member| member.identity.doubt()).collect();
    if !doubts.is_empty() {
        return unidentified(reach, memory, scene.endpoint, &doubts);
    }
    owned_by(scene.endpoint, &members)
}

/// Somebody else than Envoy can get a client: by a socket of its own, or by a copy of Envoy's descriptor.
fn theft(scene: &Scene<'_>, reach: &Reach<'_>, members: &[Member<'_>]) -> Option<Finding> {
    let endpoint = scene.endpoint;
    let taken: Vec<(&Member<'_>, u32)> = members.iter().filter_map(|m| Some((m, m.identity.foreign_pid()?))).collect();
    let (first, pid) = taken.first()?;
    let thief = describe_process(scene.owners, *pid);
    let envoy_takes_part = members.iter().any(|m| matches!(m.identity, Identity::Envoy { .. }));
    let finding = if envoy_takes_part {
        let stolen: usize = taken.iter().map(|(m, _)| m.picked).sum();
        let message = format!("{thief} shares {endpoint} with cilium-envoy");
        Finding::fails(KIND, Reason::SharedPort, message).with("share", format!("{stolen}/{}", reach.lookups))
    } else {
        taken_whole(scene, first, &thief)
    };
    Some(finding.with("thief", thief))
}

/// Only Envoys take part: one is right, two are not.
fn owned_by(endpoint: Endpoint, members: &[Member<'_>]) -> Finding {
    let pids: BTreeSet<u32> = members.iter().flat_map(|m| m.identity.envoy_pids()).collect();
    let list = pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    match pids.len() {
        0 => Finding::holds(KIND).with("owner", "cilium-envoy (by its socket marks)"),
        1 => Finding::holds(KIND).with("owner", format!("cilium-envoy[{list}]")),
        _ => Finding::fails(KIND, Reason::TwoEnvoys, format!("{endpoint} is shared by cilium-envoy processes {list}")).with("pids", list),
    }
}

/// No Envoy among the sockets that can be picked. If it listens on the port and its socket covers the address, the
/// kernel prefers the other one (more specific address, device, family): shadowed. Else the port is somebody else's.
fn taken_whole(scene: &Scene<'_>, thief: &Member<'_>, name: &str) -> Finding {
    let endpoint = scene.endpoint;
    let shadowed = scene.table.listeners.iter().any(|row| {
        row.id != thief.row.id
            && covers(row, endpoint, thief.row.bound_if)
            && matches!(identify(scene.policy, scene.owners, row, scene.maps), Identity::Envoy { .. })
    });
    if !shadowed {
        return Finding::fails(KIND, Reason::ForeignOwner, format!("{endpoint} belongs to {name}"));
    }
    let how = match (thief.row.bound_if, thief.row.address.to_canonical().is_unspecified()) {
        (0, false) => "bound to that address",
        (0, true) => "preferred by the kernel for that family",
        _ => "bound to the device (SO_BINDTODEVICE)",
    };
    Finding::fails(KIND, Reason::ShadowedAddress, format!("{name} takes {endpoint} from cilium-envoy: its socket is {how}"))
}

/// Some member could not be identified. If every socket here was proven Envoy's before, that proof is still about the
/// same sockets and may be kept for a while, unless another program turned out to hold one, which counts against the endpoint whatever is known; otherwise it is withdrawn.
fn unidentified(reach: &Reach<'_>, memory: &Memory, endpoint: Endpoint, doubts: &[(Doubt, &str)]) -> Finding {
    let gravest = doubts.iter().max_by_key(|(doubt, _)| *doubt);
    let finding = Finding::unknown(KIND, Reason::Unidentified, gravest.map_or("", |(_, why)| why));
    let proven = memory.proven.get(&endpoint);
    let is_proven = |cookie| proven.is_some_and(|cookies| cookies.contains(cookie));
    match gravest {
        Some((Doubt::Searching, _)) => finding,
        Some((Doubt::Hidden, _)) | None if reach.sockets.keys().all(is_proven) => finding,
        Some((Doubt::Hidden, _)) | None => finding.lapsing(),
        Some((Doubt::Imitated, _)) => finding.disproving(),
    }
}

/// The cookies to remember as proven Envoy's after a True.
#[must_use]
pub fn proven_cookies(snapshot: &Snapshot, endpoint: Endpoint) -> BTreeSet<u64> {
    snapshot.sockets.value().map(|table| Reach::of(table, endpoint).sockets.keys().copied().collect()).unwrap_or_default()
}

#[cfg(test)]
#[path = "owned_tests.rs"]
mod tests;
