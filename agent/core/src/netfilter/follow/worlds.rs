//! What can become of the packet: a set of worlds, each with a set of fates.
//!
//! Two kinds of doubt are kept apart. Where something differs between clients ([`Doubt::Client`]), both fates are in *one* world: some
//! connections have the one, some the other. Where something can't be told ([`Doubt::Undecided`]), the *world* is doubled: one of the
//! two is the real one. A world in which nothing passes is a node that serves nobody; a world in which something passes is not.
//! Two worlds that come to the same fates are one, so a doubt that does not matter leaves no trace.

use std::collections::BTreeSet;

use super::bits::Doubt;
use super::state::{Cause, End, Site, Stage, State, Taken, Uncertain};

/// More than this many worlds, or fates in one, are not followed.
const LIMIT: usize = 48;
/// Targets that are named.
const TARGETS: usize = 4;

/// One possible truth: all fates that some connection has in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct World {
    pub(super) states: BTreeSet<(Stage, State)>,
    pub(super) passes: bool,
    /// The first rule that drops some.
    pub(super) dropped: Option<Site>,
    /// The first rules that send some elsewhere.
    pub(super) redirected: Vec<Taken>,
    /// Why this world is not the only one.
    pub(super) cause: Option<Cause>,
}

impl World {
    fn same_fates(&self, other: &Self) -> bool {
        self.passes == other.passes
            && self.dropped.is_some() == other.dropped.is_some()
            && self.redirected.is_empty() == other.redirected.is_empty()
            && self.states == other.states
    }

    fn add(&mut self, other: &Self) {
        self.states.extend(other.states.iter().cloned());
        self.passes |= other.passes;
        self.dropped = self.dropped.or(other.dropped);
        self.name_targets(other);
        self.cause = self.cause.or(other.cause);
    }

    fn name_targets(&mut self, other: &Self) {
        for taken in &other.redirected {
            if self.redirected.len() < TARGETS && !self.redirected.iter().any(|known| known.to == taken.to) {
                self.redirected.push(*taken);
            }
        }
    }
}

/// All possible truths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Worlds {
    worlds: Vec<World>,
    /// There are more than are kept.
    pub(super) overflow: bool,
}

impl Worlds {
    pub(super) fn at(stage: Stage, state: State) -> Self {
        Self::one(World { states: BTreeSet::from([(stage, state)]), ..World::default() })
    }

    pub(super) fn end(end: End) -> Self {
        let mut world = World::default();
        match end {
            End::Dropped(site) => world.dropped = Some(site),
            End::Redirected(taken) => world.redirected = vec![taken],
            End::Passed => world.passes = true,
        }
        Self::one(world)
    }

    fn one(world: World) -> Self {
        Self { worlds: vec![world], overflow: false }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &World> {
        self.worlds.iter()
    }

    /// The only world is this one state.
    pub(super) fn is_only(&self, stage: Stage, state: &State) -> bool {
        match self.worlds.as_slice() {
            [only] => {
                let ended = only.passes || only.dropped.is_some() || !only.redirected.is_empty();
                !ended && only.states.len() == 1 && only.states.iter().all(|(at, known)| *at == stage && known == state)
            }
            _ => false,
        }
    }

    /// The states at a stage, in any world.
    pub(super) fn states(&self, stage: Stage) -> BTreeSet<&State> {
        self.worlds.iter().flat_map(|world| &world.states).filter(|(at, _)| *at == stage).map(|(_, state)| state).collect()
    }

    pub(super) fn split(self, other: &Self, uncertain: Uncertain) -> Self {
        match uncertain.doubt {
            Doubt::Client => self.some(other),
            Doubt::Undecided => self.either(other, uncertain.cause),
        }
    }

    /// Some connections have the one fate, some the other.
    pub(super) fn some(self, other: &Self) -> Self {
        let mut result = Self { worlds: Vec::new(), overflow: self.overflow || other.overflow };
        for one in &self.worlds {
            for two in &other.worlds {
                let mut world = one.clone();
                world.add(two);
                result.insert(world);
            }
        }
        result
    }

    /// Either all is the one or all is the other. The cause stands at worlds of which only one side knows.
    pub(super) fn either(self, other: &Self, cause: Cause) -> Self {
        let mut result = Self { worlds: Vec::new(), overflow: self.overflow || other.overflow };
        let shared = |world: &World, side: &Self| side.worlds.iter().any(|known| known.same_fates(world));
        for (side, opposite) in [(&self, other), (other, &self)] {
            for world in &side.worlds {
                let mut world = world.clone();
                if !shared(&world, opposite) {
                    world.cause = world.cause.or(Some(cause));
                }
                result.insert(world);
            }
        }
        result
    }

    /// Replaces each state at the stage by what becomes of it.
    pub(super) fn then(self, stage: Stage, mut next: impl FnMut(&State) -> Self) -> Self {
        let mut result = Self { worlds: Vec::new(), overflow: self.overflow };
        for world in self.worlds {
            let (moving, kept) = world.states.into_iter().partition(|(at, _)| *at == stage);
            let moving: BTreeSet<(Stage, State)> = moving;
            let earlier = world.cause;
            let mut product = Self::one(World { states: kept, cause: None, ..world });
            for (_, state) in &moving {
                product = product.some(&next(state));
            }
            result.overflow |= product.overflow;
            for mut world in product.worlds {
                // The last doubt on the way is the one that decided.
                world.cause = world.cause.or(earlier);
                result.insert(world);
            }
        }
        result
    }

    /// Moves all states from one stage to another.
    pub(super) fn moved(self, from: Stage, to: Stage) -> Self {
        self.then(from, |state| Self::at(to, state.clone()))
    }

    fn insert(&mut self, world: World) {
        if world.states.len() > LIMIT {
            self.overflow = true;
            return;
        }
        if let Some(known) = self.worlds.iter_mut().find(|known| known.same_fates(&world)) {
            known.name_targets(&world);
            return;
        }
        if self.worlds.len() < LIMIT {
            self.worlds.push(world);
        } else {
            self.overflow = true;
        }
    }
}
