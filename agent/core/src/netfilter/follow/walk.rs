//! The walk through chains: base chains in order, jumps and returns, policies, the routing decision between prerouting and input.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::connection::Packet;
use super::index::{Base, Follower};
use super::state::{Address, Cause, End, Site, Stage, State};
use super::worlds::Worlds;
use crate::netfilter::ruleset::{ChainKind, Hook, Policy};

/// Jumps that the kernel allows within each other (`NFT_JUMP_STACK_SIZE`).
const DEPTH: usize = 16;

/// The rule that is looked at.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) base: Base<'a>,
    pub(super) site: Site,
    pub(super) depth: usize,
}

/// One walk of one packet.
pub(super) struct Walk<'f, 'a> {
    pub(super) follower: &'f Follower<'a>,
    pub(super) packet: Packet<'f>,
    memo: HashMap<(Site, Site, State), Rc<Worlds>>,
    /// Rules that may still be looked at: many times as many as there are, so that only nonsense runs out of them.
    budget: usize,
    /// Where it was given up.
    pub(super) gave_up: Option<Site>,
    /// Chains that were entered, by their table's and their own place.
    pub(super) met: BTreeSet<(usize, usize)>,
}

impl<'f, 'a> Walk<'f, 'a> {
    pub(super) fn new(follower: &'f Follower<'a>, packet: Packet<'f>) -> Self {
        let budget = 20_000 + 8 * follower.size();
        Self { follower, packet, memo: HashMap::new(), budget, gave_up: None, met: BTreeSet::new() }
    }

    /// From the wire to the socket.
    pub(super) fn run(&mut self, bases: &[Base<'a>]) -> Worlds {
        let destination = self.packet.connection.destination;
        let mut worlds = Worlds::at(Stage::Live, State::fresh(destination.address.to_canonical(), destination.port));
        let mut routed = false;
        for base in bases {
            if base.chain.hook == Hook::Input && !routed {
                routed = true;
                worlds = self.route(worlds);
            }
            worlds = worlds.then(Stage::Live, |state| self.base_chain(*base, state));
        }
        self.route(worlds).then(Stage::Live, |state| Worlds::end(state.taken.map_or(End::Passed, End::Redirected)))
    }

    /// A rewritten destination that is not this node's leaves for good.
    fn route(&self, worlds: Worlds) -> Worlds {
        worlds.then(Stage::Live, |state| {
            let leaves = state.taken.filter(|taken| match state.address {
                Some(address) => !self.packet.connection.is_local(address),
                None => taken.to.address != Address::Local,
            });
            leaves.map_or_else(|| Worlds::at(Stage::Live, state.clone()), |taken| Worlds::end(End::Redirected(taken)))
        })
    }

    fn base_chain(&mut self, base: Base<'a>, state: &State) -> Worlds {
        let unmoved = || Worlds::at(Stage::Live, state.clone());
        let nat = base.chain.kind == ChainKind::Nat;
        if nat && (state.untracked || (state.translated && base.chain.hook == Hook::Prerouting)) {
            return unmoved();
        }
        let walked = |walk: &mut Self| {
            let worlds = walk.chain(At { base, site: base.site, depth: 0 }, state);
            let at_policy = worlds.then(Stage::Returned, |state| match base.chain.policy {
                Policy::Accept => Worlds::at(Stage::Accepted, state.clone()),
                Policy::Drop => Worlds::end(End::Dropped(base.site)),
            });
            at_policy.moved(Stage::Accepted, Stage::Live)
        };
        match (base.chain.hook, self.packet.ingress) {
            (Hook::Ingress, Some(ingress)) => {
                let here = base.chain.devices.iter().any(|device| names(device, &ingress.name));
                if here { walked(self) } else { unmoved() }
            }
            // Clients come in here, or elsewhere.
            (Hook::Ingress, None) => walked(self).some(&unmoved()),
            _ => walked(self),
        }
    }

    /// A chain from its first rule. What went through stands at [`Stage::Returned`].
    pub(super) fn chain(&mut self, at: At<'a>, state: &State) -> Worlds {
        let key = (at.base.site, Site { rule: None, ..at.site }, state.clone());
        if let Some(known) = self.memo.get(&key) {
            return known.as_ref().clone();
        }
        self.met.insert((at.site.table, at.site.chain));
        let worlds = self.rules(at, state);
        self.memo.insert(key, Rc::new(worlds.clone()));
        worlds
    }

    fn rules(&mut self, at: At<'a>, state: &State) -> Worlds {
        let Some(chain) = self.follower.chain(at.site.table, at.site.chain) else { return self.give_up(at.site) };
        let mut worlds = Worlds::at(Stage::Live, state.clone());
        let mut live = vec![state.clone()];
        for (number, rule) in chain.rules.iter().enumerate() {
            let here = At { site: Site { rule: Some(number), ..at.site }, ..at };
            if self.budget < live.len() {
                return self.give_up(here.site);
            }
            self.budget -= live.len();
            let changed = |state: &State| self.rule(here, rule, state).map(|worlds| (state.clone(), worlds));
            let results: Vec<(State, Worlds)> = live.iter().filter_map(changed).collect();
            if results.is_empty() {
                continue;
            }
            worlds = worlds.then(Stage::Live, |state| {
                let changed = results.iter().find(|(known, _)| known == state);
                changed.map_or_else(|| Worlds::at(Stage::Live, state.clone()), |(_, worlds)| worlds.clone())
            });
            live = worlds.states(Stage::Live).into_iter().cloned().collect();
            if live.is_empty() {
                break;
            }
        }
        worlds.moved(Stage::Live, Stage::Returned)
    }

    /// A jump, or a goto, whose chain returns to the caller of this one.
    pub(super) fn jump(&mut self, at: At<'a>, name: &str, goto: bool, state: &State) -> Worlds {
        let Some(chain) = self.follower.chain_named(at.site.table, name) else { return self.give_up(at.site) };
        if at.depth >= DEPTH {
            return self.give_up(at.site);
        }
        let site = Site { chain, rule: None, ..at.site };
        let worlds = self.chain(At { site, depth: at.depth + 1, ..at }, state);
        if goto { worlds } else { worlds.moved(Stage::Returned, Stage::Live) }
    }

    /// No answer from here.
    pub(super) fn give_up(&mut self, site: Site) -> Worlds {
        self.gave_up = self.gave_up.or(Some(site));
        let mut worlds = Worlds::end(End::Dropped(site));
        worlds.overflow = true;
        worlds
    }

    /// One of the two, and it can't be told which.
    pub(super) fn either(site: Site, expr: usize, one: Worlds, two: &Worlds) -> Worlds {
        one.either(two, Cause::Expression(site, expr))
    }
}

/// A device of an ingress hook; `eth*` stands for all that begin so.
fn names(device: &str, name: &str) -> bool {
    device.strip_suffix('*').map_or_else(|| device == name, |prefix| name.starts_with(prefix))
}
