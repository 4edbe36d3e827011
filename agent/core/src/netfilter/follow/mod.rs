//! Follows a synthetic new TCP connection through the rules: prerouting (raw, mangle, nat), routing, input (mangle, filter, security),
//! legacy and nf_tables chains in the order of their priorities.
//!
//! # What an answer means
//!
//! Three values all the way: an expression matches, does not match, or may match, and there are two kinds of *may*.
//!
//! * **It differs between connections**: the client's address and port, a rate, a limit of connections, an interface that is not known.
//!   Then some connections have the one fate and some the other, in the same world.
//! * **It can't be told**: an expression that is not evaluated, a set that packets fill, a program that decides, chance.
//!   Then there are two worlds, and one of them is real.
//!
//! | the worlds | answer |
//! |---|---|
//! | in each something passes, and nothing else happens | [`Passes`](NetfilterPath::Passes) |
//! | in each something passes, in some also something is taken | [`PassesForSome`](NetfilterPath::PassesForSome): no fault of the node |
//! | in none anything passes, something is sent elsewhere | [`Redirected`](NetfilterPath::Redirected) |
//! | in none anything passes, all is dropped | [`Dropped`](NetfilterPath::Dropped) |
//! | else: in one something passes, in another nothing | [`Unclear`](NetfilterPath::Unclear), with the expression that decides |
//!
//! So a ban list, a rate limit, a port that is open to one network, and a redirect of the pods' own connections never make a node doubtful,
//! and never take it down: they say that some clients are served otherwise. Every client is dropped only where no way leads through.
//! An unknown expression that guards nothing leaves no trace.
//!
//! What an ordinary client is: no IP options or extension headers, no fragments, not by IPsec, not from an address of this node, mark 0
//! (Cilium's programs mark only what they send to a proxy port, which the maps tell). A rewritten destination that is not this node's
//! is a redirect at once; one that is has to pass the input hook first. A translation to the very same address and port is none.
//! Cilium's own TPROXY (chain `CILIUM_PRE_mangle`, mark 0x200) is no redirect.

mod bits;
mod connection;
mod index;
mod load;
mod nat;
mod rule;
mod sets;
pub(crate) mod state;
mod step;
mod walk;
mod worlds;
mod xt_match;
mod xt_target;

pub(crate) use connection::octets;
pub use connection::{Connection, Ingress};
pub use index::Follower;

use std::collections::BTreeSet;

use connection::Packet;
use index::Base;
use state::{Cause, Site};
use walk::Walk;
use worlds::Worlds;

use super::render::{render_cause, render_site, render_targets};
use super::ruleset::Ruleset;
use crate::facts::steering::NetfilterPath;

/// What becomes of a connection, and what was looked at to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// What becomes of it.
    pub path: NetfilterPath,
    /// The chains that it met, by the place of their table in the ruleset and their own in the table.
    pub chains: BTreeSet<(usize, usize)>,
}

/// One connection through a ruleset. For several, prepare a [`Follower`] once.
#[must_use]
pub fn follow(ruleset: &Ruleset, connection: &Connection) -> NetfilterPath {
    Follower::new(ruleset).follow(connection)
}

impl<'a> Follower<'a> {
    /// What becomes of a connection.
    #[must_use]
    pub fn follow(&self, connection: &Connection) -> NetfilterPath {
        self.follow_through(connection).path
    }

    /// As [`Follower::follow`], with the chains that were met. Rules of other chains do not matter to the answer: who reads rules
    /// can begin with none, and read those of the chains that are met until no new one is.
    #[must_use]
    pub fn follow_through(&self, connection: &Connection) -> Followed {
        let mut chains = BTreeSet::new();
        let bases: Vec<Base<'a>> = self.bases().iter().filter(|base| base.sees(connection.family())).copied().collect();
        let interfaces: Vec<Option<&Ingress>> =
            if connection.ingress.is_empty() { vec![None] } else { connection.ingress.iter().map(Some).collect() };
        let mut gave_up = None;
        let mut all: Option<Worlds> = None;
        for ingress in interfaces {
            let mut walk = Walk::new(self, Packet { connection, ingress });
            let one = by_interface(&mut walk, &bases);
            gave_up = gave_up.or(walk.gave_up);
            chains.append(&mut walk.met);
            all = Some(match all {
                Some(worlds) => worlds.some(&one),
                None => one,
            });
        }
        let path = all.map_or(NetfilterPath::Passes, |worlds| self.answer(&worlds, gave_up));
        Followed { path, chains }
    }

    fn answer(&self, worlds: &Worlds, gave_up: Option<Site>) -> NetfilterPath {
        let rule = |site: Site| render_site(self.ruleset(), site);
        if worlds.overflow {
            let site = gave_up.or_else(|| self.bases().first().map(|base| base.site));
            return NetfilterPath::Unclear {
                because: site.map_or_else(String::new, |site| render_cause(self.ruleset(), Cause::TooMany(site))),
            };
        }
        let taken = |world: &&worlds::World| world.dropped.is_some() || !world.redirected.is_empty();
        let passing = worlds.iter().filter(|world| world.passes).count();
        let targets: Vec<_> = worlds.iter().flat_map(|world| &world.redirected).copied().collect();
        let dropped = worlds.iter().find_map(|world| world.dropped);
        if passing == worlds.iter().count() {
            return match (targets.first(), dropped) {
                (Some(first), _) => {
                    NetfilterPath::PassesForSome { but: format!("others go to {}: {}", render_targets(&targets), rule(first.site)) }
                }
                (None, Some(site)) => NetfilterPath::PassesForSome { but: format!("others are dropped: {}", rule(site)) },
                (None, None) => NetfilterPath::Passes,
            };
        }
        if passing == 0 {
            return match (targets.first(), dropped) {
                (Some(first), _) => NetfilterPath::Redirected { to: render_targets(&targets), rule: rule(first.site) },
                (None, Some(site)) => NetfilterPath::Dropped { rule: rule(site) },
                (None, None) => NetfilterPath::Passes,
            };
        }
        let blame = worlds.iter().filter(taken).filter(|world| !world.passes).find_map(|world| world.cause);
        let cause = blame.or_else(|| worlds.iter().find_map(|world| world.cause));
        NetfilterPath::Unclear { because: cause.map_or_else(String::new, |cause| render_cause(self.ruleset(), cause)) }
    }
}

/// Chains with one place in the order are followed as they were dumped and the other way round: the kernel puts the one that was
/// registered last first, and a dump does not tell.
fn by_interface<'a>(walk: &mut Walk<'_, 'a>, bases: &[Base<'a>]) -> Worlds {
    let worlds = walk.run(bases);
    let tied = bases.windows(2).find_map(|pair| match pair {
        [one, two] if one.place() == two.place() => Some(one.site),
        _ => None,
    });
    let Some(site) = tied else { return worlds };
    let mut reversed: Vec<Base<'a>> = bases.iter().rev().copied().collect();
    reversed.sort_by_key(Base::place);
    let other = walk.run(&reversed);
    worlds.either(&other, Cause::Order(site))
}
