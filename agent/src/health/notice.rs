//! Bounded warnings about clients whose configuration cannot work: once per peer address, the last 64 remembered.

use std::collections::VecDeque;
use std::net::IpAddr;

/// How many peers are remembered; a peer pushed out by others may be warned about again.
const REMEMBERED: usize = 64;

/// The peers warned about.
#[derive(Debug, Default)]
pub(super) struct Noticed {
    peers: VecDeque<IpAddr>,
}

impl Noticed {
    /// True the first time for this peer.
    pub(super) fn is_new(&mut self, peer: IpAddr) -> bool {
        if self.peers.contains(&peer) {
            return false;
        }
        if self.peers.len() == REMEMBERED {
            self.peers.pop_front();
        }
        self.peers.push_back(peer);
        true
    }
}

/// A versionless request while down is answered by a body: with an empty receive string that means "up".
pub(super) fn warn_versionless(noticed: &mut Noticed, peer: IpAddr) {
    if noticed.is_new(peer) {
        tracing::warn!(
            %peer,
            "health monitor sends a request without HTTP version (stock BIG-IP send string): with an empty receive string every \
             answer counts as up; set the receive string to state=up, or health.unready to close (docs/load-balancers.md)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_once_and_no_more_than_64_are_remembered() {
        let mut noticed = Noticed::default();
        let peer = |n: u8| IpAddr::from([10, 0, 0, n]);
        assert!(noticed.is_new(peer(0)));
        assert!(!noticed.is_new(peer(0)));
        for n in 1..=64 {
            assert!(noticed.is_new(peer(n)));
        }
        assert_eq!(noticed.peers.len(), REMEMBERED);
        assert!(noticed.is_new(peer(0)), "forgotten after 64 others");
    }
}
